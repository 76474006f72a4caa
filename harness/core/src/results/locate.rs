//! Finds the first faulty stage of a port from the run with every golden injected and the run without injection.
//!
//! In the injected run each stage receives golden inputs, so its error is its own. The first red stage there is the
//! first faulty stage. A later red stage has a mistake of its own, unless the error reaches it through a cache or a
//! branch without taps.

use std::sync::Arc;

use super::account::Account;
use super::localisation::{AlsoRed, Closer, Culprit, Growth, Localisation};
use super::trial::{TrialOutcome, TrialResult};
use crate::gate::{Class, Phase};
use crate::record::{Record, Status};
use crate::spec::{Inject, RESERVED, Spec, hit_name};

/// How many growths of a drift are listed.
const GROWTHS: usize = 3;

impl Account {
    /// Returns the first faulty stage of the port, if the runs show it.
    pub fn localisation(&self) -> Option<&Localisation> {
        self.found.get_or_init(|| self.localise()).as_ref()
    }

    fn localise(&self) -> Option<Localisation> {
        let spec = &self.spec;
        if !self.data.changed().is_empty() || self.data.failed_audit().is_some() {
            return None;
        }
        match &self.local {
            // A crash of only the second run is not a fault of the port.
            Some(local) => Some(locate(spec, local, Some(self))).filter(|found| match found {
                Localisation::Culprit(culprit) => culprit.class != Class::Crash || self.data.crashed(),
                _ => true,
            }),
            None if self.data.inject() == Inject::All => Some(locate(spec, self, None)),
            // Without a second run, only a failure before any wrong value has a known place.
            None => Some(locate(spec, self, None)).filter(|found| match found {
                Localisation::Culprit(culprit) => culprit.class.phase() < Phase::Form,
                _ => false,
            }),
        }
    }
}

/// Combines `local`, the run with every golden injected, and `free`, the run without injection.
pub(super) fn locate(spec: &Spec, local: &Account, free: Option<&Account>) -> Localisation {
    let met: Vec<&TrialResult> =
        local.trials.iter().filter(|e| !RESERVED.contains(&e.name.as_str())).collect();
    let Some(Stretch { culprit, after, before }) = first_wrong(&met) else {
        return match met.iter().find(|trial| matches!(trial.outcome, TrialOutcome::Failed { .. })) {
            Some(unjudged) => Localisation::Unknown(unjudged.name.clone()),
            None => match free.filter(|free| free.trials.iter().any(|trial| wrong(trial).is_some())) {
                Some(free) => Localisation::Drift(growths(free)),
                None => Localisation::Right,
            },
        };
    };
    // The order of the run counts, not the order of declaration.
    let after =
        local.data.records().filter(|record| after.is_some_and(|after| record.sequence <= after)).last();
    let before = local.data.records().find(|record| before.is_some_and(|before| record.sequence >= before));
    let name = |record: &Record| hit_name(&record.checkpoint, record.hit).into_owned();
    // What a crash left unreached says nothing about the stages.
    let is_other = |trial: &&&TrialResult| {
        trial.name != culprit.name && wrong(trial).is_some_and(|class| class != Class::Crash)
    };
    let also = met.iter().filter(is_other).map(|trial| AlsoRed {
        name: trial.name.clone(),
        class: wrong(trial).unwrap_or(Class::Value),
        cause: trial.record.as_ref().and_then(|record| record.causes.first().cloned()),
    });
    Localisation::Culprit(Culprit {
        name: culprit.name.clone(),
        class: wrong(culprit).unwrap_or(Class::Value),
        also: also.collect(),
        is_reached: culprit.record.is_some(),
        closer: closer(spec, local, &met, culprit, after, before),
        after: after.map(name),
        made_from: culprit.record.as_ref().and_then(|record| record.made_from.clone()),
        before: before.filter(|_| culprit.record.is_none()).map(name),
        causes: culprit.record.as_ref().map(|record| record.causes.clone()).unwrap_or_default(),
        facts: culprit.record.as_ref().map(|record| record.facts.clone()).unwrap_or_default(),
        recipe: culprit.record.as_ref().map(|record| record.recipe).unwrap_or_default(),
    })
}

/// The first wrong trial, the sequence of the last record before it, and that of the first record at or after it.
struct Stretch<'e> {
    culprit: &'e TrialResult,
    after: Option<u64>,
    before: Option<u64>,
}

