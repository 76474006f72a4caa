//! What a new set changes: tensor by tensor, what it was and what it is now.

use std::collections::BTreeSet;

use crate::compare::{Difference, Floor, Rule, Stats, compare, examine};
use crate::golden::{FixtureSet, Manifest, Role, TensorEntry};

/// Every difference between two sets.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Tensors that are the same in both, floor and all.
    pub(super) same: usize,
    /// The others, those that changed the most first.
    pub(super) rows: Vec<Row>,
    /// What else the manifest says otherwise, such as `provenance.python`.
    pub(super) told_otherwise: Vec<String>,
}

/// One tensor that is not what it was.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) role: Role,
    pub(super) name: String,
    pub(super) old: Option<Side>,
    pub(super) new: Option<Side>,
    /// Only where both have the same dtype and shape.
    pub(super) difference: Option<Difference>,
}

/// A tensor as one of the two sets has it.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) kind: String,
    /// None if it cannot be read.
    pub(super) stats: Option<Stats>,
    pub(super) floor: Option<Floor>,
}

/// What a row is about, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Retyped,
    Changed,
    Added,
    Removed,
    Floor,
}

impl Row {
    pub(super) fn kind(&self) -> Kind {
        match (&self.old, &self.new) {
            (None, _) => Kind::Added,
            (_, None) => Kind::Removed,
            (Some(old), Some(new)) if old.kind != new.kind => Kind::Retyped,
            _ if self.difference.as_ref().is_some_and(|difference| difference.exact_fraction >= 1.0) => {
                Kind::Floor
            }
            _ => Kind::Changed,
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

/// Compares the new set with the old one; nothing was there before without an old one.
pub(super) fn changes(old: Option<&FixtureSet>, new: &FixtureSet) -> Changes {
    let mut changes = Changes::default();
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
        // What is only in one of the sets is no distance away: goldens come first there, in their own order.
        a.kind().cmp(&b.kind()).then(far).then(a.role.cmp(&b.role))
    });
    changes.told_otherwise =
        old.map(|old| told_otherwise(old.manifest(), new.manifest())).unwrap_or_default();
    changes
}

/// What two manifests say differently, tensors themselves apart.
fn told_otherwise(old: &Manifest, new: &Manifest) -> Vec<String> {
    let mut found = Vec::new();
    if old.made_by != new.made_by {
        found.push("made_by".to_owned());
    }
    let keys: BTreeSet<&String> = old.provenance.keys().chain(new.provenance.keys()).collect();
    let changed = keys.into_iter().filter(|key| old.provenance.get(*key) != new.provenance.get(*key));
    found.extend(changed.map(|key| format!("provenance.{key}")));
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
) -> Row {
    let read = |set: Option<&FixtureSet>, entry: Option<&TensorEntry>| {
        set.zip(entry).and_then(|(set, entry)| set.read(entry).ok())
    };
    let (expected, actual) = (read(old, before), read(Some(new), after));
    let mut difference = None;
    let mut stats = [None, None];
    if let (Some(expected), Some(actual)) = (&expected, &actual) {
        // The floor that was measured now: the old one is what somebody committed.
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
        entry.map(|entry| Side { kind: kind(entry), stats, floor: entry.floor })
    };
    let [old_stats, new_stats] = stats;
    let named = after.or(before);
    Row {
        role: named.map_or(Role::Golden, |entry| entry.role),
        name: named.map(|entry| entry.name.clone()).unwrap_or_default(),
        old: side(before, old_stats),
        new: side(after, new_stats),
        difference,
    }
}
