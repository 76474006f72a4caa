//! The result of each fault, and the score of all faults.

use std::fmt;

use serde::Serialize;

use super::file::{AtLeast, AtMost, Fault};
use mlx_parity_core::diagnose::{Cause, CauseKind, FactKind, RecipeUse};
use mlx_parity_core::gate::Class;
use mlx_parity_core::results::{ADAPTERS, Account, Culprit, Localisation, TrialOutcome, TrialResult};
use mlx_parity_core::spec::RESERVED;

/// A red checkpoint with its class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct RedCheckpoint {
    /// The name of the checkpoint.
    pub(super) checkpoint: String,
    /// The class of its failure.
    pub(super) class: Class,
}

impl fmt::Display for RedCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.checkpoint, self.class)
    }
}

/// The result of one port.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Found {
    /// Whether anything was red in the free run.
    pub(super) caught: bool,
    /// The first red checkpoint of the free run.
    pub(super) first: Option<RedCheckpoint>,
    /// The first faulty stage.
    pub(super) culprit: Option<RedCheckpoint>,
    /// The reported causes of the first faulty stage, best first.
    pub(super) causes: Vec<CauseKind>,
    /// The reported facts, where no cause explains the error.
    pub(super) facts: Vec<FactKind>,
    /// Kinds of other changes that predict the same as the best cause, and are reported with it.
    pub(super) also: Vec<CauseKind>,
    /// The causes in words, with the line of the reference.
    pub(super) words: Vec<String>,
    /// Whether the recipe of the first faulty stage was of use.
    pub(super) recipe: RecipeUse,
    /// With which text the trial of the adapters failed.
    pub(super) adapters: Option<String>,
}

impl Found {
    /// Collects the result from an account and its localisation.
    pub(super) fn of(account: &Account, localisation: Option<&Localisation>) -> Self {
        let found = Self {
            caught: account.is_red(),
            first: checkpoints(account).find_map(red),
            culprit: None,
            causes: Vec::new(),
            facts: Vec::new(),
            also: Vec::new(),
            words: Vec::new(),
            recipe: RecipeUse::None,
            adapters: account.trial(ADAPTERS).and_then(|trial| match &trial.outcome {
                TrialOutcome::Failed { line, .. } => Some(line.clone()),
                _ => None,
            }),
        };
        let Some(Localisation::Culprit(culprit)) = localisation else { return found };
        let Culprit { name, class, causes, facts, recipe, .. } = culprit;
        Self {
            culprit: Some(RedCheckpoint { checkpoint: name.clone(), class: *class }),
            causes: causes.iter().map(|cause| cause.kind).collect(),
            facts: facts.iter().map(|fact| fact.kind).collect(),
            also: causes.first().map(|cause| cause.also.clone()).unwrap_or_default(),
            words: causes.iter().map(Cause::words).collect(),
            recipe: *recipe,
            ..found
        }
    }
}

fn checkpoints(account: &Account) -> impl Iterator<Item = &TrialResult> {
    account.trials.iter().filter(|trial| !RESERVED.contains(&trial.name.as_str()))
}

fn red(trial: &TrialResult) -> Option<RedCheckpoint> {
    match &trial.outcome {
        TrialOutcome::Failed { class, .. } => {
            Some(RedCheckpoint { checkpoint: trial.name.clone(), class: *class })
        }
        TrialOutcome::Passed
        | TrialOutcome::New(_)
        | TrialOutcome::NotGated(_)
        | TrialOutcome::Approved(_)
        | TrialOutcome::Pending(_) => None,
    }
}

/// The false alarms of a port without a fault: its red checkpoints, and every reported cause. `port` ends each line.
pub(super) fn alarms(account: &Account, port: &str) -> Vec<String> {
    let adapters = account.trial(ADAPTERS).into_iter();
    let red = checkpoints(account).chain(adapters).filter_map(red).map(|place| format!("{place} {port}"));
    let causes = account.data.records().flat_map(|record| {
        record.causes.iter().map(move |cause| format!("{} at {} {port}", cause.kind, record.checkpoint))
    });
    red.chain(causes).collect()
}

/// A fault with its result.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// The id of the spec.
    pub(super) spec: String,
    /// The fault with its expected result.
    pub(super) fault: Fault,
    /// The actual result.
    pub(super) found: Found,
}

impl Row {
    /// Whether the first faulty stage, its class, the first red checkpoint, and the text of the trial of the adapters are as
    /// expected.
    pub(super) fn is_placed(&self) -> bool {
        let is = |place: &Option<RedCheckpoint>, name: &str, class: Option<Class>| {
            place.as_ref().is_some_and(|place| {
                place.checkpoint == name && class.is_none_or(|class| place.class == class)
            })
        };
        let Fault { culprit, class, adapters, .. } = &self.fault;
        let found = self.found.adapters.as_deref().unwrap_or_default();
        let says = adapters.as_ref().is_none_or(|words| found.contains(words));
        says && is(&self.found.culprit, culprit, Some(*class))
            && is(&self.found.first, self.fault.first(), None)
    }

    /// Whether the best reported cause is correct; `None` if no cause is expected. A cause that names several changes
    /// with the same prediction is correct if one of them is.
    pub(super) fn is_explained(&self) -> Option<bool> {
        self.fault.cause?;
        Some(self.found.causes.first().is_some_and(|kind| self.allows_best(*kind)))
    }

    fn allows_best(&self, kind: CauseKind) -> bool {
        self.fault.allows(kind) || self.found.also.iter().any(|kind| self.fault.allows(*kind))
    }

