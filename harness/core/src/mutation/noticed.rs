//! One mutation, and who noticed it.

use serde::{Deserialize, Serialize};

use super::kind::MutationKind;

/// One change at one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutation {
    /// Name of the checkpoint whose tensor is changed.
    pub checkpoint: String,
    /// The change. Files call it `fault`.
    #[serde(rename = "fault")]
    pub kind: MutationKind,
}

/// A mutation, and who noticed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MutationResult {
    /// The mutation.
    #[serde(flatten)]
    pub mutation: Mutation,
    /// Who noticed it.
    pub noticed: Noticed,
    /// Share of its own checkpoint's gate that the mutation used; `None` without a gate, or when an earlier check failed.
    pub used: Option<f64>,
}

/// Who noticed a mutation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Noticed {
    /// The mutation left the tensor as it was, so nothing could be noticed.
    Equivalent,
    /// The mutated checkpoint.
    Itself,
    /// A later checkpoint; this is the first one.
    Later(String),
    /// The port, which failed with this message or crashed.
    Port(String),
    /// Nobody.
    Never,
}
