//! The order in which a port reaches the checkpoints of its spec, as far as it is known.

use std::collections::HashMap;

use super::run_data::RunData;
use crate::spec::{Checkpoint, Spec, in_rounds};

/// Returns the checkpoints of the spec up to `level` in the order of execution: that of the reference. A checkpoint that the
/// reference does not have follows the one before it in the spec, with the rounds of loops one after the other.
pub(super) fn in_execution_order<'s>(spec: &'s Spec, level: u8, data: &RunData) -> Vec<&'s Checkpoint> {
    let mut reached: HashMap<&str, u64> = HashMap::new();
    for record in data.records() {
        reached.entry(&record.checkpoint).or_insert(record.sequence);
    }
    let checked = spec.checkpoints.iter().filter(|checkpoint| checkpoint.level <= level);
    let listed = in_rounds(checked, |checkpoint| reached.get(checkpoint.name.as_str()).copied());
    let mut latest = None;
    let mut keyed: Vec<(Option<usize>, &Checkpoint)> = Vec::with_capacity(listed.len());
    for checkpoint in listed {
        latest = data.order(&checkpoint.name).or(latest);
        keyed.push((latest, checkpoint));
    }
    keyed.sort_by_key(|(place, _)| *place);
    keyed.into_iter().map(|(_, checkpoint)| checkpoint).collect()
}
