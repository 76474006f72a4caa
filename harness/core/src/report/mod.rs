//! Turns results into text. This is the only module with wording and colours. It reads no files.

mod against;
mod by_eye;
mod columns;
#[cfg(test)]
mod damaged;
mod debug_answer;
mod debug_trace;
mod failure;
mod files;
mod fold;
mod github;
mod html;
mod junit;
mod ladder;
mod localisation;
mod mutations;
mod pairs;
mod peeks;
mod red_spec;
mod rerun;
mod resources;
mod run;
mod summary;
mod trace;
mod words;

pub use against::against_text;
pub use debug_answer::answer_text;
pub use debug_trace::{trace_html, trace_text};
pub use failure::{test_text, trial_text};
pub use files::{ReportError, write_html, write_reports};
pub use github::{annotations, step_summary};
pub use ladder::{Rows, ladder};
pub use localisation::localisation_text;
pub use mutations::{MutatedRow, mutations_text, score_line};
pub use pairs::{Known, Pair, later_causes, pair_failure, pairs_ladder};
pub use resources::{resource_lines, run_resources};
pub use run::{Detail, environments, failures, run_text};
pub use summary::{not_kept, summary_line};
pub use trace::chrome_trace;
pub use words::multiple;
