//! The differences between a new set and the committed one, tensor by tensor.

use std::collections::BTreeSet;

use mlx_parity_core::compare::{Difference, Stats, compare, examine};
use mlx_parity_core::gate::{Floor, Rule};
use mlx_parity_core::golden::{FixtureSet, Manifest, Role, TensorEntry};

/// Every difference between two sets.
#[derive(Debug, Default)]
pub(super) struct SetChanges {
    /// Tensors that are the same in both, floor and all.
    pub(super) same: usize,
    /// The others; the largest changes come first.
    pub(super) rows: Vec<TensorChange>,
    /// Other parts of the manifest that changed, such as `provenance.python`.
    pub(super) manifest_changes: Vec<String>,
}

/// A tensor that differs between the two sets.
#[derive(Debug)]
pub(super) struct TensorChange {
    pub(super) role: Role,
    pub(super) name: String,
    pub(super) old: Option<TensorVersion>,
    pub(super) new: Option<TensorVersion>,
    /// Only where both have the same dtype and shape.
    pub(super) difference: Option<Difference>,
}

/// A tensor as one of the two sets has it.
#[derive(Debug)]
pub(super) struct TensorVersion {
    pub(super) kind: String,
    /// None if it cannot be read.
    pub(super) stats: Option<Stats>,
    pub(super) floor: Option<Floor>,
}

/// How a tensor changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TensorChangeKind {
    Retyped,
    Changed,
    Added,
    Removed,
    Floor,
}

impl TensorChange {
    pub(super) fn kind(&self) -> TensorChangeKind {
        match (&self.old, &self.new) {
            (None, _) => TensorChangeKind::Added,
            (_, None) => TensorChangeKind::Removed,
            (Some(old), Some(new)) if old.kind != new.kind => TensorChangeKind::Retyped,
            _ if self.difference.as_ref().is_some_and(|difference| difference.exact_fraction >= 1.0) => {
                TensorChangeKind::Floor
            }
            _ => TensorChangeKind::Changed,
        }
    }

    /// How many times the old floor the new one is, if both have one.
    pub(super) fn floor_growth(&self) -> Option<f64> {
        let (old, new) = (self.old.as_ref()?.floor?, self.new.as_ref()?.floor?);
        Some(new.over(&old))
    }

    /// How far apart the two are: in multiples of the floor where there is one, else of the old absmax.
    pub(super) fn distance(&self) -> f64 {
        let Some(difference) = &self.difference else { return f64::INFINITY };
        let absmax = self.old.as_ref().and_then(|old| Some(old.stats.as_ref()?.absmax)).unwrap_or(1.0);
        let far = match &difference.times_floor {
            Some(times) => times.max,
            None => difference.max_abs / absmax.max(f64::MIN_POSITIVE),
        };
        if far.is_nan() { f64::INFINITY } else { far }
    }
}

/// Compares the new set with the old one; without an old one, every tensor is new.
pub(super) fn changes(old: Option<&FixtureSet>, new: &FixtureSet) -> SetChanges {
    let mut changes = SetChanges::default();
    let empty = Vec::new();
    let before = old.map_or(&empty, |old| &old.manifest().tensors);
    let after = &new.manifest().tensors;
    let same_tensor = |a: &TensorEntry, b: &TensorEntry| (a.role, &a.name) == (b.role, &b.name);
    for entry in after {
        let twin = before.iter().find(|other| same_tensor(entry, other));
        match twin {
            Some(twin)
                if twin.sha256 == entry.sha256 && kind(twin) == kind(entry) && twin.floor == entry.floor =>
            {
                changes.same += 1;
            }
            _ => changes.rows.push(row(old, twin, new, Some(entry))),
        }
    }
    for entry in before.iter().filter(|entry| !after.iter().any(|other| same_tensor(entry, other))) {
        changes.rows.push(row(old, Some(entry), new, None));
    }
    changes.rows.sort_by(|a, b| {
        let far = b.distance().total_cmp(&a.distance());
        // A tensor that is in one set only has no distance: goldens come first there, in their own order.
        a.kind().cmp(&b.kind()).then(far).then(a.role.cmp(&b.role))
    });
    changes.manifest_changes =
        old.map(|old| manifest_changes(old.manifest(), new.manifest())).unwrap_or_default();
    changes
}

/// The parts in which two manifests differ, apart from tensors.
fn manifest_changes(old: &Manifest, new: &Manifest) -> Vec<String> {
    let mut found = Vec::new();
    if old.made_by != new.made_by {
        found.push("made_by".to_owned());
    }
    let keys: BTreeSet<&String> = old.provenance.keys().chain(new.provenance.keys()).collect();
    let changed = keys.into_iter().filter(|key| old.provenance.get(*key) != new.provenance.get(*key));
    found.extend(changed.map(|key| format!("provenance.{key}")));
    if old.recipes != new.recipes {
        found.push("recipes".to_owned());
    }
    if old.adapters != new.adapters {
        found.push("adapters".to_owned());
    }
    if old.external_weights != new.external_weights {
        found.push("external_weights".to_owned());
    }
    if old.second_reference != new.second_reference {
        found.push("second_reference".to_owned());
    }
    if found.is_empty() && old != new {
        found.push("order, files or places of tensors".to_owned());
    }
    found
}

fn kind(entry: &TensorEntry) -> String {
    format!("{} {:?}", entry.dtype, entry.shape)
}

fn row(
    old: Option<&FixtureSet>,
    before: Option<&TensorEntry>,
    new: &FixtureSet,
    after: Option<&TensorEntry>,
) -> TensorChange {
    let read = |set: Option<&FixtureSet>, entry: Option<&TensorEntry>| {
        set.zip(entry).and_then(|(set, entry)| set.read(entry).ok())
    };
    let (expected, actual) = (read(old, before), read(Some(new), after));
    let mut difference = None;
    let mut stats = [None, None];
    if let (Some(expected), Some(actual)) = (&expected, &actual) {
        // The floor that was measured now counts, not the committed one.
        let floor = after.and_then(|entry| entry.floor).or_else(|| before.and_then(|entry| entry.floor));
        let rule = Rule { floor, ..Rule::default() };
        if let Some(metrics) = compare(&expected.view(), &actual.view(), &rule).metrics {
            difference = metrics.difference;
            stats = [metrics.expected, Some(metrics.actual)];
        }
    }
    for (stats, tensor) in stats.iter_mut().zip([&expected, &actual]) {
        if let (None, Some(tensor)) = (&stats, tensor) {
            *stats = examine(&tensor.view(), &Rule::default()).metrics.map(|metrics| metrics.actual);
        }
    }
    let side = |entry: Option<&TensorEntry>, stats| {
        entry.map(|entry| TensorVersion { kind: kind(entry), stats, floor: entry.floor })
    };
    let [old_stats, new_stats] = stats;
    let named = after.or(before);
    TensorChange {
        role: named.map_or(Role::Golden, |entry| entry.role),
        name: named.map(|entry| entry.name.clone()).unwrap_or_default(),
        old: side(before, old_stats),
        new: side(after, new_stats),
        difference,
    }
}
