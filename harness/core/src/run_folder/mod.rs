//! The run folder: the plan and end of each suite, and per spec the job of the worker and its results.

mod adapters;
mod environment;
mod folder;
mod job;
mod line;
mod merge_finding;
mod merged;
mod obstacle;
mod peek;
mod resources;
mod snapshot;
mod suite;

pub use adapters::{ADAPTERS_FILE, AdapterChange, AdapterRun, AdapterScale};
pub use environment::{ENVIRONMENT, Environment};
pub use folder::{
    EXIT, Exit, FORMAT, Folder, FolderError, LOCAL, SPEC_FILE, STARTED, TAP_LINE, Writer, lock,
};
pub use job::{JOB, Job, Verified};
pub use line::{Audit, Drew, End, Line};
pub use merge_finding::{Disagreement, MergeFinding};
pub use merged::{MERGED, MergedPart, MergedRuns, PeakMemory};
pub use obstacle::{FIXTURE, Obstacle, SPEC};
pub use peek::{MOST_PEEKS, PEEKS, Peek};
pub use resources::{Metric, RESOURCES, Resources, WarmPasses, WeightSize};
pub use snapshot::{Compared, SNAPSHOT_TASK, STATS_FILE, SnapshotTask};
pub use suite::{
    BrokenSpec, Checkout, Plan, PlannedSpec, Selection, SuiteEnd, SuiteFolder, TrialLine, TrialStatus,
};
