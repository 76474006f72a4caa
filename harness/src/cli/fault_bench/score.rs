//! What came of each fault, and what all of them come to.

use std::fmt;

use serde::Serialize;

use super::file::{AtLeast, AtMost, Fault};
use crate::Class;
use crate::diagnose::{FactKind, Kind};
use crate::run::{Account, Culprit, Ending, Finding, Verdict};
use crate::spec::RESERVED;

/// A checkpoint that is red, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Place {
    pub(super) checkpoint: String,
    pub(super) class: Class,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.checkpoint, self.class)
    }
}

/// What was found of a port.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Found {
    /// Whether anything was red in the free run.
    pub(super) caught: bool,
    /// The first red checkpoint of the free run.
    pub(super) first: Option<Place>,
    /// The first faulty stage.
    pub(super) culprit: Option<Place>,
    /// What is said of the culprit, best first.
    pub(super) causes: Vec<Kind>,
    /// What is seen of it where nothing explains it.
    pub(super) facts: Vec<FactKind>,
}

impl Found {
    /// Reads it from what the run says, and from what it comes to.
    pub(super) fn of(account: &Account, finding: Option<&Finding>) -> Self {
        let (culprit, causes, facts) = match finding {
            Some(Finding::Culprit(Culprit { name, class, causes, facts, .. })) => {
                (Some(Place { checkpoint: name.clone(), class: *class }), &causes[..], &facts[..])
            }
            Some(Finding::Right | Finding::Drift(_) | Finding::Unknown(_)) | None => (None, &[][..], &[][..]),
        };
        Self {
            caught: account.is_red(),
            first: checkpoints(account).find_map(red),
            culprit,
            causes: causes.iter().map(|cause| cause.kind).collect(),
            facts: facts.iter().map(|fact| fact.kind).collect(),
        }
    }
}

fn checkpoints(account: &Account) -> impl Iterator<Item = &Ending> {
    account.endings.iter().filter(|ending| !RESERVED.contains(&ending.name.as_str()))
}

fn red(ending: &Ending) -> Option<Place> {
    match &ending.verdict {
        Verdict::Failed { class, .. } => Some(Place { checkpoint: ending.name.clone(), class: *class }),
        Verdict::Passed | Verdict::NotGated(_) | Verdict::Pending(_) => None,
    }
}

/// Alarms about a port that is right: red checkpoints, and causes of what is not wrong.
pub(super) fn alarms(account: &Account, told: &str) -> Vec<String> {
    let red = checkpoints(account).filter_map(red).map(|place| format!("{place} {told}"));
    let causes = account.story.records().flat_map(|record| {
        record.causes.iter().map(move |cause| format!("{} at {} {told}", cause.kind, record.checkpoint))
    });
    red.chain(causes).collect()
}

/// A fault with what was found of it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) spec: String,
    pub(super) fault: Fault,
    pub(super) found: Found,
}

impl Row {
    /// Whether it is where the row says, of the class that it says, and first seen there.
    pub(super) fn is_placed(&self) -> bool {
        let is = |place: &Option<Place>, name: &str, class: Option<Class>| {
            place.as_ref().is_some_and(|place| {
                place.checkpoint == name && class.is_none_or(|class| place.class == class)
            })
        };
        let Fault { culprit, class, .. } = &self.fault;
        is(&self.found.culprit, culprit, Some(*class)) && is(&self.found.first, self.fault.first(), None)
    }

    /// Whether the first thing that is said of it is true; nothing where nothing is expected.
    pub(super) fn is_explained(&self) -> Option<bool> {
        self.fault.cause?;
        Some(self.found.causes.first().is_some_and(|kind| self.fault.allows(*kind)))
    }

    /// Whether the fact that is expected is among those that are seen; nothing where none is expected.
    pub(super) fn is_seen(&self) -> Option<bool> {
        self.fault.fact.map(|fact| self.found.facts.contains(&fact))
    }

