//! Why a command could not do its work.

use std::error::Error;

use thiserror::Error as ThisError;

use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::printable::{indented, paint};
use mlx_parity_core::text::program::{program, with_program};

/// The error of a command. Its message states what happened.
pub(crate) trait CommandError: Error + 'static {
    /// What to do about the error, if that is known.
    fn next(&self) -> Option<String>;
}

/// Any error of any command, without its type.
#[derive(Debug)]
pub(crate) struct CliError(Box<dyn CommandError>);

impl CliError {
    /// The error itself, with its causes.
    pub(crate) fn error(&self) -> &(dyn Error + 'static) {
        &*self.0
    }

    /// What to do about the error, if that is known.
    pub(crate) fn next(&self) -> Option<String> {
        self.0.next()
    }
}

impl<E: CommandError> From<E> for CliError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

/// The error of a command in words, for programs that use this library.
#[derive(Debug, ThisError)]
#[error("{text}")]
pub struct CommandProblem {
    text: String,
    next: Option<String>,
}

impl CommandProblem {
    /// The problem that the error of a command states.
    pub(crate) fn of(error: &CliError) -> Self {
        Self { text: error_chain(error.error()), next: error.next() }
    }

    /// What to do about it, if that is known.
    pub fn next(&self) -> Option<String> {
        self.next.as_deref().map(|next| with_program(next, program()))
    }
}

impl<E: CommandError> From<E> for CommandProblem {
    fn from(error: E) -> Self {
        Self::of(&CliError::from(error))
    }
}

/// Prints an error and what to do about it.
pub(crate) fn print_error(error: &CliError) {
    let text = indented(&error_chain(error.error()), 7);
    eprintln!("{}: {text}", paint(true, "1;31", "error"));
    if let Some(next) = error.next() {
        let next = indented(&with_program(&next, program()), 7);
        eprintln!("{}: {next}", paint(true, "1", "to do"));
    }
}
