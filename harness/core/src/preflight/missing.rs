//! What a spec declares and its fixture set lacks.

use crate::compare::TopRows;
use crate::gate::Gate;
use crate::golden::FixtureSet;
use crate::spec::{Checkpoint, Spec};
use crate::text::error_chain;

/// Returns what a spec declares but its set lacks, and goldens with the wrong dtype or without a floor.
pub fn missing(spec: &Spec, set: &FixtureSet) -> Vec<String> {
    let mut found = Vec::new();
    for name in &spec.inputs {
        found.extend(set.input(name).err().map(|error| error_chain(&error)));
    }
    for (checkpoint, name) in spec.goldens() {
        match set.golden(&name) {
            Err(error) => found.push(error_chain(&error)),
            Ok(golden) => {
                let stored = golden.tensor.dtype();
                if let Some(top) = checkpoint.gate.as_ref().and_then(Gate::top) {
                    let problem = TopRows::new(&golden.tensor.view(), top).err();
                    found.extend(problem.map(|why| {
                        format!("line {}: checkpoint `{name}` cannot be compared: {why}", checkpoint.line)
                    }));
                } else if let Some(wanted) = checkpoint.golden_dtype().filter(|&wanted| wanted != stored) {
                    found.push(format!(
                        "line {}: checkpoint `{name}` is {wanted}, but its golden is {stored}; export it as \
                         {wanted}, or write `cast: {wanted}`",
                        checkpoint.line
                    ));
                }
                if checkpoint.gate.as_ref().is_some_and(Gate::needs_floor) && golden.floor.is_none() {
                    found.push(format!(
                        "line {}: checkpoint `{name}` has a `noise` gate, but its golden has no floor",
                        checkpoint.line
                    ));
                }
                let is_scores = |other: &Checkpoint| other.scores.as_ref() == Some(&checkpoint.name);
                if golden.floor.is_none()
                    && let Some(ids) = spec.checkpoints.iter().find(|other| is_scores(other))
                {
                    found.push(format!(
                        "line {}: the ties of checkpoint `{}` need the floor of `{name}`, but its golden has none",
                        ids.line, ids.name
                    ));
                }
            }
        }
    }
    found
}
