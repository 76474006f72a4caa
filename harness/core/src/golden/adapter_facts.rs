//! What adapters, such as LoRA, change in the reference.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gate::Floor;

/// The adapters of a set, and how far they move each golden.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterFacts {
    /// The files of the adapters.
    pub files: Vec<AdapterFile>,
    /// The distance between each golden and the same tensor of the reference without adapters.
    #[serde(default)]
    pub changes: BTreeMap<String, Floor>,
}

/// One file of adapters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterFile {
    /// The file, as the entries of its tensors name it.
    pub file: String,
    /// The rank of all its products; `None` if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The number that is divided by the rank to give the factor of a product, if the reference states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
}

impl AdapterFacts {
    /// What contradicts itself, if anything. `is_golden` is whether the set has a golden of that name.
    pub(super) fn problem(&self, is_golden: impl Fn(&str) -> bool) -> Option<String> {
        if self.files.is_empty() {
            return Some("it names no file".to_owned());
        }
        if let Some(file) = self.files.iter().find(|file| file.rank == Some(0)) {
            return Some(format!("the rank of `{}` is 0", file.file.escape_debug()));
        }
        if let Some(file) = self.files.iter().find(|file| file.alpha.is_some_and(|alpha| !alpha.is_finite()))
        {
            return Some(format!("the alpha of `{}` is not a finite number", file.file.escape_debug()));
        }
        self.changes.iter().find_map(|(name, Floor { max, rms })| {
            let shown = name.escape_debug();
            match () {
                () if !is_golden(name) => {
                    Some(format!("it has a change of `{shown}`, which is not a golden"))
                }
                () if !(0.0 <= *rms && rms <= max && max.is_finite()) => Some(format!(
                    "the change of `{shown}` has max {max:e} and rms {rms:e}, expected 0 <= rms <= max"
                )),
                () => None,
            }
        })
    }
}
