//! The run folder: the plan and end of each suite, and per spec the job of the worker and its results.

mod environment;
mod folder;
mod job;
mod line;
mod obstacle;
mod snapshot;
mod suite;

pub use environment::{ENVIRONMENT, Environment};
pub use folder::{EXIT, Exit, FORMAT, Folder, FolderError, LOCAL, SPEC_FILE, STARTED, Writer, lock};
pub use job::{JOB, Job, Verified};
pub use line::{Audit, Drew, End, Line};
pub use obstacle::{FIXTURE, Obstacle, SPEC};
pub use snapshot::Compared;
pub use suite::{BrokenSpec, Plan, PlannedSpec, Selection, SuiteEnd, SuiteFolder, TrialLine, TrialStatus};
