//! What makes running a spec pointless, found without MLX: fixtures that are missing, stale or cannot be trusted.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Class;
use crate::golden::{ChecksumMemory, FixtureError, FixtureSet, Role};
use crate::regular;
use crate::report::error_chain;
use crate::spec::{Device, Spec};
use crate::tensor::Dtype;

/// Something about the spec or its fixtures that must be mended before a run can say anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Obstacle {
    pub(crate) class: Class,
    pub(crate) text: String,
}

impl From<FixtureError> for Obstacle {
    fn from(error: FixtureError) -> Self {
        Self { class: error.class(), text: error_chain(&error) }
    }
}

/// Looks at the fixtures of a spec: they must be there, made by the reference that the spec names (its script lies
/// under `root`), and hold what their manifest says. What was hashed before is taken from `memory`.
///
/// The set comes back when it can be read at all.
pub(crate) fn look_at_fixtures(
    spec: &Spec,
    root: &Path,
    fixture_root: &Path,
    memory: &mut ChecksumMemory,
) -> (Option<FixtureSet>, Vec<Obstacle>) {
    if !spec.needs_fixtures() {
        return (None, Vec::new());
    }
    let set = match FixtureSet::open(fixture_root, &spec.fixtures) {
        Ok(set) => set,
        Err(error) => return (None, vec![error.into()]),
    };
    if let Some(reference) = &spec.reference {
        let script = root.join(&reference.script);
        let fresh = match regular::read(&script, regular::TEXT) {
            Ok(bytes) => set.check_fresh(&reference.to_json(), &bytes).map_err(Obstacle::from),
            Err(error) => Err(Obstacle {
                class: Class::Missing,
                text: format!("the reference's script `{}` cannot be read: {error}", script.display()),
            }),
        };
        if let Err(obstacle) = fresh {
            return (Some(set), vec![obstacle]);
        }
    }
    let mut obstacles: Vec<Obstacle> = set.verify(memory).into_iter().map(Obstacle::from).collect();
    obstacles.extend(float64(spec, &set));
    (Some(set), obstacles)
}

/// Inputs and weights in float64, unless the spec is for the CPU, the only device on which MLX has it.
///
/// NumPy makes float64 where nobody asks for it. A port that is given it computes in float64 on a machine without a GPU,
/// fails on others, and proves nothing about float32.
fn float64(spec: &Spec, set: &FixtureSet) -> Vec<Obstacle> {
    if spec.device == Device::Cpu {
        return Vec::new();
    }
    let inputs = set.entries(Role::Input).filter(|entry| spec.inputs.contains(&entry.name));
    let files = spec.weights.as_ref().map(|weights| weights.files.as_slice()).unwrap_or_default();
    let weights = set.weights().filter(|entry| files.contains(&entry.file));
    inputs
        .chain(weights)
        .filter(|entry| entry.dtype == Dtype::Float64)
        .map(|entry| Obstacle {
            class: Class::Dtype,
            text: format!(
                "{} `{}` is float64, which MLX computes on the CPU only; save it as float32 in the reference's script, or \
                 say `device: cpu` in the spec if the port is to compute in float64",
                entry.role.name(),
                entry.name
            ),
        })
        .collect()
}
