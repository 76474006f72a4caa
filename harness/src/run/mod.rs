//! Running a port: the worker process, its taps, and what a run leaves behind.
//!
//! What reads a run's folder builds without MLX, so that reports do; what runs a port needs the feature `mlx`.

mod account;
#[cfg(feature = "mlx")]
mod array;
mod catalogue;
#[cfg(feature = "mlx")]
mod environment;
mod folder;
#[cfg(feature = "mlx")]
mod judge;
mod key;
#[cfg(feature = "mlx")]
mod launch;
#[cfg(feature = "mlx")]
mod observer;
mod obstacle;
#[cfg(feature = "mlx")]
mod port;
#[cfg(feature = "mlx")]
mod random;
mod stats;
#[cfg(feature = "mlx")]
mod weights;
#[cfg(feature = "mlx")]
mod worker;

pub(crate) use account::{
    Ending, FIXTURE, SPEC, Story, Verdict, WEIGHTS, account, stats_ending, trial_names,
};
#[cfg(feature = "mlx")]
pub use array::ArrayError;
pub(crate) use catalogue::Catalogue;
pub use catalogue::CatalogueError;
pub(crate) use folder::{Audit, Exit, Folder, FolderError};
pub(crate) use key::{Going, Out, fresh_key, key};
#[cfg(feature = "mlx")]
pub(crate) use launch::{Job, WORKER, launch};
pub(crate) use obstacle::{Obstacle, look_at_fixtures};
#[cfg(feature = "mlx")]
pub(crate) use port::Port;
#[cfg(feature = "mlx")]
pub use port::{PortResult, Run, RunError};
pub(crate) use stats::{Compared, STATS, moved, stats_text};
#[cfg(feature = "mlx")]
pub use weights::WeightSet;
#[cfg(feature = "mlx")]
pub(crate) use worker::work;
