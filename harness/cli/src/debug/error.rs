//! Why a session cannot start.

use std::io;

use thiserror::Error;

use crate::error::{CommandError, CommandProblem};
use mlx_parity_core::debug::TraceError;
use mlx_parity_core::run_folder::FolderError;
use mlx_parity_core::runs::DebugSessionError;

/// Why a session cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DebugError {
    /// The spec does not exist, or its file is wrong.
    #[error("{0}")]
    Spec(CommandProblem),
    /// MLX cannot be set up.
    #[error("{0}")]
    Setup(CommandProblem),
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
