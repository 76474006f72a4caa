//! A spec as the rest of the crate sees it: checked, with its loops expanded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::requirement::Requirement;
use super::words::{Device, Stage};
use crate::compare::{Gate, Rule};
use crate::hash::hex;
use crate::tensor::Dtype;

/// One spec file: what to run, on what, and what to look at on the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spec {
    /// `model/component`: the path under the spec root, without its extension.
    pub id: String,
    /// The file, as it was reached.
    pub path: PathBuf,
    /// Name of the closure, registered in the test binary, that runs the port.
    pub port: String,
    /// What is under test, in a sentence.
    pub about: Option<String>,
    /// What made the goldens; always there when a checkpoint needs one.
    pub reference: Option<Reference>,
    /// Folder under the fixture root; the spec's own id unless it says otherwise.
    pub fixtures: String,
    /// Tensors of the fixture set that the port asks for.
    pub inputs: Vec<String>,
    /// Weight files that the port asks for.
    pub weights: Option<Weights>,
    /// The device that the port runs on.
    pub device: Device,
    /// How long a run of the port may take.
    #[serde(rename = "timeout_seconds", serialize_with = "seconds")]
    pub timeout: Duration,
    /// What must hold for the spec to run at all.
    pub requires: Vec<Requirement>,
    /// Checkpoints whose tap returns the golden, always.
    pub inject: Vec<String>,
    /// Checkpoints up to this level are on by default.
    pub level: u8,
    /// In execution order; never empty, names are unique.
    pub checkpoints: Vec<Checkpoint>,
}

/// The code that was ported and the script that exports its goldens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reference {
    /// Path of the script, relative to the project's root.
    pub script: String,
    /// What was ported, as `module:Name` or in any other words that find it.
    pub source: Option<String>,
    /// Settings that the script is given.
    pub params: Map<String, Value>,
    /// Environment variables that the script is given besides those that every script is.
    ///
    /// Neither these nor the timeout make goldens stale: they say how a script is run, not what it computes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// How long the script may run, each time that it does.
    #[serde(rename = "timeout_seconds", serialize_with = "seconds")]
    pub timeout: Duration,
}

/// Where weights come from and what is asked of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Weights {
    /// Files in the fixture folder; more than one are shards of one set.
    pub files: Vec<String>,
    /// Parts of the reference's tensor names and what they are called in the port.
    pub rename: BTreeMap<String, String>,
    /// Names or `*` patterns of parameters that the files need not have.
    pub allow_missing: Vec<String>,
    /// Names that must be there once renamed.
    pub expect: Vec<String>,
    /// Dtype that every floating-point weight of the files must have.
    pub dtype: Option<Dtype>,
    /// How every quantised weight is packed.
    pub quantized: Option<Packing>,
}

/// How quantised weights are packed: elements of `bits` bits lie in 32-bit words, and `group_size` of them in a row
/// share a scale and a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Packing {
    /// Bits of one element.
    pub bits: u32,
    /// Elements that share a scale and a bias.
    pub group_size: u32,
}

impl Packing {
    /// The bits that MLX can pack.
    pub const BITS: [u32; 6] = [2, 3, 4, 5, 6, 8];
    /// The sizes of groups that MLX can pack.
    pub const GROUP_SIZES: [u32; 3] = [32, 64, 128];

    /// Whether rows of `words` 32-bit words hold exactly `groups` groups.
    pub fn fits(self, words: usize, groups: usize) -> bool {
        let bits = u128::from(self.bits) * u128::from(self.group_size) * groups as u128;
        bits == 32 * words as u128
    }

