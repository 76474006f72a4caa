//! What front and worker exchange: one JSON object per line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::answer::{DebugAnswer, EndKind};
use super::breakpoint::Breakpoints;
use super::command::DebugCommand;
use crate::record::Location;

/// The name of the file with the suite's instructions, in the folder of a session. A folder with this file is never a judged run.
pub const DEBUG_TASK: &str = "debug.json";
/// The file in the folder of the spec that exists while the worker stands, so that its timeout does not count.
pub const PAUSED: &str = "paused";
/// The file in the folder of a session in which the suite writes why no worker starts.
pub const PROBLEM: &str = "problem.txt";
/// The most bytes of one message.
pub const MOST_MESSAGE: usize = 32 << 20;

/// What the suite does in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugTask {
    /// A sentence for people who find the folder.
    pub what: String,
    /// The spec to run.
    pub spec: String,
    /// The socket to which the worker connects.
    pub socket: PathBuf,
    /// Seconds without a command after which a standing worker ends.
    pub idle_seconds: u64,
    /// The process of the front.
    pub process: u32,
}

/// A message to the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum ToWorker {
    /// Sets the breakpoints, before the first command.
    Restore {
        /// The breakpoints.
        breakpoints: Breakpoints,
    },
    /// Performs a command.
    Perform {
        /// The number of the command, which its answer repeats.
        number: u64,
        /// The command.
        command: DebugCommand,
    },
    /// Stops the port at its next tap.
    Pause,
}

/// A message from the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum FromWorker {
    /// The worker is connected.
    Hello {
        /// The process of the worker.
        process: u32,
    },
    /// The port has reached a tap.
    Progress {
        /// Taps reached so far.
        taps: u64,
        /// Checkpoints that failed so far.
        failed: u64,
        /// The latest tap.
        last: String,
        /// Its place in the port.
        place: Location,
    },
    /// The answer to a command, with the breakpoints and their hits.
    Answer {
        /// The number of the command.
        number: u64,
        /// The answer.
        answer: Box<DebugAnswer>,
        /// All breakpoints now.
        breakpoints: Breakpoints,
    },
    /// The worker ends on purpose.
    Bye {
        /// Why.
        how: EndKind,
    },
}
