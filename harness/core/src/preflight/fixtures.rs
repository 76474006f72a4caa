//! Checks the fixtures of a spec without MLX: they must exist, be fresh and be intact.

use std::path::Path;

use super::external::open_external;
use super::reference_block::reference_block;
use crate::files::regular;
use crate::gate::Class;
use crate::golden::{ChecksumMemory, FixtureError, FixtureSet, Role};
use crate::run_folder::Obstacle;
use crate::spec::{Device, Spec};
use crate::tensor::Dtype;
use crate::weights::is_declared;

/// Checks the fixtures of a spec, and returns the fixture set if it can be read, with the problems found.
///
/// The fixtures must exist, come from the reference that the spec names (its script lies under `root`), and match their
/// manifest. `memory` holds the checksums that are already known.
///
/// External weights are added to the set and verified, too. If they are not on this machine, the set is returned without
/// them, which is no problem of the set: [`Spec::unmet`] reports it.
pub fn look_at_fixtures(
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
            Ok(bytes) => reference_block(reference, root)
                .and_then(|block| set.check_fresh(&block, &bytes).map_err(Obstacle::from)),
            Err(error) => Err(Obstacle {
                class: Class::Missing,
                text: format!("the reference's script `{}` cannot be read: {error}", script.display()),
            }),
        };
        if let Err(obstacle) = fresh {
            return (Some(set), vec![obstacle]);
        }
    }
    let (set, mut obstacles) = match add_external(spec, set, memory) {
        Ok(added) => added,
        Err(error) => return (None, vec![error.into()]),
    };
    obstacles.extend(set.verify(memory).into_iter().map(Obstacle::from));
    obstacles.extend(float64(spec, &set));
    (Some(set), obstacles)
}

/// Returns the set with its external weights, and what is wrong with their checksums.
fn add_external(
    spec: &Spec,
    set: FixtureSet,
    memory: &mut ChecksumMemory,
) -> Result<(FixtureSet, Vec<Obstacle>), FixtureError> {
    let Some(external) = spec.external() else { return Ok((set, Vec::new())) };
    let opened = match open_external(external) {
        Ok(opened) => opened,
        Err(error) if error.is_absent() => return Ok((set, Vec::new())),
        Err(error) => return Err(error.into()),
    };
    let recorded = set.manifest().external_weights.as_deref();
    let problems = opened.verify(set.name(), external.sha256.as_ref(), recorded, memory);
    let obstacles = problems.into_iter().map(|problem| FixtureError::from(problem).into()).collect();
    Ok((set.with_external(opened)?, obstacles))
}

/// Inputs and weights in float64, unless the spec is for the CPU: MLX supports float64 only there.
///
/// NumPy creates float64 by default. A port with such inputs computes in float64 on a machine without a GPU, fails on
/// others, and proves nothing about float32.
fn float64(spec: &Spec, set: &FixtureSet) -> Vec<Obstacle> {
    if spec.device == Device::Cpu {
        return Vec::new();
    }
    let inputs = set.entries(Role::Input).filter(|entry| spec.inputs.contains(&entry.name));
    let weights = set.weights().filter(|entry| {
        spec.weights.as_ref().is_some_and(|weights| is_declared(entry, weights))
            || spec.adapters.contains(&entry.file)
    });
    inputs
        .chain(weights)
        .filter(|entry| entry.dtype == Dtype::Float64)
        .map(|entry| Obstacle {
            class: Class::Dtype,
            text: format!(
                "{} `{}` is float64, which MLX supports only on the CPU; save it as float32 in the reference's script, or \
                 set `device: cpu` in the spec if the port must compute in float64",
                entry.role.name(),
                entry.name
            ),
        })
        .collect()
}
