//! The entries of a manifest, tensors and recipes, and what each must hold by itself.

use serde::{Deserialize, Serialize};

use super::step_facts::StepFacts;
use crate::files::hash::is_sha256;
use crate::gate::Floor;
use crate::tensor::{Dtype, MAX_AXES, TensorFormat, byte_len};

/// One tensor of a fixture set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorEntry {
    /// The name of the tap, input or weight; the second hit of a tap is `name@1`.
    pub name: String,
    /// The purpose of the tensor.
    pub role: Role,
    /// The file, relative to the folder, with `/` between the parts of its path.
    pub file: String,
    /// The tensor's name in the file, when it differs from `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Element type.
    pub dtype: Dtype,
    /// Lengths of the axes.
    pub shape: Vec<usize>,
    /// Hex SHA-256 of the elements as row-major, little-endian bytes.
    pub sha256: String,
    /// Position in the order of the reference's calls; only goldens have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// How far the reference is from float64 here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// The block of the reference in which the floor was measured, from the block's own inputs: the floor leaves out the
    /// errors of earlier blocks. Without a block, the floor is that of the whole computation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_block: Option<String>,
    /// Why a floor is missing where one would be expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_floor: Option<String>,
    /// The largest distance to the results of other kernels of the reference's library, of all that were tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Floor>,
    /// The place in the reference's source that made this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// How a step of the reference's optimiser made this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepFacts>,
}

/// The purpose of a tensor in a fixture set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The expected tensor of a tap.
    Golden,
    /// An input of the port.
    Input,
    /// A parameter of the port.
    Weight,
    /// A tensor that recipes use, and that the reference neither takes nor learns.
    Constant,
}

impl Role {
    /// The word for this role in manifests and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Golden => "golden",
            Self::Input => "input",
            Self::Weight => "weight",
            Self::Constant => "constant",
        }
    }
}

impl TensorEntry {
    /// Whether the file is an npy file, which holds one tensor without a name.
    pub(super) fn is_npy(&self) -> bool {
        matches!(TensorFormat::of(&self.file), Ok(TensorFormat::Npy))
    }

    /// The tensor's name in the file.
    pub(super) fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.name)
    }

    /// Checks every number, name and path. Returns the first problem, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.name.is_empty() || self.name.chars().any(char::is_control) {
            return Err("its name is empty or has control characters".into());
        }
        if !is_plain_path(&self.file) {
            let file = self.file.escape_debug();
            return Err(format!("its file `{file}` is not a plain path from the folder"));
        }
        TensorFormat::of(&self.file).map_err(|error| error.to_string())?;
        if self.is_npy() && self.key.is_some() {
            return Err("it has a `key`, but an npy file has no names".into());
        }
        if self.shape.len() > MAX_AXES {
            return Err(format!("it has {} axes, at most {MAX_AXES} are allowed", self.shape.len()));
        }
        byte_len(self.dtype, &self.shape).map_err(|error| error.to_string())?;
        if !is_sha256(&self.sha256) {
            let found = self.sha256.escape_debug();
            return Err(format!("its sha256 is `{found}`, expected 64 lower-case hexadecimal digits"));
        }
        match (self.role, self.sequence) {
            (Role::Golden, None) => return Err("a golden needs a `sequence`".into()),
            (Role::Input | Role::Weight | Role::Constant, Some(_)) => {
                return Err(format!("only a golden has a `sequence`, but this is {}", an(self.role)));
            }
            _ => {}
        }
        for (key, distance) in [("floor", self.floor), ("spread", self.spread)] {
            let Some(Floor { max, rms }) = distance else { continue };
            if self.role != Role::Golden {
                return Err(format!("only a golden has a `{key}`, but this is {}", an(self.role)));
            }
            let sound = max.is_finite() && rms.is_finite() && max >= 0.0 && rms >= 0.0;
            // A root mean square is at most the maximum. The margin allows for one summed in float32.
            if !sound || rms > max * 1.001 {
                return Err(format!("its {key} has max {max:e} and rms {rms:e}, expected 0 <= rms <= max"));
            }
        }
        if let Some(block) = &self.floor_block {
            if self.floor.is_none() {
                return Err("it has a `floor_block`, but no `floor`".into());
            }
            if block.is_empty() || block.chars().any(char::is_control) {
                return Err("its `floor_block` is empty or has control characters".into());
            }
        }
        if self.no_floor.is_some() && self.floor.is_some() {
            return Err("it has a `floor` and a `no_floor`, expected one of them".into());
        }
        if self.no_floor.is_some() && self.role != Role::Golden {
            return Err(format!("only a golden has a `no_floor`, but this is {}", an(self.role)));
        }
        if let Some(step) = &self.step {
            if self.role != Role::Golden {
                return Err(format!("only a golden has a `step`, but this is {}", an(self.role)));
            }
            step.problem().map_or(Ok(()), Err)?;
        }
        Ok(())
    }
}

/// The file with the recipes of a fixture set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipesFile {
    /// The file, relative to the folder, with `/` between the parts of its path.
    pub file: String,
    /// Hex SHA-256 of the file's bytes.
    pub sha256: String,
}

impl RecipesFile {
    /// Checks the path and the checksum. No entry of `tensors` may have the same file.
    pub(super) fn check(&self, tensors: &[TensorEntry]) -> Result<(), String> {
        let file = self.file.escape_debug();
        if !is_plain_path(&self.file) || !self.file.ends_with(".json") {
            return Err(format!("its file `{file}` is not a plain path from the folder that ends in .json"));
        }
        // The manifest's own name, which only the folder of another set may contain.
        if self.file.rsplit('/').next() == Some("manifest.json")
            || tensors.iter().any(|one| one.file == self.file)
        {
            return Err(format!("its file `{file}` is already used"));
        }
        if !is_sha256(&self.sha256) {
            let found = self.sha256.escape_debug();
            return Err(format!("its sha256 is `{found}`, expected 64 lower-case hexadecimal digits"));
        }
        Ok(())
    }
}

fn an(role: Role) -> String {
    let article = if role == Role::Input { "an" } else { "a" };
    format!("{article} {}", role.name())
}

/// Whether a relative path stays inside its start folder and means the same on every system.
pub(super) fn is_plain_path(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && !path.contains(|c: char| matches!(c, '\\' | ':') || c.is_control())
}
