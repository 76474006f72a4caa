//! What diagnosis reports about a failing tensor: causes, each with its residual, or facts.

use serde::{Deserialize, Serialize};

use super::{FactKind, Kind};
use crate::compare::number;

/// What there is to tell of a failing tensor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnosis {
    /// What the actual is, best explanation first, at most three.
    pub causes: Vec<Cause>,
    /// What can be seen where nothing explains the error, at most three.
    pub facts: Vec<Fact>,
}

/// Something that can be seen in a failing tensor, and that predicts nothing: it is no cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Which kind of fact it is.
    pub kind: FactKind,
    /// The fact in words: `the first 6 of 12 indices of axis 1 agree`.
    pub text: String,
    /// How many elements were looked at, where it was not all of them.
    pub sampled: Option<u64>,
}

/// An explanation that holds for the values: once it is undone, what is left is near the floor or the tolerance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Which kind of explanation it is.
    pub kind: Kind,
    /// What the actual is, in words that follow "it is": `the golden with parts 0 and 1 of 6 along axis 1 swapped`.
    pub text: String,
    /// What is left once it is undone.
    pub residual: Residual,
    /// How many elements were looked at, where it was not all of them.
    pub sampled: Option<u64>,
}

/// What an explanation leaves of the error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Residual {
    /// Root mean square of what is left.
    #[serde(with = "number")]
    pub rms: f64,
    /// The same as a part of the error that was to be explained.
    #[serde(with = "number")]
    pub part: f64,
    /// How much of the checkpoint's gate what is left would use; 1 is its edge.
    #[serde(with = "number")]
    pub used: f64,
}
