//! The first faulty stage of a port: what a run with every golden injected says, beside the one without.
//!
//! In the injected run each stage works on golden inputs, so that its error is its own. The first red stage there is
//! the culprit. Later red ones are only "also red": a cache or a branch without taps goes around the injection.

use std::sync::Arc;

use super::account::{Account, Ending, Verdict};
use crate::Class;
use crate::diagnose::{Cause, Fact};
use crate::record::{Record, Status};
use crate::spec::{RESERVED, Spec, hit_name};

/// How many growths of a drift are named.
const GROWTHS: usize = 3;

/// What the two runs come to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Finding {
    /// No stage is red on golden inputs, nor, as far as that was asked, without them.
    Right,
    /// A stage is faulty.
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
    /// The tap that the run met before it, whose golden it worked from; nothing when it works from the inputs.
    pub(crate) after: Option<String>,
    /// Of a stage that was never reached, the tap that the run met in its place.
    pub(crate) before: Option<String>,
    /// Later stages that are red on golden inputs too.
    pub(crate) also: Vec<String>,
    pub(crate) closer: Closer,
    /// What kind of wrong it is, best explanation first.
    pub(crate) causes: Vec<Cause>,
    /// What can be seen of it where nothing explains it.
    pub(crate) facts: Vec<Fact>,
}

/// What would narrow the place down between the culprit and the tap before it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Closer {
    /// Checkpoints that the reference, or where that is not known the spec, has there and that were never reached.
    Unreached(Vec<String>),
    /// Checkpoints at this level that the port taps there and the run did not look at.
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
pub(crate) fn locate(spec: &Spec, local: &Account, free: Option<&Account>) -> Finding {
    let met: Vec<&Ending> = local.endings.iter().filter(|e| !RESERVED.contains(&e.name.as_str())).collect();
    let Some(Stretch { culprit, after, before }) = first_wrong(&met) else {
        return match met.iter().find(|ending| matches!(ending.verdict, Verdict::Failed { .. })) {
            Some(unjudged) => Finding::Unknown(unjudged.name.clone()),
            None => match free.filter(|free| free.endings.iter().any(|ending| wrong(ending).is_some())) {
                Some(free) => Finding::Drift(growths(free)),
                None => Finding::Right,
            },
        };
    };
    // By the order of the run, whatever the spec declares first.
    let after =
        local.story.records().filter(|record| after.is_some_and(|after| record.sequence <= after)).last();
    let before = local.story.records().find(|record| before.is_some_and(|before| record.sequence >= before));
    let name = |record: &Record| hit_name(&record.checkpoint, record.hit).into_owned();
    let also = met.iter().filter(|ending| ending.name != culprit.name && wrong(ending).is_some());
    Finding::Culprit(Culprit {
        name: culprit.name.clone(),
        class: wrong(culprit).unwrap_or(Class::Value),
        also: also.map(|ending| ending.name.clone()).collect(),
        closer: closer(spec, local, &met, culprit, after, before),
        after: after.map(name),
        before: before.filter(|_| culprit.record.is_none()).map(name),
        causes: culprit.record.as_ref().map(|record| record.causes.clone()).unwrap_or_default(),
        facts: culprit.record.as_ref().map(|record| record.facts.clone()).unwrap_or_default(),
    })
}

/// The first ending that is wrong, and the sequences of the last record before it and of the first from it on.
struct Stretch<'e> {
    culprit: &'e Ending,
    after: Option<u64>,
    before: Option<u64>,
}

/// What is wrong first in the order of the run: of a tap that was met several times, the hit that is wrong counts.
fn first_wrong<'e>(met: &[&'e Ending]) -> Option<Stretch<'e>> {
    let mut last = None;
    let mut found: Vec<Stretch> = Vec::new();
    for &ending in met {
        let met_at = ending.record.as_ref().map(|record| record.sequence);
        last = last.max(met_at);
        if wrong(ending).is_some() {
            // Of a tap that was met too seldom, what was met is not what is wrong.
            let failed = |record: &&Arc<Record>| record.verdict.status == Status::Fail;
            let at = ending.record.as_ref().filter(failed).map(|record| record.sequence);
            let (after, before) = match at {
                Some(at) => (at.checked_sub(1), Some(at)),
                None => (last, Some(last.map_or(0, |last| last + 1))),
            };
            found.push(Stretch { culprit: ending, after, before });
        }
    }
    // Of two at the same place, the one that stands first in the ladder.
    found.into_iter().min_by_key(|stretch| stretch.before)
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
    met: &[&Ending],
    culprit: &Ending,
    after: Option<&Record>,
    before: Option<&Record>,
) -> Closer {
    let unreached = unreached(spec, local, met, culprit, after);
    if !unreached.is_empty() {
        return Closer::Unreached(unreached);
    }
    let taps = local.story.passed_between(after.map(|r| r.sequence), before.map(|r| r.sequence));
    // Above the run's level, declared taps count as undeclared ones do.
    let declared: Vec<_> = taps.iter().filter_map(|tap| spec.checkpoint(tap)).collect();
    if let Some(lowest) = declared.iter().map(|checkpoint| checkpoint.level).min() {
        let names = declared.iter().filter(|checkpoint| checkpoint.level == lowest);
        return Closer::Level(lowest, names.map(|checkpoint| checkpoint.name.clone()).collect());
    }
    let taps: Vec<String> = taps.into_iter().map(str::to_owned).collect();
    if taps.is_empty() { Closer::Taps } else { Closer::Undeclared(taps) }
}

/// Checkpoints that stand between the tap before the culprit and the culprit, and were never reached.
fn unreached(
    spec: &Spec,
    local: &Account,
    met: &[&Ending],
    culprit: &Ending,
    after: Option<&Record>,
) -> Vec<String> {
    let declared = |name: &str| spec.checkpoints.iter().position(|checkpoint| checkpoint.name == name);
    type Order<'o> = &'o dyn Fn(&str) -> Option<usize>;
    let orders: [Order<'_>; 2] = [&|name| local.story.order(name), &declared];
    let between = |name: &str| {
        // The reference's order where it has all three, else that of the spec.
        orders.iter().find_map(|order| {
            let (own, end) = (order(name)?, order(&culprit.name)?);
            let start = match after {
                Some(after) => Some(order(&after.checkpoint)?),
                None => None,
            };
            Some(own < end && start.is_none_or(|start| own > start))
        })
    };
    let lost = met.iter().filter(|ending| ending.record.is_none() && wrong(ending) == Some(Class::Unreached));
    let lost = lost.filter(|ending| ending.name != culprit.name && between(&ending.name) == Some(true));
    lost.map(|ending| ending.name.clone()).collect()
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
