//! Why a command could not do its work.

use std::error::Error;

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
