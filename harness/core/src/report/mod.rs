//! Turns results into text. This is the only module with wording and colours. It reads no files.

mod columns;
#[cfg(test)]
mod damaged;
mod failure;
mod files;
mod junit;
mod ladder;
mod localisation;
mod mutations;
mod pairs;
mod run;
mod summary;
mod words;

pub use failure::trial_text;
pub use files::{ReportError, write_reports};
pub use ladder::ladder;
pub use localisation::localisation_text;
pub use mutations::{MutatedRow, mutations_text, score_line};
pub use pairs::{Known, Pair, later_causes, pair_failure, pairs_ladder};
pub use run::{environments, failures, ladders};
pub use summary::summary_line;
pub use words::multiple;