    /// Every packing of MLX that fits such rows.
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

/// One place in the port whose tensor is looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checkpoint {
    /// The tap's name, with the loop's values in it.
    pub name: String,
    /// Line in the spec, from 1; checkpoints of one loop share it.
    pub line: usize,
    /// How often the tap is met in one run, exactly.
    pub hits: u32,
    /// 0 for the coarse ones, higher for those inside.
    pub level: u8,
    /// What kind of computation ends here.
    pub stage: Option<Stage>,
    /// Dtype that the port must produce; `None` only without a value gate.
    pub dtype: Option<Dtype>,
    /// Shape that the port must produce.
    pub shape: Option<Arc<[Dim]>>,
    /// The value gate.
    pub gate: Option<Gate>,
    /// Whether a NaN agrees with a NaN.
    pub nan_equal: bool,
    /// Smallest and largest value that the actual may hold; either may be infinite.
    pub range: Option<(f64, f64)>,
    /// Axes of the golden that are dropped, each of length one, before anything else is done to it.
    pub squeeze: Vec<usize>,
    /// The golden's axes in the order of the port's: axis `i` of the port is axis `layout[i]` of the squeezed golden.
    pub layout: Option<Vec<usize>>,
    /// The dtype that the golden is cast to; always equal to `dtype`.
    pub cast: Option<Dtype>,
    /// An earlier checkpoint of the same spec whose actual stands in for a golden.
    pub against: Option<String>,
    /// How far the actual must be from that checkpoint's at least: `rms(actual - expected) / rms(expected)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Whether the verdict counts; `false` is measured and shown only.
    pub gated: bool,
    /// Why the gate is loose or off.
    pub why: Option<Arc<str>>,
}

/// One length of a shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum Dim {
    /// Exactly this length.
    Fixed(usize),
    /// The same length wherever this name stands in the spec.
    Named(String),
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(length) => write!(f, "{length}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl Reference {
    /// What the goldens hang on, with absent keys left out and keys in order: the same value for the same reference,
    /// whatever its YAML looks like. An absent `params` and an empty one are the same; `env` and `timeout` are no part.
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

/// Objects with their keys in order: a dependency may switch on serde_json's insertion order, which would otherwise
/// leak into hashes.
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

impl Checkpoint {
    /// What a comparison is judged by, still without the golden's floor.
    pub fn rule(&self) -> Rule {
        Rule { gate: self.gate.clone(), floor: None, nan_equal: self.nan_equal, range: self.range }
    }

    /// Whether a golden is compared: there is a value gate, and no other checkpoint stands in.
    pub fn needs_golden(&self) -> bool {
        self.gate.is_some() && self.against.is_none()
    }
}

/// What the hit number `hit` of a tap, from 0, is called in a fixture set: `name`, then `name@1`.
pub(crate) fn hit_name(name: &str, hit: u64) -> Cow<'_, str> {
    if hit == 0 { name.into() } else { format!("{name}@{hit}").into() }
}

impl Spec {
    /// The checkpoint of that name.
    pub fn checkpoint(&self, name: &str) -> Option<&Checkpoint> {
        self.checkpoints.iter().find(|checkpoint| checkpoint.name == name)
    }

    /// The goldens that are compared with, each under its name in the fixture set, with its checkpoint.
    pub fn goldens(&self) -> impl Iterator<Item = (&Checkpoint, String)> {
        self.checkpoints.iter().filter(|checkpoint| checkpoint.needs_golden()).flat_map(|checkpoint| {
            (0..checkpoint.hits)
                .map(move |hit| (checkpoint, hit_name(&checkpoint.name, hit.into()).into_owned()))
        })
    }

    /// Whether a run needs the fixture set at all: for inputs, weights or goldens.
    pub fn needs_fixtures(&self) -> bool {
        !self.inputs.is_empty()
            || self.weights.is_some()
            || self.checkpoints.iter().any(Checkpoint::needs_golden)
    }

    /// A digest of all that the spec says, with its loops, policies and defaults filled in. Two specs with the same
    /// digest ask for the same.
    pub(crate) fn digest(&self) -> String {
        // A spec holds nothing that JSON cannot.
        hex(&Sha256::digest(serde_json::to_vec(self).unwrap_or_default()))
    }

    /// Why the spec cannot run there; the first requirement that is not met.
    pub fn unmet(&self, host: &super::Host<'_>) -> Option<String> {
        self.requires.iter().find_map(|requirement| requirement.unmet(host))
    }
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_secs())
}
