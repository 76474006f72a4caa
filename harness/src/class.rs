//! The one word for what kind of failure a failure is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a checkpoint, a fixture, a weight set or a spec failed. A failure has exactly one class: that of the first
/// check that did not hold, in the order in which the variants are declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The spec cannot be used as it stands.
    Spec,
    /// The fixture set or one of its files is not there.
    Missing,
    /// The golden was made by another reference than the one the spec now names.
    Stale,
    /// A fixture file or the manifest is there and cannot be trusted or read.
    Corrupt,
    /// The worker ended before this checkpoint: error, panic, signal or timeout.
    Crash,
    /// The port finished without ever reaching this tap.
    Unreached,
    /// The tap was met more or fewer times than declared.
    Hits,
    /// The shapes differ.
    Shape,
    /// The dtypes differ.
    Dtype,
    /// NaN or infinity where the golden has none, or another one.
    Finite,
    /// The floor is so high that agreement would prove nothing.
    Untestable,
    /// Values are outside the gate.
    Value,
    /// Values are outside the declared range.
    Range,
    /// An input that the spec declares was never asked for.
    Unused,
    /// The port drew from MLX's global random state.
    Random,
    /// Weights were missing, never used, or other than the port or the spec has them.
    Weights,
    /// The port's own statistics are not those that were accepted.
    Stats,
}

impl Class {
    /// The word, as records and messages have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Missing => "missing",
            Self::Stale => "stale",
            Self::Corrupt => "corrupt",
            Self::Crash => "crash",
            Self::Unreached => "unreached",
            Self::Hits => "hits",
            Self::Shape => "shape",
            Self::Dtype => "dtype",
            Self::Finite => "finite",
            Self::Untestable => "untestable",
            Self::Value => "value",
            Self::Range => "range",
            Self::Unused => "unused",
            Self::Random => "random",
            Self::Weights => "weights",
            Self::Stats => "stats",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
