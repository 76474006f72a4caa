//! The worker process: runs a port and compares its taps with the goldens.

mod array;
mod clock;
mod device;
mod environment;
mod error;
mod golden_view;
mod launch;
mod mlx;
mod mutator;
mod neighbours;
mod observer;
mod output;
mod picture;
mod plant_fault;
mod port;
mod process;
mod random;
mod stage_times;
mod tap_check;
mod weights;

pub use array::ArrayError;
pub(crate) use array::to_host;
pub use error::RunError;
pub(crate) use launch::{launch, launch_watched};
pub(crate) use port::Port;
pub use port::{PortResult, Run};
pub(crate) use process::work;
pub use weights::WeightSet;
