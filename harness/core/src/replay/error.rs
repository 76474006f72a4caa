//! Errors of replays.

use thiserror::Error;

/// Why a value cannot be computed.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
#[non_exhaustive]
pub enum ReplayError {
    /// The replay needs a value that recipes cannot describe.
    #[error("a value is unknown: {why}")]
    Unknown { why: String },
    /// The operands do not fit the operation or each other.
    #[error("{problem}")]
    Operands { problem: String },
    /// All steps are spent.
    #[error("the replay takes more steps than are left")]
    Work,
    /// Too little memory is left.
    #[error("the replay needs {wanted} more bytes, {left} are left")]
    Memory { wanted: u64, left: u64 },
    /// A tensor of the fixture set cannot be read.
    #[error("{what} cannot be read: {problem}")]
    Leaf { what: String, problem: String },
    /// A node does not exist, or cannot be used here.
    #[error("node {node} {problem}")]
    NoNode { node: usize, problem: &'static str },
    /// An operation of the recipe failed.
    #[error("node {node} (`{op}`)")]
    Node { node: usize, op: &'static str, source: Box<ReplayError> },
}

impl ReplayError {
    /// The error for operands that do not fit.
    pub(super) fn operands(problem: impl Into<String>) -> Self {
        Self::Operands { problem: problem.into() }
    }

    /// Whether too little memory was left.
    pub(super) fn is_memory(&self) -> bool {
        match self {
            Self::Memory { .. } => true,
            Self::Node { source, .. } => source.is_memory(),
            _ => false,
        }
    }

    /// Whether too few steps or too little memory was left. A replay with higher limits could succeed.
    pub fn is_limit(&self) -> bool {
        match self {
            Self::Work | Self::Memory { .. } => true,
            Self::Node { source, .. } => source.is_limit(),
            _ => false,
        }
    }
}
