//! Running a port: the worker process, its taps, and what it is given.

mod array;
mod folder;
mod launch;
mod observer;
mod port;
mod weights;
mod worker;

pub use array::{ArrayError, dtype_of, from_host, to_host};
pub(crate) use folder::{End, Exit, Folder, FolderError, Line, lock};
pub(crate) use launch::{Job, WORKER, launch};
pub(crate) use port::Port;
pub use port::{PortResult, Run, RunError};
pub use weights::{Audit, WeightSet};
pub(crate) use worker::work;
