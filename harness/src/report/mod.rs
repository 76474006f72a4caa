//! Words and pictures: the only module that knows how results and errors are told to people.

#[cfg(feature = "cli")]
mod collect;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod failure;
#[cfg(feature = "cli")]
mod junit;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod ladder;
#[cfg(feature = "cli")]
mod summary;

use std::error::Error;

#[cfg(feature = "cli")]
pub(crate) use collect::{Collected, Told};
#[cfg(any(feature = "cli", feature = "mlx"))]
pub(crate) use failure::trial_text;
#[cfg(feature = "cli")]
pub(crate) use junit::junit;
#[cfg(any(feature = "cli", feature = "mlx"))]
pub(crate) use ladder::ladder;
#[cfg(feature = "cli")]
pub(crate) use summary::Summary;

/// An error and its causes in one line, outermost first.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // A transparent wrapper says what its cause says; once is enough.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
