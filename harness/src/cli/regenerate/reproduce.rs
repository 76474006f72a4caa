//! Whether a reference that was run here gives the committed set again, as closely as its floors say it can.

use super::plan::Set;
use crate::Class;
use crate::compare::{Gate, Outcome, Rule, compare};
use crate::golden::{FixtureSet, Role, TensorEntry};
use crate::spec::list::counted;

/// Multiples of the floor that another processor's kernels may be off; right ports are held to the same.
const K: f64 = 8.0;

/// Everything in which the set that was made now is not the committed one; empty if it reproduces it.
///
/// Inputs and weights have the same bytes, since they are used again. Goldens agree within 8 times their floor; those
/// without a floor within the gate of their checkpoint, or exactly if there is none.
pub(super) fn disagreements(set: &Set, committed: &FixtureSet, made: &FixtureSet) -> Vec<String> {
    let mut found = Vec::new();
    let others = &made.manifest().tensors;
    for entry in &committed.manifest().tensors {
        let what = format!("{} `{}`", entry.role.name(), entry.name);
        match others.iter().find(|other| (other.role, &other.name) == (entry.role, &entry.name)) {
            None => found.push(format!("{what} was not made")),
            Some(other)
                if other.sha256 == entry.sha256
                    && other.shape == entry.shape
                    && other.dtype == entry.dtype => {}
            Some(_) if entry.role != Role::Golden => found.push(format!("{what} is another one")),
            Some(other) => {
                found.extend(judge(set, committed, entry, made, other).map(|why| format!("{what}: {why}")))
            }
        }
    }
    let known = &committed.manifest().tensors;
    let extra = others
        .iter()
        .filter(|other| !known.iter().any(|entry| (entry.role, &entry.name) == (other.role, &other.name)));
    found.extend(
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
    let rule = match entry.floor {
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
