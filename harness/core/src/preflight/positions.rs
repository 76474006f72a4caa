//! Goldens of caches whose slots cannot be matched.

use crate::golden::{FixtureSet, SlotMatch, SlotsError, as_compared};
use crate::spec::{Checkpoint, Positions, Spec, hit_name};
use crate::tensor::Tensor;

/// Returns what is wrong with the goldens of checkpoints with `positions`: the positions of a golden must be 0 or more, each
/// once, and one per slot. Goldens that cannot be read are reported elsewhere.
pub fn wrong_positions(spec: &Spec, set: &FixtureSet) -> Vec<String> {
    let mut found = Vec::new();
    for checkpoint in spec.checkpoints.iter().filter(|checkpoint| checkpoint.needs_golden()) {
        let Some(positions) = &checkpoint.positions else { continue };
        for hit in 0..u64::from(checkpoint.hits) {
            if let Some(problem) = problem(spec, set, checkpoint, positions, hit) {
                let name = hit_name(&checkpoint.name, hit);
                found.push(format!("line {}: checkpoint `{name}`: {problem}", checkpoint.line));
                break;
            }
        }
    }
    found
}

fn problem(
    spec: &Spec,
    set: &FixtureSet,
    checkpoint: &Checkpoint,
    positions: &Positions,
    hit: u64,
) -> Option<String> {
    let golden = |checkpoint: &Checkpoint| -> Option<Result<Tensor, String>> {
        let golden = set.golden(&hit_name(&checkpoint.name, hit)).ok()?;
        Some(as_compared(&golden.tensor, checkpoint))
    };
    let held = match golden(spec.checkpoint(&positions.tap)?)? {
        Ok(held) => held,
        Err(problem) => return Some(problem),
    };
    match SlotMatch::new(positions.axis, &held, &held) {
        Ok(_) => {}
        // Reported once, at the checkpoint that holds them.
        Err(_) if positions.tap != checkpoint.name => return None,
        Err(SlotsError::Spec(text) | SlotsError::Shape(text) | SlotsError::Positions(text)) => {
            return Some(text);
        }
    }
    let slots = match golden(checkpoint)? {
        Ok(golden) => golden.shape().get(positions.axis).copied(),
        Err(problem) => return Some(problem),
    };
    (slots != Some(held.len())).then(|| {
        let slots = slots.map_or("no such axis".to_owned(), |slots| format!("{slots} slots"));
        let (axis, tap) = (positions.axis, &positions.tap);
        format!("its golden has {slots} on axis {axis}, but `{tap}` holds {} positions", held.len())
    })
}