    /// Whether the expected fact was reported; `None` if no fact is expected.
    pub(super) fn is_seen(&self) -> Option<bool> {
        self.fault.fact.map(|fact| self.found.facts.contains(&fact))
    }

    /// The reported causes that are not correct.
    pub(super) fn wrong_causes(&self) -> impl Iterator<Item = CauseKind> {
        let best = self.found.causes.first().copied().filter(|kind| !self.allows_best(*kind));
        let others = self.found.causes.iter().skip(1).copied().filter(|kind| !self.fault.allows(*kind));
        best.into_iter().chain(others)
    }

    /// Whether the result is as expected in every respect.
    pub(super) fn is_right(&self) -> bool {
        self.found.caught
            && self.is_placed()
            && self.is_explained().unwrap_or(true)
            && self.is_seen().unwrap_or(true)
            && self.wrong_causes().next().is_none()
    }
}

/// The score of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Score {
    /// All faults.
    pub(super) faults: usize,
    /// Faults that turned the free run red.
    pub(super) caught: usize,
    /// Faults with the expected first faulty stage, class and first red checkpoint.
    pub(super) placed: usize,
    /// Faults with an expected cause.
    pub(super) explicable: usize,
    /// Faults whose best reported cause is correct.
    pub(super) cause: usize,
    /// Faults with an expected fact.
    pub(super) telling: usize,
    /// Faults whose expected fact was reported.
    pub(super) facts: usize,
    /// Reported causes that are not correct.
    pub(super) wrong_causes: usize,
    /// Alarms for ports without a fault.
    pub(super) false_alarms: usize,
}

impl Score {
    /// Counts the rows.
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

    /// Returns one line per violated bound. With `is_part`, only upper bounds are checked.
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
        let fell = fell.map(|(what, is, least)| format!("{what} is {is}, expected at least {least}"));
        let rose = rose.into_iter().filter(|(_, is, most)| is > most);
        fell.chain(rose.map(|(what, is, most)| format!("{what}: {is}, expected at most {most}"))).collect()
    }

    /// Whether any count is better than its bound.
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

    fn found(checkpoint: &str, class: Class, causes: &[CauseKind]) -> Found {
        let place = Some(RedCheckpoint { checkpoint: checkpoint.to_owned(), class });
        Found {
            caught: true,
            first: place.clone(),
            culprit: place,
            causes: causes.to_vec(),
            facts: Vec::new(),
            also: Vec::new(),
            words: Vec::new(),
            recipe: RecipeUse::None,
            adapters: None,
        }
    }

    const EPS: &str = "{fault: eps, culprit: norm, class: value, cause: norm_eps, or: [token_factor]}";
    const WEIGHTS: &str = "{fault: weights, culprit: out, class: value, cause: none}";
    const AT_LEAST: AtLeast = AtLeast { caught: 1, placed: 1, cause: 1, facts: 0 };
    const AT_MOST: AtMost = AtMost { wrong_causes: 0, false_alarms: 0 };

    #[test]
    fn a_fault_that_is_found_and_named_is_right() {
        for cause in [CauseKind::NormEps, CauseKind::TokenFactor] {
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
    fn a_fault_of_adapters_is_placed_by_the_text_of_their_trial() {
        const SCALE: &str = "{fault: scale, culprit: q, class: value, cause: none, adapters: applied twice}";
        let with = |text: Option<&str>| {
            let text = text.map(str::to_owned);
            row(SCALE, Found { adapters: text, ..found("q", Class::Value, &[]) })
        };
        assert!(with(Some("2.000 times: they are applied twice")).is_right());
        assert!(!with(Some("the adapters have no effect")).is_placed());
        assert!(!with(None).is_placed());
    }

    #[test]
    fn an_incorrect_cause_is_wrong_at_any_rank() {
        let second = row(EPS, found("norm", Class::Value, &[CauseKind::NormEps, CauseKind::Factor]));
        assert_eq!(second.is_explained(), Some(true));
        let first = row(EPS, found("norm", Class::Value, &[CauseKind::Factor, CauseKind::NormEps]));
        assert_eq!(first.is_explained(), Some(false));
        let of_nothing = row(WEIGHTS, found("out", Class::Value, &[CauseKind::Crossed]));
        assert_eq!(of_nothing.is_explained(), None);
        for row in [second, first, of_nothing] {
            assert!(!row.is_right());
            let broken = Score::of(&[row], 0).broken(AT_LEAST, AT_MOST, true);
            assert_eq!(broken, ["wrong causes: 1, expected at most 0"]);
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
        assert_eq!(broken, ["facts is 0, expected at least 1"]);
    }

    #[test]
    fn another_place_class_or_first_is_not_placed() {
        let elsewhere = row(EPS, found("out", Class::Value, &[]));
        let otherwise = row(EPS, found("norm", Class::Shape, &[]));
        let first = Some(RedCheckpoint { checkpoint: "out".to_owned(), class: Class::Value });
        let later = row(EPS, Found { first, ..found("norm", Class::Value, &[]) });
        let nowhere = row(EPS, Found { culprit: None, ..found("norm", Class::Value, &[]) });
        for row in [elsewhere, otherwise, later, nowhere] {
            assert!(!row.is_placed() && !row.is_right());
            let broken = Score::of(&[row], 2).broken(AT_LEAST, AT_MOST, false);
            assert_eq!(
                broken,
                [
                    "placed is 0, expected at least 1",
                    "cause is 0, expected at least 1",
                    "false alarms: 2, expected at most 0"
                ]
            );
        }
    }
}
