//! A checkpoint, and all checkpoints of a spec in order and by name.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::counterpart::Counterpart;
use super::keywords::Stage;
use super::positions::Positions;
use crate::gate::{Gate, Rule};
use crate::number;
use crate::tensor::Dtype;

/// One place in the port whose tensor is compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The tap's name, with the values of its loop filled in.
    pub name: String,
    /// Line in the spec, from 1; the checkpoints of one loop share it.
    pub line: usize,
    /// The exact number of hits of the tap in one run.
    pub hits: u32,
    /// 0 for coarse checkpoints, higher for inner ones.
    pub level: u8,
    /// The kind of computation that ends here.
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
    #[serde(with = "number::pair")]
    pub range: Option<(f64, f64)>,
    /// Axes of the golden, each of length one, that are dropped before `layout` and `cast`.
    pub squeeze: Vec<usize>,
    /// The golden's axes in the order of the port's: axis `i` of the port is axis `layout[i]` of the squeezed golden.
    pub layout: Option<Vec<usize>>,
    /// The dtype that the golden is cast to; always equal to `dtype`.
    pub cast: Option<Dtype>,
    /// For the state of a cache: the axis with the slots, and the checkpoint that holds their positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<Positions>,
    /// An earlier checkpoint of the same spec whose actual replaces the golden.
    pub against: Option<String>,
    /// For ids, the checkpoint whose golden has the scores that they are chosen by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<String>,
    /// For ids, the later checkpoint whose elements belong to them, such as the weights of experts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// For such weights, the checkpoint of their ids: they are compared by id, not by position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<String>,
    /// The least difference from that checkpoint's actual: `rms(actual - expected) / rms(expected)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// For a twin, the tensor of the other run that it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterpart: Option<Arc<Counterpart>>,
    /// Whether the verdict counts; with `false` the checkpoint is only measured and shown.
    pub gated: bool,
    /// Why the gate is loose or off.
    pub why: Option<Arc<str>>,
}

impl Checkpoint {
    /// The rule for comparing this checkpoint, without the golden's floor.
    pub fn rule(&self) -> Rule {
        Rule { gate: self.gate.clone(), nan_equal: self.nan_equal, range: self.range, ..Rule::default() }
    }

    /// Whether a golden is compared: the checkpoint has a value gate, and its expected tensor is not the port's own.
    pub fn needs_golden(&self) -> bool {
        self.has_expected() && self.counterpart.is_none()
    }

    /// Whether the checkpoint is compared with a golden, or with the tensor of another run: the port can continue with
    /// that tensor in place of its own.
    pub fn has_expected(&self) -> bool {
        self.gate.is_some() && self.against.is_none()
    }

    /// The dtype that the golden must have in the fixture set; `None` for any.
    pub fn golden_dtype(&self) -> Option<Dtype> {
        match (&self.gate, self.cast) {
            (Some(gate), _) if gate.top().is_some() => Some(Dtype::Float64),
            (_, Some(_)) => None,
            (_, None) => self.dtype,
        }
    }

    /// Whether the port can continue with the golden: one that has the most probable ids only is no tensor of the port.
    pub fn can_inject(&self) -> bool {
        self.has_expected() && self.gate.as_ref().is_none_or(|gate| gate.top().is_none())
    }

    /// Whether the tap is inside compiled code, where no tensor can be evaluated.
    pub fn is_unseen(&self) -> bool {
        self.counterpart.as_ref().is_some_and(|counterpart| counterpart.unseen)
    }
}

/// One length of a shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dim {
    /// Exactly this length.
    Fixed(usize),
    /// The same length wherever this name appears in the spec.
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

/// The name of a hit, from 0, in a fixture set: `name` for the first, then `name@1`.
pub fn hit_name(name: &str, hit: u64) -> Cow<'_, str> {
    if hit == 0 { name.into() } else { format!("{name}@{hit}").into() }
}

/// The checkpoints of a spec in execution order. Names are unique, and looking one up takes constant time.
///
/// It dereferences to a slice. In JSON it is the list.
#[derive(Debug, Clone, Default)]
pub struct Checkpoints {
    list: Vec<Checkpoint>,
    by_name: HashMap<Box<str>, usize>,
}

impl Checkpoints {
    /// The index of the checkpoint with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Keeps only the checkpoints for which `keep` holds.
    pub fn retain(&mut self, keep: impl FnMut(&Checkpoint) -> bool) {
        self.list.retain(keep);
        *self = std::mem::take(&mut self.list).into_iter().collect();
    }

    /// Adds a checkpoint at the end. Its name must be new; the spec's own check refuses names that are not.
    pub(super) fn push(&mut self, checkpoint: Checkpoint) {
        self.by_name.insert(checkpoint.name.as_str().into(), self.list.len());
        self.list.push(checkpoint);
    }
}

impl FromIterator<Checkpoint> for Checkpoints {
    fn from_iter<I: IntoIterator<Item = Checkpoint>>(checkpoints: I) -> Self {
        let mut made = Self::default();
        checkpoints.into_iter().for_each(|checkpoint| made.push(checkpoint));
        made
    }
}

impl Deref for Checkpoints {
    type Target = [Checkpoint];

    fn deref(&self) -> &[Checkpoint] {
        &self.list
    }
}

impl<'a> IntoIterator for &'a Checkpoints {
    type Item = &'a Checkpoint;
    type IntoIter = std::slice::Iter<'a, Checkpoint>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl PartialEq for Checkpoints {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Serialize for Checkpoints {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.list.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Checkpoints {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(|list: Vec<Checkpoint>| list.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Policies, parse_spec};

    #[test]
    fn a_name_leads_to_its_checkpoint_also_after_others_are_dropped() {
        let text = "version: 1\nport: p\ncheckpoints: [{name: a, shape: []}, {name: b, shape: []}, {name: c, shape: []}]\n";
        let (policies, _) = Policies::load(Path::new("/nowhere"));
        let mut spec = parse_spec("m/x", Path::new("x.yaml"), text, &policies).unwrap();
        let positions =
            |spec: &super::super::Spec| ["a", "b", "c", "d"].map(|name| spec.checkpoints.position(name));
        assert_eq!(positions(&spec), [Some(0), Some(1), Some(2), None]);
        assert_eq!(spec.checkpoint("b").unwrap().name, "b");
        spec.checkpoints.retain(|checkpoint| checkpoint.name != "a");
        assert_eq!(positions(&spec), [None, Some(0), Some(1), None]);
        assert_eq!(spec.checkpoint("c").unwrap().name, "c");
        assert_eq!(serde_json::to_value(&spec.checkpoints).unwrap()[0]["name"], "b");
    }
}
