//! Stepping through a port: the commands, their answers, the breakpoints and the trace of a debug session.
//!
//! A session has three processes. A front (the prompt, or a server) reads commands. The suite checks the fixtures, holds the
//! device and starts the worker. The worker runs the port and answers commands while it stands at a tap. Front and worker
//! exchange the [messages](ToWorker) of this module over a socket.

mod answer;
mod breakpoint;
mod command;
mod message;
mod parse;
mod pattern;
mod trace;

pub use answer::{
    DebugAnswer, DebugState, DebugStatus, Diagnosed, EndKind, Ended, GoesOn, ShownTensor, Stop, StopReason,
    TappedTensor, Value, Variable, VariableKind, Variables,
};
pub use breakpoint::{Breakpoint, Breakpoints, On};
pub use command::{CommandUsage, DebugCommand, HelpTopic, command_help};
pub use message::{DEBUG_TASK, DebugTask, FromWorker, MOST_MESSAGE, PAUSED, PROBLEM, ToWorker};
pub use parse::ParseError;
pub use pattern::{PatternError, TapPattern, loops};
pub use trace::{TRACE, Trace, TraceError, TraceEvent, TraceLine};
