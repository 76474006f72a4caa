//! What a spec declares and its fixture set lacks.

use crate::gate::Gate;
use crate::golden::FixtureSet;
use crate::spec::Spec;
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
                if let Some(wanted) =
                    checkpoint.dtype.filter(|&wanted| checkpoint.cast.is_none() && wanted != stored)
                {
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
            }
        }
    }
    found
}
