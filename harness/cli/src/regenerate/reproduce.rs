//! Whether a reference that was run here reproduces the committed set, within the floors that the run measured.

use super::plan::PlannedSet;
use mlx_parity_core::compare::{Comparison, compare};
use mlx_parity_core::gate::Class;
use mlx_parity_core::gate::{Floor, Gate, Rule};
use mlx_parity_core::golden::{FixtureSet, Role, TensorEntry};
use mlx_parity_core::report::multiple;
use mlx_parity_core::spec::list::counted;

/// How many floors another processor's kernels may be off; the same limit as for right ports (`noise: 8`).
const FLOOR_MULTIPLE: f64 = 8.0;
/// A floor is reported as changed when it is more than this many times larger or smaller.
pub(crate) const CHANGED_FLOOR: f64 = 2.0;
/// How many times the measured floor a committed one may be. The floors of 1,100 bundled goldens, measured again on another
/// processor with vector kernels, with scalar ones and with two threads, came to 2.9 times, and once, for a tensor of two
/// elements, to 4.3 times.
const LARGEST_FLOOR: f64 = 8.0;
/// Below this many elements a root mean square is a matter of luck, so only `max`, which bounds it, is used.
const FEW: usize = 16;

/// The result of running a reference again.
#[derive(Debug, Default)]
pub(super) struct Reproduction {
    /// Every difference that is too large; empty if the committed set is reproduced.
    pub(super) wrong: Vec<String>,
    /// Floors that changed, within what other kernels explain.
    pub(super) notes: Vec<String>,
}

/// Compares the set that was made now with the committed one. Goldens are compared under the floors that were measured now;
/// the committed floors are not trusted.
///
/// Inputs and weights must have the same bytes, since they are reused. Constants of recipes judge no port and are not
/// compared. A golden must agree within 8 times its floor; without
/// a floor, within the gate of its checkpoint, or exactly if there is no gate. A committed floor may be at most 8 times the
/// measured one; both are converted as for a noise gate ([`Floor::unit`]).
pub(super) fn reproduced(set: &PlannedSet, committed: &FixtureSet, made: &FixtureSet) -> Reproduction {
    let mut found = Reproduction::default();
    let others = judging(made);
    for entry in judging(committed) {
        let what = format!("{} `{}`", entry.role.name(), entry.name);
        let Some(other) = others.clone().find(|other| (other.role, &other.name) == (entry.role, &entry.name))
        else {
            found.wrong.push(format!("{what} was not produced"));
            continue;
        };
        let is_same =
            other.sha256 == entry.sha256 && other.shape == entry.shape && other.dtype == entry.dtype;
        if !is_same && entry.role != Role::Golden {
            found.wrong.push(format!("{what} differs from the committed one"));
        } else if !is_same {
            let why = golden_mismatch(set, committed, entry, made, other);
            found.wrong.extend(why.map(|why| format!("{what}: {why}")));
        }
        if let Some((is_wrong, why)) = floor_finding(entry, made, other) {
            let list = if is_wrong { &mut found.wrong } else { &mut found.notes };
            list.push(format!("{what}: {why}"));
        }
    }
    let extra = others.filter(|other| {
        !judging(committed).any(|entry| (entry.role, &entry.name) == (other.role, &other.name))
    });
    found.wrong.extend(
        extra.map(|entry| format!("{} `{}` is not in the committed set", entry.role.name(), entry.name)),
    );
    if committed.manifest().recipes != made.manifest().recipes {
        found.notes.push("its recipes differ from the committed ones".to_owned());
    }
    found
}

/// All tensors but the constants of recipes.
fn judging(set: &FixtureSet) -> impl Iterator<Item = &TensorEntry> + Clone {
    set.manifest().tensors.iter().filter(|entry| entry.role != Role::Constant)
}

/// One line on what was reproduced.
pub(super) fn summary(committed: &FixtureSet, made: &FixtureSet) -> String {
    let goldens: Vec<&TensorEntry> = committed.entries(Role::Golden).collect();
    let exact = goldens
        .iter()
        .filter(|entry| {
            made.entries(Role::Golden).any(|other| other.name == entry.name && other.sha256 == entry.sha256)
        })
        .count();
    format!("{} reproduced, {exact} of them to the bit", counted(goldens.len(), "golden"))
}

fn golden_mismatch(
    set: &PlannedSet,
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
        .filter(|gate| !gate.needs_floor() && !gate.is_of_choices());
    let exact = Gate::Tolerance { rtol: 0.0, atol: 0.0, policy: None };
    let rule = match other.floor {
        Some(floor) => Rule {
            gate: Some(Gate::Noise { k: FLOOR_MULTIPLE }),
            floor: Some(floor),
            nan_equal: true,
            ..Rule::default()
        },
        None => Rule { gate: Some(gate.unwrap_or(exact)), nan_equal: true, ..Rule::default() },
    };
    let Comparison { class, detail, metrics } = compare(&expected.view(), &actual.view(), &rule);
    match class {
        None => None,
        // The floor is too large for a meaningful test, but the golden is within it.
        Some(Class::Untestable) if within(metrics.as_ref()) => None,
        Some(_) => Some(detail),
    }
}

fn within(metrics: Option<&mlx_parity_core::compare::Metrics>) -> bool {
    let times = metrics.and_then(|metrics| metrics.difference.as_ref()?.times_floor.as_ref());
    times.is_some_and(|times| times.max <= FLOOR_MULTIPLE && times.rms <= FLOOR_MULTIPLE)
}

/// Compares a committed floor with the one measured now: a text if they differ much, and whether that is an error.
fn floor_finding(entry: &TensorEntry, made: &FixtureSet, other: &TensorEntry) -> Option<(bool, String)> {
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
        Some((true, format!("its floor is {} the measured one, {most}: {both}", multiple(more))))
    } else if more > CHANGED_FLOOR || less > CHANGED_FLOOR {
        Some((false, format!("its floor changed: {both}")))
    } else {
        None
    }
}

fn floor_words(floor: &Floor) -> String {
    format!("max {:.1e} with rms {:.1e}", floor.max, floor.rms)
}