/// The first wrong trial in the order of the run. A tap with several hits counts from its wrong hit.
fn first_wrong<'e>(met: &[&'e TrialResult]) -> Option<Stretch<'e>> {
    let mut last = None;
    let mut found: Vec<Stretch> = Vec::new();
    for &trial in met {
        let met_at = trial.record.as_ref().map(|record| record.sequence);
        last = last.max(met_at);
        if wrong(trial).is_some() {
            // A tap with too few hits is wrong after its last hit, not at it.
            let failed = |record: &&Arc<Record>| record.verdict.status == Status::Fail;
            let at = trial.record.as_ref().filter(failed).map(|record| record.sequence);
            let (after, before) = match at {
                Some(at) => (at.checked_sub(1), Some(at)),
                None => (last, Some(last.map_or(0, |last| last + 1))),
            };
            found.push(Stretch { culprit: trial, after, before });
        }
    }
    // For two at the same place, the first one in the ladder wins.
    found.into_iter().min_by_key(|stretch| stretch.before)
}

/// The class of a failure that the port caused; `None` for problems with goldens and fixtures.
fn wrong(trial: &TrialResult) -> Option<Class> {
    match &trial.outcome {
        TrialOutcome::Failed { class, .. } => Some(*class).filter(|class| {
            (Phase::Run..=Phase::Range).contains(&class.phase()) && *class != Class::Untestable
        }),
        _ => None,
    }
}

fn closer(
    spec: &Spec,
    local: &Account,
    met: &[&TrialResult],
    culprit: &TrialResult,
    after: Option<&Record>,
    before: Option<&Record>,
) -> Closer {
    let unreached = unreached(spec, local, met, culprit, after);
    if !unreached.is_empty() {
        return Closer::Unreached(unreached);
    }
    let taps = local.data.passed_between(after.map(|r| r.sequence), before.map(|r| r.sequence));
    // The run records declared taps above its level as undeclared.
    let declared: Vec<_> = taps.iter().filter_map(|tap| spec.checkpoint(tap)).collect();
    if let Some(lowest) = declared.iter().map(|checkpoint| checkpoint.level).min() {
        let names = declared.iter().filter(|checkpoint| checkpoint.level == lowest);
        return Closer::Level(lowest, names.map(|checkpoint| checkpoint.name.clone()).collect());
    }
    let taps: Vec<String> = taps.into_iter().map(str::to_owned).collect();
    if taps.is_empty() { Closer::Taps } else { Closer::Undeclared(taps) }
}

/// The checkpoints between the first faulty stage and the tap before it that were never reached.
fn unreached(
    spec: &Spec,
    local: &Account,
    met: &[&TrialResult],
    culprit: &TrialResult,
    after: Option<&Record>,
) -> Vec<String> {
    let declared = |name: &str| spec.checkpoints.position(name);
    type Order<'o> = &'o dyn Fn(&str) -> Option<usize>;
    let orders: [Order<'_>; 2] = [&|name| local.data.order(name), &declared];
    let between = |name: &str| {
        // The order of the reference if it has all three, otherwise the order of the spec.
        orders.iter().find_map(|order| {
            let (own, end) = (order(name)?, order(&culprit.name)?);
            let start = match after {
                Some(after) => Some(order(&after.checkpoint)?),
                None => None,
            };
            Some(own < end && start.is_none_or(|start| own > start))
        })
    };
    let lost = met.iter().filter(|trial| trial.record.is_none() && wrong(trial) == Some(Class::Unreached));
    let lost = lost.filter(|trial| trial.name != culprit.name && between(&trial.name) == Some(true));
    lost.map(|trial| trial.name.clone()).collect()
}

/// The largest growths of the relative error, up to the last red stage.
fn growths(free: &Account) -> Vec<Growth> {
    let last = free.trials.iter().rposition(|trial| wrong(trial).is_some()).unwrap_or(0);
    let errors: Vec<(&str, f64, f64)> = free.trials[..=last].iter().filter_map(error).collect();
    let mut growths: Vec<Growth> = errors
        .windows(2)
        .map(|pair| {
            let [(after, before, least), (name, error, _)] = [pair[0], pair[1]];
            // A step from exact to rounded does not count as growth.
            let factor = error / before.max(least);
            Growth { name: name.to_owned(), after: after.to_owned(), factor }
        })
        .filter(|growth| growth.factor > 1.0)
        .collect();
    growths.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    growths.truncate(GROWTHS);
    growths
}

/// A stage's name, its relative error, and the error that rounding in its dtype causes.
fn error(trial: &TrialResult) -> Option<(&str, f64, f64)> {
    let record = trial.record.as_ref().filter(|record| !record.is_of_ids())?;
    let error = record.metrics.as_ref()?.difference.as_ref()?.relative_l2;
    let least = 0.1 * record.actual.as_ref()?.dtype.epsilon().unwrap_or(0.0);
    error.is_finite().then_some((&trial.name, error, least.max(f64::MIN_POSITIVE)))
}
