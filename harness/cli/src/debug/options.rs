//! How a session starts.

use std::time::Duration;

/// How a session starts.
#[derive(Debug, Clone)]
pub struct Options {
    /// The spec, as `model/component`.
    pub spec: String,
    /// Builds and runs with optimisation.
    pub release: bool,
    /// A worker that stands for this long without a command ends.
    pub idle: Duration,
    /// Keeps what Cargo prints for the answer of a failed start. Otherwise Cargo prints to standard error.
    pub capture: bool,
    /// Starts Cargo below a guard, so that Cargo and the suite end at once when this process is killed. This program must then
    /// have the hidden command `guard`, which calls [`guard`](crate::inspect::guard). Without it, Cargo builds to its end.
    pub guard: bool,
}

impl Options {
    /// The default idle limit.
    pub const IDLE: Duration = Duration::from_secs(30 * 60);

    /// A session of this spec with every default.
    pub fn new(spec: impl Into<String>) -> Self {
        Self { spec: spec.into(), release: false, idle: Self::IDLE, capture: false, guard: false }
    }
}