    /// What is said of it and is not true.
    pub(super) fn wrong_causes(&self) -> impl Iterator<Item = Kind> {
        self.found.causes.iter().copied().filter(|kind| !self.fault.allows(*kind))
    }

    /// Whether there is nothing left to wish for.
    pub(super) fn is_right(&self) -> bool {
        self.found.caught
            && self.is_placed()
            && self.is_explained().unwrap_or(true)
            && self.is_seen().unwrap_or(true)
            && self.wrong_causes().next().is_none()
    }
}

/// What all rows come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Score {
    pub(super) faults: usize,
    pub(super) caught: usize,
    pub(super) placed: usize,
    /// Faults that have a cause which values can tell.
    pub(super) explicable: usize,
    pub(super) cause: usize,
    /// Faults that nothing explains and that show a fact.
    pub(super) telling: usize,
    pub(super) facts: usize,
    pub(super) wrong_causes: usize,
    pub(super) false_alarms: usize,
}

impl Score {
    pub(super) fn of(rows: &[Row], false_alarms: usize) -> Self {
        let count = |test: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| test(row)).count();
        Self {
            faults: rows.len(),
            caught: count(&|row| row.found.caught),
            placed: count(&|row| row.is_placed()),
            explicable: count(&|row| row.fault.cause.is_some()),
            cause: count(&|row| row.is_explained() == Some(true)),
            telling: count(&|row| row.fault.fact.is_some()),
            facts: count(&|row| row.is_seen() == Some(true)),
            wrong_causes: rows.iter().map(|row| row.wrong_causes().count()).sum(),
            false_alarms,
        }
    }

    /// What is not held, one line each. Of a part of the faults, only what must not rise can be demanded.
    pub(super) fn broken(&self, at_least: AtLeast, at_most: AtMost, is_part: bool) -> Vec<String> {
        let fell = [
            ("caught", self.caught, at_least.caught),
            ("placed", self.placed, at_least.placed),
            ("cause", self.cause, at_least.cause),
            ("facts", self.facts, at_least.facts),
        ];
        let rose = [
            ("wrong causes", self.wrong_causes, at_most.wrong_causes),
            ("false alarms", self.false_alarms, at_most.false_alarms),
        ];
        let fell = fell.into_iter().filter(|(_, is, least)| !is_part && is < least);
        let fell = fell.map(|(what, is, least)| format!("{what} is {is}, at least {least} demanded"));
        let rose = rose.into_iter().filter(|(_, is, most)| is > most);
        fell.chain(rose.map(|(what, is, most)| format!("{what}: {is}, at most {most} allowed"))).collect()
    }

    /// What could be demanded, where that is more than is.
    pub(super) fn better(&self, at_least: AtLeast, at_most: AtMost) -> bool {
        self.caught > at_least.caught
            || self.placed > at_least.placed
            || self.cause > at_least.cause
            || self.facts > at_least.facts
            || self.wrong_causes < at_most.wrong_causes
            || self.false_alarms < at_most.false_alarms
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { faults, caught, placed, explicable, cause, telling, facts, wrong_causes, false_alarms } =
            self;
        write!(
            f,
            "caught {caught}/{faults}, placed {placed}/{faults}, cause {cause}/{explicable}, \
             facts {facts}/{telling}, wrong causes {wrong_causes}, false alarms {false_alarms}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(expected: &str, found: Found) -> Row {
        let fault = serde_saphyr::from_str(expected).unwrap();
        Row { spec: "a/b".to_owned(), fault, found }
    }

    fn found(checkpoint: &str, class: Class, causes: &[Kind]) -> Found {
        let place = Some(Place { checkpoint: checkpoint.to_owned(), class });
        Found {
            caught: true,
            first: place.clone(),
            culprit: place,
            causes: causes.to_vec(),
            facts: Vec::new(),
        }
    }

    const EPS: &str = "{fault: eps, culprit: norm, class: value, cause: norm_eps, or: [token_factor]}";
    const WEIGHTS: &str = "{fault: weights, culprit: out, class: value, cause: none}";
    const AT_LEAST: AtLeast = AtLeast { caught: 1, placed: 1, cause: 1, facts: 0 };
    const AT_MOST: AtMost = AtMost { wrong_causes: 0, false_alarms: 0 };

    #[test]
    fn a_fault_that_is_found_and_named_is_right() {
        for cause in [Kind::NormEps, Kind::TokenFactor] {
            let row = row(EPS, found("norm", Class::Value, &[cause]));
            assert!(row.is_right());
            let score = Score::of(&[row], 0);
            assert_eq!(
                score.to_string(),
                "caught 1/1, placed 1/1, cause 1/1, facts 0/0, wrong causes 0, false alarms 0"
            );
            assert!(score.broken(AT_LEAST, AT_MOST, false).is_empty());
        }
        assert!(row(WEIGHTS, found("out", Class::Value, &[])).is_right());
    }

    #[test]
    fn what_is_not_true_is_a_wrong_cause_wherever_it_stands() {
        let second = row(EPS, found("norm", Class::Value, &[Kind::NormEps, Kind::Factor]));
        assert_eq!(second.is_explained(), Some(true));
        let first = row(EPS, found("norm", Class::Value, &[Kind::Factor, Kind::NormEps]));
        assert_eq!(first.is_explained(), Some(false));
        let of_nothing = row(WEIGHTS, found("out", Class::Value, &[Kind::Crossed]));
        assert_eq!(of_nothing.is_explained(), None);
        for row in [second, first, of_nothing] {
            assert!(!row.is_right());
            let broken = Score::of(&[row], 0).broken(AT_LEAST, AT_MOST, true);
            assert_eq!(broken, ["wrong causes: 1, at most 0 allowed"]);
        }
    }

    #[test]
    fn a_fact_is_counted_apart_and_others_do_no_harm() {
        let expected = "{fault: head, culprit: out, class: value, cause: none, fact: uncorrelated}";
        let of = |facts: &[FactKind]| {
            row(expected, Found { facts: facts.to_vec(), ..found("out", Class::Value, &[]) })
        };
        let seen = of(&[FactKind::PartAgrees, FactKind::Uncorrelated]);
        assert!(seen.is_right());
        let score = Score::of(&[seen], 0).to_string();
        assert_eq!(score, "caught 1/1, placed 1/1, cause 0/0, facts 1/1, wrong causes 0, false alarms 0");
        let unseen = of(&[FactKind::Constant]);
        assert!(!unseen.is_right());
        let at_least = AtLeast { cause: 0, facts: 1, ..AT_LEAST };
        let broken = Score::of(&[unseen], 0).broken(at_least, AT_MOST, false);
        assert_eq!(broken, ["facts is 0, at least 1 demanded"]);
    }

    #[test]
    fn another_place_class_or_first_is_not_placed() {
        let elsewhere = row(EPS, found("out", Class::Value, &[]));
        let otherwise = row(EPS, found("norm", Class::Shape, &[]));
        let first = Some(Place { checkpoint: "out".to_owned(), class: Class::Value });
        let later = row(EPS, Found { first, ..found("norm", Class::Value, &[]) });
        let nowhere = row(EPS, Found { culprit: None, ..found("norm", Class::Value, &[]) });
        for row in [elsewhere, otherwise, later, nowhere] {
            assert!(!row.is_placed() && !row.is_right());
            let broken = Score::of(&[row], 2).broken(AT_LEAST, AT_MOST, false);
            assert_eq!(
                broken,
                [
                    "placed is 0, at least 1 demanded",
                    "cause is 0, at least 1 demanded",
                    "false alarms: 2, at most 0 allowed"
                ]
            );
        }
    }
}
