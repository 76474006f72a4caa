//! One explanation of a failing tensor, with what it leaves unexplained.

use serde::{Deserialize, Serialize};

use super::Kind;
use crate::compare::number;

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
