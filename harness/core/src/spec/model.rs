//! A checked spec with its loops expanded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::checkpoints::{Checkpoint, Checkpoints, hit_name};
use super::external::External;
use super::keywords::Device;
use super::requirement::Requirement;
use crate::external::{ExternalError, locate};
use crate::files::hash::hex;
use crate::gate::Gate;
use crate::tensor::Dtype;

/// One spec: the port to run, its inputs, and the checkpoints to compare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// `model/component`: the path under the spec root, without its extension.
    pub id: String,
    /// The path of the file.
    pub path: PathBuf,
    /// Name of the closure, registered in the test binary, that runs the port.
    pub port: String,
    /// What is under test, in a sentence.
    pub about: Option<String>,
    /// The reference that made the goldens; always present when a checkpoint needs one.
    pub reference: Option<Reference>,
    /// Folder in the fixture root; the spec's id by default.
    pub fixtures: String,
    /// Tensors of the fixture set that the port asks for.
    pub inputs: Vec<String>,
    /// Weight files that the port asks for.
    pub weights: Option<Weights>,
    /// Weight files of adapters, such as LoRA, that the port applies to its weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adapters: Vec<String>,
    /// The device that the port runs on.
    pub device: Device,
    /// How long a run of the port may take.
    #[serde(rename = "timeout_seconds", with = "seconds")]
    pub timeout: Duration,
    /// Limits on the port's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryGate>,
    /// Conditions under which the spec runs.
    pub requires: Vec<Requirement>,
    /// Checkpoints that are injected in every run.
    pub inject: Vec<String>,
    /// Checkpoints up to this level are on by default.
    pub level: u8,
    /// In execution order, and by name; never empty.
    pub checkpoints: Checkpoints,
    /// Variants of the run, each compared with the run itself or with a variant before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub twins: Vec<Twin>,
    /// Which run this one is compared with; `None` for the main run of a spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin: Option<TwinOf>,
}

/// What a twin names when it is compared with the main run of its spec.
pub const MAIN: &str = "main";

/// A variant of a spec's run, which is compared with another run of the same spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Twin {
    /// The name, which follows the spec's id in the id of the twin: `qwen3/decoder+padded`.
    pub name: String,
    /// The run that it is compared with: [`MAIN`], or the name of a twin before it.
    pub of: String,
    /// What the variant does differently, in a sentence.
    pub about: Option<String>,
    /// The device that the variant runs on.
    pub device: Device,
    /// Inputs that the variant asks for.
    pub inputs: Vec<String>,
    /// The checkpoints that are compared, each with its counterpart.
    pub checkpoints: Checkpoints,
    /// Whether it runs the port of its spec, and has no closure of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub same_port: bool,
}

/// For the run of a twin: what it is compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwinOf {
    /// The name of the twin.
    pub name: String,
    /// The id of the run that it is compared with, e.g. `qwen3/decoder` or `qwen3/decoder+alone`.
    pub of: String,
    /// How many checkpoints of that run are not compared.
    pub not_compared: usize,
}

/// Limits on the memory that MLX has in use while the port runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryGate {
    /// The most bytes at any time.
    pub peak_bytes: u64,
}

/// The code that was ported and the script that exports its goldens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Path of the script, relative to the project's root.
    pub script: String,
    /// The code that was ported, as `module:Name` or any other text that helps to find it.
    pub source: Option<String>,
    /// Settings for the script.
    pub params: Map<String, Value>,
    /// Environment variables that the script gets in addition to those of every script.
    ///
    /// Neither these nor the timeout make goldens stale: they affect how a script runs, not what it computes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// How long each run of the script may take.
    #[serde(rename = "timeout_seconds", with = "seconds")]
    pub timeout: Duration,
    /// Path of a second, independent script, whose goldens must agree with those of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also: Option<String>,
}

/// The weight files of a spec and the requirements on them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Weights {
    /// Files in the fixture folder; more than one are shards of one set. Empty for external weights.
    pub files: Vec<String>,
    /// Files outside the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// Parts of the reference's tensor names and what they are called in the port.
    pub rename: BTreeMap<String, String>,
    /// Names or `*` patterns of parameters that the files need not have.
    pub allow_missing: Vec<String>,
    /// Names that must exist after renaming.
    pub expect: Vec<String>,
    /// Names or `*` patterns of parameters that a training step must not change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frozen: Vec<String>,
    /// Dtype that every floating-point weight of the files must have.
    pub dtype: Option<Dtype>,
    /// The packing of every quantised weight.
    pub quantized: Option<Packing>,
}

/// How quantised weights are packed: elements of `bits` bits lie in 32-bit words, and `group_size` of them in a row
/// share a scale and a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// Bits of one element.
    pub bits: u32,
    /// Elements that share a scale and a bias.
    pub group_size: u32,
}

impl Packing {
    /// The values of `bits` that MLX can pack.
    pub const BITS: [u32; 6] = [2, 3, 4, 5, 6, 8];
    /// The values of `group_size` that MLX can pack.
    pub const GROUP_SIZES: [u32; 3] = [32, 64, 128];

    /// Whether rows of `words` 32-bit words hold exactly `groups` groups.
    pub fn fits(self, words: usize, groups: usize) -> bool {
        let bits = u128::from(self.bits) * u128::from(self.group_size) * groups as u128;
        bits == 32 * words as u128
    }

    /// Every packing of MLX that fits rows of `words` 32-bit words and `groups` groups.
    pub fn fitting(words: usize, groups: usize) -> Vec<Self> {
        let pairs = Self::BITS
            .iter()
            .flat_map(|&bits| Self::GROUP_SIZES.iter().map(move |&group_size| Self { bits, group_size }));
        pairs.filter(|packing| packing.fits(words, groups)).collect()
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bits in groups of {}", self.bits, self.group_size)
    }
}

