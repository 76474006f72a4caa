//! Whether a reference that was run here gives the committed set again, as closely as the run itself says it can.

use super::plan::Set;
use crate::Class;
use crate::compare::{Floor, Gate, Outcome, Rule, compare};
use crate::golden::{FixtureSet, Role, TensorEntry};
use crate::report::multiple;
use crate::spec::list::counted;

/// Multiples of the floor that another processor's kernels may be off; right ports are held to the same.
const K: f64 = 8.0;
/// From how many times another floor on, up or down, a floor is reported as changed.
pub(crate) const CHANGED_FLOOR: f64 = 2.0;
/// How many times the measured floor a committed one may be. The floors of 1,100 bundled goldens, measured again on another
/// processor with vector kernels, with scalar ones and with two threads, came to 2.9 times, and once, for a tensor of two
/// elements, to 4.3 times.
const LARGEST_FLOOR: f64 = 8.0;
/// Below so many elements a root mean square is a matter of luck, and `max`, which bounds it, speaks for the floor alone.
const FEW: usize = 16;

/// What running a reference again showed.
#[derive(Debug, Default)]
pub(super) struct Reproduced {
    /// Everything in which the set that was made now is not the committed one; empty if it reproduces it.
    pub(super) wrong: Vec<String>,
    /// Floors that changed, within what other kernels explain.
    pub(super) notes: Vec<String>,
}

/// Holds the set that was made now against the committed one. Nothing that the committed set says about its own accuracy
/// counts: goldens are judged by the floors that were measured now.
///
/// Inputs and weights have the same bytes, since they are used again. Goldens agree within 8 times their floor; those
/// without a floor within the gate of their checkpoint, or exactly if there is none. A committed floor is at most 8 times
/// the measured one, where both count as a noise gate takes them ([`Floor::unit`]).
pub(super) fn reproduced(set: &Set, committed: &FixtureSet, made: &FixtureSet) -> Reproduced {
    let mut found = Reproduced::default();
    let others = &made.manifest().tensors;
    for entry in &committed.manifest().tensors {
        let what = format!("{} `{}`", entry.role.name(), entry.name);
        let Some(other) = others.iter().find(|other| (other.role, &other.name) == (entry.role, &entry.name))
        else {
            found.wrong.push(format!("{what} was not made"));
            continue;
        };
        let is_same =
            other.sha256 == entry.sha256 && other.shape == entry.shape && other.dtype == entry.dtype;
        if !is_same && entry.role != Role::Golden {
            found.wrong.push(format!("{what} is another one"));
        } else if !is_same {
            let why = judge(set, committed, entry, made, other);
            found.wrong.extend(why.map(|why| format!("{what}: {why}")));
        }
        if let Some((is_wrong, why)) = judge_floor(entry, made, other) {
            let list = if is_wrong { &mut found.wrong } else { &mut found.notes };
            list.push(format!("{what}: {why}"));
        }
    }
    let known = &committed.manifest().tensors;
    let extra = others
        .iter()
        .filter(|other| !known.iter().any(|entry| (entry.role, &entry.name) == (other.role, &other.name)));
    found.wrong.extend(
        extra.map(|entry| format!("{} `{}` is not in the committed set", entry.role.name(), entry.name)),
    );
    found
}

/// What was reproduced, for people.
pub(super) fn words(committed: &FixtureSet, made: &FixtureSet) -> String {
    let goldens: Vec<&TensorEntry> = committed.entries(Role::Golden).collect();
    let exact = goldens
        .iter()
        .filter(|entry| {
            made.entries(Role::Golden).any(|other| other.name == entry.name && other.sha256 == entry.sha256)
        })
        .count();
    format!("{} reproduced, {exact} of them to the bit", counted(goldens.len(), "golden"))
}

fn judge(
    set: &Set,
    committed: &FixtureSet,
    entry: &TensorEntry,
    made: &FixtureSet,
    other: &TensorEntry,
) -> Option<String> {
    let (expected, actual) = match (committed.read(entry), made.read(other)) {
        (Ok(expected), Ok(actual)) => (expected, actual),
        (Err(error), _) | (_, Err(error)) => return Some(error.to_string()),
    };
    let gate = set
        .rule(&entry.name)
        .and_then(|rule| rule.gate)
        .filter(|gate| matches!(gate, Gate::Tolerance { .. }));
    let exact = Gate::Tolerance { rtol: 0.0, atol: 0.0, policy: None };
    let rule = match other.floor {
        Some(floor) => {
            Rule { gate: Some(Gate::Noise { k: K }), floor: Some(floor), nan_equal: true, range: None }
        }
        None => Rule { gate: Some(gate.unwrap_or(exact)), floor: None, nan_equal: true, range: None },
    };
    let Outcome { class, detail, metrics } = compare(&expected.view(), &actual.view(), &rule);
    match class {
        None => None,
        // The floor is too large for the golden to say much, but it is met.
        Some(Class::Untestable) if within(metrics.as_ref()) => None,
        Some(_) => Some(detail),
    }
}

fn within(metrics: Option<&crate::compare::Metrics>) -> bool {
    let times = metrics.and_then(|metrics| metrics.difference.as_ref()?.times_floor.as_ref());
    times.is_some_and(|times| times.max <= K && times.rms <= K)
}

/// What there is to say about a committed floor beside the one that was measured now, and whether it is wrong.
fn judge_floor(entry: &TensorEntry, made: &FixtureSet, other: &TensorEntry) -> Option<(bool, String)> {
    let (committed, measured) = match (entry.floor, other.floor) {
        (Some(committed), Some(measured)) => (committed, measured),
        (Some(_), None) => {
            let why = other.no_floor.as_deref().unwrap_or("the reference measures none");
            return Some((true, format!("it has a floor, but none was measured now: {why}")));
        }
        (None, Some(measured)) => {
            return Some((false, format!("it has no floor; measured now: {}", floor_words(&measured))));
        }
        (None, None) => return None,
    };
    let golden = made.read(other).ok()?;
    let unit = |floor: &Floor| {
        let unit = floor.unit(&golden.view());
        if golden.len() < FEW { Floor { rms: unit.max, ..unit } } else { unit }
    };
    let (old, new) = (unit(&committed), unit(&measured));
    let (more, less) = (old.over(&new), new.over(&old));
    let both =
        format!("{} is committed, {} was measured now", floor_words(&committed), floor_words(&measured));
    if more > LARGEST_FLOOR {
        let most = format!("at most {LARGEST_FLOOR}x is allowed");
        Some((true, format!("its floor is {} what it is now, {most}: {both}", multiple(more))))
    } else if more > CHANGED_FLOOR || less > CHANGED_FLOOR {
        Some((false, format!("its floor changed: {both}")))
    } else {
        None
    }
}

fn floor_words(floor: &Floor) -> String {
    format!("max {:.1e} with rms {:.1e}", floor.max, floor.rms)
}
