//! The lines of `records.jsonl`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::obstacle::Obstacle;
use crate::record::Record;

/// One line of `records.jsonl`. The lines are in the order of events.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// The port reached a declared checkpoint.
    Checkpoint(Arc<Record>),
    /// The port reached a tap that the spec does not declare; each name appears once.
    Undeclared {
        /// The tap's full name.
        name: String,
    },
    /// The port reached a checkpoint after one that follows it in the reference; only the first case is recorded.
    OutOfOrder {
        /// The checkpoint.
        name: String,
        /// The checkpoint that came too early.
        after: String,
    },
    /// The port returned. Without this line, the worker died before that.
    End(Box<End>),
}

impl Line {
    /// Parses a line. Serde parses a tagged value twice, so the many checkpoint lines take a shorter way.
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        match text.starts_with(r#"{"kind":"checkpoint","#) {
            true => serde_json::from_str(text).map(Self::Checkpoint),
            false => serde_json::from_str(text),
        }
    }
}

/// The state when the port returned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The error or panic of the port, if it failed.
    pub error: Option<String>,
    /// Whether the port was stopped after the last selected checkpoint.
    pub stopped: bool,
    /// Declared inputs that the port never asked for.
    pub unused_inputs: Vec<String>,
    /// The weight audit, if the spec has weights.
    pub weights: Option<Audit>,
    /// The audit of the adapters, if the spec has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapters: Option<Audit>,
    /// The port's use of MLX's global random state, if it drew from it.
    pub random: Option<Drew>,
    /// Verified files that changed before or during the run. Results of such a run cannot be trusted.
    #[serde(default)]
    pub changed: Vec<Obstacle>,
}

/// A port's use of MLX's global random state after it received its weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drew {
    /// The number of draws; `None` if it is very large, or if the port seeded the state.
    pub times: Option<u32>,
}

impl fmt::Display for Drew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.times {
            Some(1) => "drew once from".to_owned(),
            Some(times) => format!("drew {times} times from"),
            None => "drew from, or seeded,".to_owned(),
        };
        write!(
            f,
            "the port {what} MLX's global random state after it received its weights; the reference draws other numbers, \
             so take noise as an input (a new layer draws its initial weights: create it before taking the weights)"
        )
    }
}

/// The weight audit, by the port's names of the weights. Every list except `taken` must be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Weights that the port took.
    pub taken: Vec<String>,
    /// Weights that the port asked for or the spec expects, and that do not exist.
    pub missing: Vec<String>,
    /// Weights that exist and that the port never asked for.
    pub unused: Vec<String>,
    /// Weights whose shape differs from that of the module's parameter, with both shapes.
    pub misshapen: Vec<String>,
    /// Weights whose dtype differs from that of the spec, or whose kind differs from that of the module's parameter.
    pub mistyped: Vec<String>,
    /// Missing scales or biases of quantised weights.
    pub siblings: Vec<String>,
    /// Quantised weights whose packing differs from the spec or from their own scales.
    pub packing: Vec<String>,
    /// Parameters that the spec declares as frozen, and that got a gradient or changed in a training step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trained: Vec<String>,
    /// Rules for `rename` that would turn names of the files into missing names, also where the port failed before it could take
    /// all weights.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub renames: BTreeMap<String, String>,
}

impl Audit {
    /// Returns the problems by kind: the label of a line, the word after the count, and one text per problem.
    pub fn faults(&self) -> [(&'static str, &'static str, &[String]); 7] {
        [
            ("MISSING", "missing", &self.missing),
            ("UNUSED", "never used", &self.unused),
            ("SHAPE", "of another shape", &self.misshapen),
            ("DTYPE", "of another dtype", &self.mistyped),
            ("SIBLING", "without scales or biases", &self.siblings),
            ("PACKING", "packed differently", &self.packing),
            ("TRAINED", "trained, but frozen", &self.trained),
        ]
    }

    /// Returns whether the only problem is that weights were not taken, as in a port that is not finished.
    pub fn is_incomplete(&self) -> bool {
        self.faults().iter().all(|(kind, _, found)| *kind == "UNUSED" || found.is_empty())
    }

    /// Returns whether every weight exists, fits, and was taken.
    pub fn is_clean(&self) -> bool {
        self.faults().iter().all(|(_, _, found)| found.is_empty())
    }
}
