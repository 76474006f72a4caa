//! `PARITY_DEVICE`: the devices on which the specs of a run compute.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::checkpoints::{Checkpoint, Checkpoints};
use super::counterpart::Counterpart;
use super::keywords::Device;
use super::model::{MAIN, Spec, Twin};
use super::requirement::Requirement;
use crate::gate::Gate;

/// Where specs run that name no device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Devices {
    /// Where their files say, or on MLX's default device.
    #[default]
    Declared,
    /// On one device.
    One(Device),
    /// On both, in processes of their own. The second run is compared with the first, as a twin.
    Two(Device, Device),
}

impl Devices {
    /// Returns the spec as it runs on these devices.
    ///
    /// A spec that names a device stays as it is. With two devices, a spec also gets a twin that runs the same port on the
    /// second one, called `on-cpu` or `on-gpu`. Its gates are those of the checkpoints; checkpoints without a gate are not
    /// compared. Specs whose own `inject` replaces tensors get none, since both would continue with the same goldens.
    pub fn apply(self, mut spec: Spec) -> Spec {
        let (first, second) = match self {
            Self::Declared => return spec,
            _ if spec.device != Device::Default => return spec,
            Self::One(device) => (device, None),
            Self::Two(first, second) => (first, Some(second)),
        };
        let spec_twins = spec.twins.iter_mut().filter(|twin| twin.device == Device::Default);
        spec_twins.for_each(|twin| twin.device = first);
        spec.device = first;
        if first == Device::Gpu && !spec.requires.contains(&Requirement::Gpu) {
            spec.requires.push(Requirement::Gpu);
        }
        spec.twins.extend(second.and_then(|device| twin_on(device, &spec)));
        spec
    }
}

fn twin_on(device: Device, spec: &Spec) -> Option<Twin> {
    let name = format!("on-{device}");
    let checkpoints: Checkpoints = spec.checkpoints.iter().filter_map(same).collect();
    let is_free = spec.inject.is_empty() && spec.twins.iter().all(|twin| twin.name != name);
    (is_free && checkpoints.iter().next().is_some()).then(|| Twin {
        name,
        of: MAIN.to_owned(),
        about: Some(format!("The same port on the {}", device.to_string().to_uppercase())),
        device,
        inputs: spec.inputs.clone(),
        checkpoints,
        same_port: true,
    })
}

/// The checkpoint of a run that must agree with the first one, as near as the first one with its golden.
fn same(checkpoint: &Checkpoint) -> Option<Checkpoint> {
    checkpoint.gate.is_some().then(|| Checkpoint {
        gate: checkpoint.gate.clone().map(Gate::between_runs),
        at_least: None,
        shape: None,
        range: None,
        squeeze: Vec::new(),
        layout: None,
        cast: None,
        against: None,
        counterpart: Some(Arc::new(Counterpart::default())),
        ..checkpoint.clone()
    })
}
