//! Checkpoints that a free run judges by the floor of one block alone.

use std::collections::HashMap;

use super::LintInput;
use super::finding::{Finding, some_of};
use mlx_parity_core::gate::Gate;
use mlx_parity_core::golden::{FixtureSet, Role, TensorEntry};
use mlx_parity_core::spec::Spec;

/// The checkpoints with a noise gate whose floor is local, before whose block the spec injects nothing. The verdict stays
/// right, but too strict: errors of earlier blocks reach the checkpoint, and are not in its floor. One finding per spec.
///
/// Goldens of a set that cannot be read are reported elsewhere.
pub(super) fn free_local_floors(input: &LintInput, spec: &Spec) -> Vec<Finding> {
    let Ok(set) = FixtureSet::open(&input.fixture_root, &spec.fixtures) else { return Vec::new() };
    let goldens: HashMap<&str, &TensorEntry> =
        set.entries(Role::Golden).map(|entry| (entry.name.as_str(), entry)).collect();
    let mut starts: HashMap<&str, u64> = HashMap::new();
    for entry in set.entries(Role::Golden) {
        if let (Some(block), Some(sequence)) = (&entry.floor_block, entry.sequence) {
            let start = starts.entry(block).or_insert(sequence);
            *start = sequence.min(*start);
        }
    }
    let sequence = |name: &str| goldens.get(name).and_then(|entry| entry.sequence);
    let first_injected = spec.inject.iter().filter_map(|name| sequence(name)).min();
    let is_free = |name: &str| {
        let block = goldens.get(name).and_then(|entry| entry.floor_block.as_deref());
        let start = block.and_then(|block| starts.get(block));
        start.is_some_and(|start| first_injected.is_none_or(|injected| injected >= *start))
    };
    let free: Vec<_> = spec
        .checkpoints
        .iter()
        .filter(|one| one.gated && matches!(one.gate, Some(Gate::Noise { .. })) && is_free(&one.name))
        .collect();
    let Some(first) = free.first() else { return Vec::new() };
    let names: Vec<&str> = free.iter().map(|one| one.name.as_str()).collect();
    let block = goldens.get(first.name.as_str()).and_then(|entry| entry.floor_block.as_deref());
    vec![Finding {
        is_error: false,
        message: format!("the floor of {} leaves out the errors of earlier blocks", some_of(&names)),
        path: spec.path.clone(),
        line: Some(first.line),
        notes: vec![format!("it was measured in block `{}` alone", block.unwrap_or_default())],
        help: Some(
            "name the checkpoints before the block under `inject`, or export floors of the whole reference"
                .to_owned(),
        ),
    }]
}
