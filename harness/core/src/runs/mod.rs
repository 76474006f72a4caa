//! All runs of a project: their names and owners, the processes that join them, and the removal of old runs.

mod clean;
mod debug_session;
mod device;
mod folders;
mod keep;
mod marker;
mod name;
mod process;
mod request;
mod staged;

pub use clean::{KnownRun, is_in_use};
pub use debug_session::{DebugHolder, DebugLock, DebugSessionError, is_debug_session};
pub use device::DeviceHolder;
pub use folders::{Going, Out};
pub use keep::KeepError;
pub use marker::{claim, remove as remove_claimed};
pub use name::{RunName, attempt};
pub use request::{Asked, StaleError, request};
pub use staged::StagedRun;
