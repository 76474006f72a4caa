//! Turns a run folder into results: how every declared checkpoint ended, and the first faulty stage.
//!
//! The run folder is the only source. No spec file, environment variable or other folder is read, so a copied run folder
//! gives the same report on any machine.

mod account;
mod adapters;
mod against;
mod audit;
mod backwards;
mod checkpoint_trials;
mod ending;
mod localisation;
mod locate;
mod main_failure;
mod merge;
mod order;
mod progress;
mod rename_advice;
mod run;
mod run_data;
mod spec_file;
mod stats;
mod summary;
mod trial;
mod whole_trials;

pub use crate::run_folder::{FIXTURE, SPEC};
pub use account::{Account, account};
pub use against::{Against, Measured, TrialChange};
pub use ending::{exit_text, last_output};
pub use localisation::{AlsoRed, Closer, Culprit, Growth, Localisation};
pub use merge::{MergePlan, MergedSpec, MergedSuite, PartError, RunPart, merge};
pub use progress::{RunProgress, RunWatch, SpecProgress, SpecState};
pub use run::{ExpectedSpecs, Fate, RunResults, SMOKE, SpecResult, SuiteData};
pub use run_data::{ORDER, RunData, TIMES, Times};
pub use spec_file::{SpecFile, SpecFileError};
pub use stats::{SNAPSHOT_DESCRIPTION, STATS, has_stats, moved, snapshot_file, stats_text};
pub use summary::Summary;
pub use trial::{ADAPTERS, MEMORY, TrialOutcome, TrialResult, WEIGHTS, has_adapters, trial_names};
