//! The worker process: runs a port and compares its taps with the goldens.

mod actuals;
mod array;
mod clock;
mod device;
mod environment;
mod error;
mod launch;
mod mlx;
mod mutator;
mod neighbours;
mod observer;
mod output;
mod panic_message;
mod peek;
mod picture;
mod plant_fault;
mod port;
mod process;
mod random;
mod shape_pass;
mod smoke;
mod source_files;
mod stage_times;
mod tap_check;
mod untapped;
mod usage;
mod weights;

pub use array::ArrayError;
pub(crate) use array::to_host;
pub use error::RunError;
pub(crate) use launch::{Errand, launch, launch_watched, run_errand};
pub(crate) use port::Port;
pub use port::{PortResult, Run};
pub(crate) use process::work;
pub(crate) use smoke::{SMOKE_FILE, Smoke, smoke};
pub use weights::WeightSet;
