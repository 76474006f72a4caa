//! Words and pictures: the only module that knows how results and errors are told to people.

#[cfg(any(feature = "cli", feature = "mlx"))]
mod collect;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod columns;
#[cfg(all(test, any(feature = "cli", feature = "mlx")))]
mod damaged;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod failure;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod files;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod finding;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod junit;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod ladder;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod mutations;
#[cfg(feature = "cli")]
mod pairs;
#[cfg(any(feature = "cli", feature = "mlx"))]
mod summary;

use std::error::Error;

#[cfg(any(feature = "cli", feature = "mlx"))]
pub(crate) use collect::{Collected, Fate, Told};
#[cfg(any(feature = "cli", feature = "mlx"))]
pub(crate) use failure::{gate_text, multiple, trial_text};
#[cfg(any(feature = "cli", feature = "mlx"))]
pub(crate) use files::{ReportError, write_reports};
#[cfg(any(feature = "cli", feature = "mlx"))]
pub(crate) use finding::finding;
#[cfg(any(feature = "cli", feature = "mlx"))]
pub(crate) use ladder::ladder;
#[cfg(any(feature = "cli", feature = "mlx"))]
pub(crate) use mutations::score_line;
#[cfg(feature = "cli")]
pub(crate) use mutations::{MutatedRow, mutations_text};
#[cfg(feature = "cli")]
pub(crate) use pairs::{Known, Pair, pair_failure, pairs_ladder};
#[cfg(any(feature = "cli", feature = "mlx"))]
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
