//! Running a port: the worker process, its taps, and what a run leaves behind.
//!
//! What reads a run's folder builds without MLX, so that reports do; what runs a port needs the feature `mlx`.

mod account;
#[cfg(feature = "mlx")]
mod alter;
#[cfg(feature = "mlx")]
mod array;
mod asked;
mod catalogue;
#[cfg(feature = "mlx")]
mod clock;
#[cfg(feature = "mlx")]
mod device;
mod discovery;
mod environment;
mod fault;
mod folder;
mod job;
#[cfg(feature = "mlx")]
mod judge;
mod key;
#[cfg(feature = "mlx")]
mod launch;
mod locate;
mod marker;
#[cfg(feature = "mlx")]
mod mlx;
mod mutations;
#[cfg(feature = "mlx")]
mod mutator;
#[cfg(feature = "mlx")]
mod neighbours;
#[cfg(feature = "mlx")]
mod observer;
mod obstacle;
#[cfg(feature = "mlx")]
mod output;
#[cfg(feature = "mlx")]
mod picture;
#[cfg(feature = "mlx")]
mod port;
mod process;
#[cfg(feature = "mlx")]
mod random;
mod runs;
mod stats;
#[cfg(feature = "mlx")]
mod stopwatch;
mod story;
#[cfg(feature = "mlx")]
mod weights;
#[cfg(feature = "mlx")]
mod worker;

pub(crate) use account::{Account, Ending, FIXTURE, SPEC, Verdict, WEIGHTS, account, trial_names};
#[cfg(feature = "mlx")]
pub use array::ArrayError;
pub(crate) use asked::{ASKED, Asked, StaleError, request};
pub use catalogue::CatalogueError;
pub(crate) use catalogue::{Catalogue, renamed};
pub(crate) use discovery::{DISCOVERY, discovery};
pub(crate) use fault::Fault;
pub(crate) use folder::{Audit, EXIT, Exit, Folder, FolderError, STARTED};
pub(crate) use job::{Inject, JOB, Job, Verified};
pub(crate) use key::{INVOCATION, RunName, attempt};
#[cfg(feature = "mlx")]
pub(crate) use launch::{launch, launch_watched};
pub(crate) use locate::{Closer, Culprit, Finding};
pub(crate) use marker::{claim, remove as remove_claimed};
pub(crate) use mutations::{Mutation, Mutations, Noticed, Score, Step, Steps};
pub(crate) use obstacle::{Obstacle, look_at_fixtures};
#[cfg(feature = "mlx")]
pub(crate) use port::Port;
#[cfg(feature = "mlx")]
pub use port::{PortResult, Run, RunError};
pub(crate) use runs::{Going, Out};
pub(crate) use stats::{Compared, STATS, has_stats, moved, stats_text};
pub(crate) use story::Story;
#[cfg(feature = "mlx")]
pub use weights::WeightSet;
#[cfg(feature = "mlx")]
pub(crate) use worker::work;
