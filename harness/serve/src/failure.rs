//! Why a server could not do what it was asked.

use mlx_parity_cli::CommandProblem;
use mlx_parity_cli::debug::DebugError;
use mlx_parity_core::text::error_chain;
use serde_json::{Value, json};

/// Why a request failed, for a program and for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// What was found and what is allowed. It can have several lines.
    pub message: String,
    /// What to do next, if that is known.
    pub next: Option<String>,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The request cannot be read.
    Malformed,
    /// What was named does not exist.
    NotFound,
    /// The session is in a state in which this is impossible; later it may be possible.
    Conflict,
    /// The request was read and understood, and cannot be performed.
    Refused,
    /// The machine failed, not the request.
    Internal,
}

impl Failure {
    /// A failure without advice.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), next: None }
    }

    /// Adds what to do next.
    pub fn with_next(self, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..self }
    }

    /// `{"ok": false, "error": …, "next": …}`.
    pub fn to_json(&self) -> Value {
        json!({"ok": false, "error": self.message, "next": self.next})
    }
}

impl From<DebugError> for Failure {
    fn from(error: DebugError) -> Self {
        let kind = match &error {
            DebugError::Spec(_) => FailureKind::NotFound,
            DebugError::Session(_) => FailureKind::Conflict,
            _ => FailureKind::Internal,
        };
        Self { kind, message: error_chain(&error), next: error.next() }
    }
}

impl From<CommandProblem> for Failure {
    fn from(problem: CommandProblem) -> Self {
        Self { kind: FailureKind::NotFound, message: problem.to_string(), next: problem.next() }
    }
}
