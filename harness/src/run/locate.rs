//! Where a port goes wrong by its own doing: what a run with every golden injected says, beside the one without.
//!
//! In the injected run each stage works on golden inputs, so that its error is its own. The first red stage there is
//! the culprit. Later red ones are only "also red": a cache or a branch without taps goes around the injection.

use std::collections::HashMap;

use super::account::{Account, Ending, Verdict};
use crate::Class;
use crate::diagnose::Cause;
use crate::golden::{FixtureSet, Role};
use crate::spec::{RESERVED, Spec};

/// How many growths of a drift are named.
const GROWTHS: usize = 3;

/// What the two runs come to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Finding {
    /// No stage is red on golden inputs, nor, as far as that was asked, without them.
    Right,
    /// A stage is wrong by its own doing.
    Culprit(Culprit),
    /// Red without injection, green everywhere with it: no single stage. The largest growths of the error, largest first.
    Drift(Vec<Growth>),
    /// The injected run tells nothing: this trial says why.
    Unknown(String),
}

/// The first stage that is wrong on golden inputs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Culprit {
    pub(crate) name: String,
    pub(crate) class: Class,
    /// The tap before it, whose golden it worked from; nothing when it works from the inputs.
    pub(crate) after: Option<String>,
    /// Later stages that are red on golden inputs too.
    pub(crate) also: Vec<String>,
    pub(crate) closer: Closer,
    /// What kind of wrong it is, best explanation first.
    pub(crate) causes: Vec<Cause>,
}

/// What would narrow the place down between the culprit and the tap before it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Closer {
    /// Checkpoints that the spec has there at this level, which the run did not look at.
    Level(u8, Vec<String>),
    /// Taps that the port has there and the spec does not declare.
    Undeclared(Vec<String>),
    /// More taps.
    Taps,
}

/// How much larger the relative error is at a stage than at the one before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Growth {
    pub(crate) name: String,
    pub(crate) after: String,
    pub(crate) factor: f64,
}

/// Puts together what `local`, a run with everything injected, and `free`, one without, have found.
pub(crate) fn locate(
    spec: &Spec,
    local: &Account,
    free: Option<&Account>,
    fixtures: Option<&FixtureSet>,
) -> Finding {
    let met: Vec<&Ending> = local.endings.iter().filter(|e| !RESERVED.contains(&e.name.as_str())).collect();
    let Some(first) = met.iter().position(|ending| wrong(ending).is_some()) else {
        return match met.iter().find(|ending| matches!(ending.verdict, Verdict::Failed { .. })) {
            Some(unjudged) => Finding::Unknown(unjudged.name.clone()),
            None => match free.filter(|free| free.endings.iter().any(|ending| wrong(ending).is_some())) {
                Some(free) => Finding::Drift(growths(free)),
                None => Finding::Right,
            },
        };
    };
    let name = met[first].name.clone();
    let after = met[..first].iter().rev().find(|ending| ending.record.is_some());
    let after = after.map(|ending| ending.name.clone());
    let causes = met[first].record.as_ref().map(|record| record.causes.clone()).unwrap_or_default();
    Finding::Culprit(Culprit {
        causes,
        class: wrong(met[first]).unwrap_or(Class::Value),
        also: met[first + 1..].iter().filter(|e| wrong(e).is_some()).map(|e| e.name.clone()).collect(),
        closer: closer(spec, local, fixtures, after.as_deref(), &name),
        after,
        name,
    })
}

/// The class of a failure that the port itself is to blame for; not that of a golden which proves nothing.
fn wrong(ending: &Ending) -> Option<Class> {
    match &ending.verdict {
        Verdict::Failed { class, .. } => Some(*class)
            .filter(|class| (Class::Crash..=Class::Range).contains(class) && *class != Class::Untestable),
        _ => None,
    }
}

fn closer(
    spec: &Spec,
    local: &Account,
    fixtures: Option<&FixtureSet>,
    after: Option<&str>,
    name: &str,
) -> Closer {
    let level = local.story.level().unwrap_or(spec.level);
    let order: HashMap<&str, u64> = fixtures
        .map(|set| set.entries(Role::Golden).filter_map(|e| Some((e.name.as_str(), e.sequence?))).collect())
        .unwrap_or_default();
    let start = after.and_then(|after| order.get(after));
    let between = |name: &str, end: u64| {
        order.get(name).is_some_and(|at| *at < end && start.is_none_or(|start| at > start))
    };
    let inner = spec.checkpoints.iter().filter(|c| c.level > level);
    let inner: Vec<_> = match order.get(name) {
        Some(&end) => inner.filter(|c| between(&c.name, end)).collect(),
        None => Vec::new(),
    };
    if let Some(lowest) = inner.iter().map(|c| c.level).min() {
        let names = inner.iter().filter(|c| c.level == lowest).map(|c| c.name.clone()).collect();
        return Closer::Level(lowest, names);
    }
    // Above the run's level, declared taps count as undeclared ones do.
    let taps = local.story.undeclared_between(after, name).into_iter();
    let taps: Vec<String> = taps.filter(|tap| spec.checkpoint(tap).is_none()).map(str::to_owned).collect();
    if taps.is_empty() { Closer::Taps } else { Closer::Undeclared(taps) }
}

/// The largest growths of the relative error, up to the last red stage.
fn growths(free: &Account) -> Vec<Growth> {
    let last = free.endings.iter().rposition(|ending| wrong(ending).is_some()).unwrap_or(0);
    let errors: Vec<(&str, f64, f64)> = free.endings[..=last].iter().filter_map(error).collect();
    let mut growths: Vec<Growth> = errors
        .windows(2)
        .map(|pair| {
            let [(after, before, least), (name, error, _)] = [pair[0], pair[1]];
            // From exact to merely rounded is no growth.
            let factor = error / before.max(least);
            Growth { name: name.to_owned(), after: after.to_owned(), factor }
        })
        .filter(|growth| growth.factor > 1.0)
        .collect();
    growths.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    growths.truncate(GROWTHS);
    growths
}

/// A stage's relative error, and what rounding alone makes of its dtype.
fn error(ending: &Ending) -> Option<(&str, f64, f64)> {
    let record = ending.record.as_ref()?;
    let error = record.metrics.as_ref()?.difference.as_ref()?.relative_l2;
    let least = 0.1 * record.actual.as_ref()?.dtype.epsilon().unwrap_or(0.0);
    error.is_finite().then_some((&ending.name, error, least.max(f64::MIN_POSITIVE)))
}
