//! Why a session cannot start.

use std::io;

use thiserror::Error;

use crate::CliError;
use crate::error::CommandError;
use mlx_parity_core::debug::TraceError;
use mlx_parity_core::run_folder::FolderError;
use mlx_parity_core::runs::DebugSessionError;
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::program::{program, with_program};

/// Why a session cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DebugError {
    /// The spec does not exist, or its file is wrong.
    #[error("{0}")]
    Spec(Problem),
    /// MLX cannot be set up.
    #[error("{0}")]
    Setup(Problem),
    /// Another session goes on, or its lock cannot be taken.
    #[error(transparent)]
    Session(#[from] DebugSessionError),
    /// A file of the session cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The socket for the worker cannot be made.
    #[error("cannot prepare the connection to the worker")]
    Socket(#[source] io::Error),
    /// Cargo cannot be started.
    #[error("cannot start Cargo")]
    Cargo(#[source] io::Error),
}

/// A problem of another command, in words.
#[derive(Debug, Error)]
#[error("{text}")]
pub struct Problem {
    text: String,
    next: Option<String>,
}

impl Problem {
    /// The problem that the error of a command states.
    pub(crate) fn of(error: &CliError) -> Self {
        Self { text: error_chain(error.error()), next: error.next() }
    }

    /// What to do about it, if that is known.
    pub fn next(&self) -> Option<String> {
        self.next.as_deref().map(|next| with_program(next, program()))
    }
}

impl<E: CommandError> From<E> for Problem {
    fn from(error: E) -> Self {
        Self::of(&CliError::from(error))
    }
}

impl DebugError {
    /// What to do about it, if that is known.
    pub fn next(&self) -> Option<String> {
        match self {
            Self::Spec(problem) | Self::Setup(problem) => problem.next(),
            Self::Session(DebugSessionError::Held(Some(holder))) => {
                Some(format!("end it with `terminate`, or with `kill {}`", holder.process))
            }
            _ => None,
        }
    }
}

impl CommandError for DebugError {
    fn next(&self) -> Option<String> {
        Self::next(self)
    }
}