impl Reference {
    /// The parts of the reference that goldens depend on, without absent keys and with sorted ones. The layout of the
    /// YAML does not matter, an empty `params` is the same as none, and `env` and `timeout` are not included. Nor is
    /// `also`, because the content of that script counts too: see `preflight::reference_block`.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("script".to_owned(), json!(self.script));
        if let Some(source) = &self.source {
            object.insert("source".to_owned(), json!(source));
        }
        if !self.params.is_empty() {
            object.insert("params".to_owned(), sorted(&Value::Object(self.params.clone())));
        }
        sorted(&Value::Object(object))
    }
}

/// The value with all keys sorted. A dependency may make serde_json keep the order of insertion, which would otherwise
/// change hashes.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let ordered: BTreeMap<&String, Value> =
                object.iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(ordered.into_iter().map(|(key, value)| (key.clone(), value)).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

impl Spec {
    /// The checkpoint with this name.
    pub fn checkpoint(&self, name: &str) -> Option<&Checkpoint> {
        self.checkpoints.position(name).map(|index| &self.checkpoints[index])
    }

    /// The spec of each twin: the same port in another way, with the tensors of another run in place of goldens.
    pub fn twin_specs(&self) -> impl Iterator<Item = Self> {
        self.twins.iter().map(|twin| {
            let of = self.twins.iter().find(|other| other.name == twin.of);
            let all = of.map_or(&self.checkpoints, |other| &other.checkpoints);
            let name = |name: &str| format!("{}+{name}", self.id);
            Self {
                id: name(&twin.name),
                port: match twin.same_port {
                    true => self.port.clone(),
                    false => format!("{}+{}", self.port, twin.name),
                },
                about: twin.about.clone(),
                device: twin.device,
                requires: match (twin.device, self.device) {
                    (Device::Gpu, Device::Default | Device::Cpu) => {
                        self.requires.iter().cloned().chain([Requirement::Gpu]).collect()
                    }
                    _ => self.requires.clone(),
                },
                inputs: twin.inputs.clone(),
                memory: None,
                inject: Vec::new(),
                checkpoints: twin.checkpoints.clone(),
                twins: Vec::new(),
                twin: Some(TwinOf {
                    name: twin.name.clone(),
                    of: of.map_or_else(|| self.id.clone(), |other| name(&other.name)),
                    not_compared: all.len() - twin.checkpoints.len(),
                }),
                ..self.clone()
            }
        })
    }

    /// The adapters as weight files, with the names of the weights' `rename`; `None` without adapters.
    pub fn adapter_weights(&self) -> Option<Weights> {
        let rename = self.weights.as_ref().map(|weights| weights.rename.clone()).unwrap_or_default();
        let files = self.adapters.clone();
        (!files.is_empty()).then(|| Weights { files, rename, ..Weights::default() })
    }

    /// The goldens that are compared: each checkpoint with the name of one of its hits in the fixture set.
    pub fn goldens(&self) -> impl Iterator<Item = (&Checkpoint, String)> {
        self.checkpoints.iter().filter(|checkpoint| checkpoint.needs_golden()).flat_map(|checkpoint| {
            (0..checkpoint.hits)
                .map(move |hit| (checkpoint, hit_name(&checkpoint.name, hit.into()).into_owned()))
        })
    }

    /// Whether a run needs the fixture set, for inputs, weights or goldens.
    pub fn needs_fixtures(&self) -> bool {
        let has_floor = |gate: &Gate| gate.needs_floor() || gate.ties().is_some();
        let needs_floor = |gate: &Option<Gate>| gate.as_ref().is_some_and(has_floor);
        !self.inputs.is_empty()
            || self.weights.is_some()
            || self.checkpoints.iter().any(|one| one.needs_golden() || needs_floor(&one.gate))
    }

    /// The checkpoints whose tensors a run must keep for `twin`, which is compared with it: also the scores of choices.
    pub fn kept_for(twin: &Self) -> impl Iterator<Item = &String> {
        let compared = twin.checkpoints.iter().filter(|checkpoint| !checkpoint.is_unseen());
        compared.flat_map(|checkpoint| [Some(&checkpoint.name), checkpoint.scores.as_ref()]).flatten()
    }

    /// The inputs that only say which rows of a twin are compared.
    pub fn masks(&self) -> BTreeSet<&str> {
        let counterparts = self.checkpoints.iter().filter_map(|checkpoint| checkpoint.counterpart.as_ref());
        counterparts.filter_map(|counterpart| counterpart.mask.as_deref()).collect()
    }

    /// A digest of the spec with its loops, policies and defaults filled in. Two specs with the same digest require the
    /// same.
    pub fn digest(&self) -> String {
        // Every value in a spec has a form in JSON.
        hex(&Sha256::digest(serde_json::to_vec(self).unwrap_or_default()))
    }

    /// The external weights; `None` if all weights are in the fixture folder.
    pub fn external(&self) -> Option<&External> {
        self.weights.as_ref()?.external.as_ref()
    }

    /// Why the spec cannot run on this host: the first requirement that is not met, or external weights that are not here.
    pub fn unmet(&self, host: &super::Host<'_>) -> Option<String> {
        let unmet = self.requires.iter().find_map(|requirement| requirement.unmet(host));
        unmet.or_else(|| {
            // Everything else that is wrong with the files makes the tests red.
            let absent =
                locate(&self.external()?.path, host.variable).err().filter(ExternalError::is_absent)?;
            Some(format!("needs its external weights: {absent}"))
        })
    }
}

/// Durations as whole seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(duration.as_secs())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_secs)
    }
}
