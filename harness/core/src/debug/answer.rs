//! The answers of a debug session, as JSON and for people.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::breakpoint::Breakpoint;
use super::command::{CommandUsage, HelpTopic, command_help, usages};
use crate::calculate;
use crate::compare::Stats;
use crate::details::Excerpt;
use crate::diagnose::{Cause, Fact};
use crate::gate::Class;
use crate::number::{self, WrittenFloat};
use crate::record::{Location, Status, TensorInfo};

/// The answer to a command: one JSON object whose field `kind` names the variant.
///
/// Fields are only ever added. Every list in an answer has a limit, and an answer states what it leaves out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DebugAnswer {
    /// The port stands: the answer to every command with which it goes on.
    Stopped(Box<Stop>),
    /// The port still runs; the time limit of the request is over.
    Running(DebugStatus),
    /// The worker has ended.
    Ended(Ended),
    /// The breakpoints, after `break`, `breaks`, `remove` and `clear`.
    Breakpoints {
        /// All breakpoints now.
        breakpoints: Vec<Breakpoint>,
        /// A remark, such as that no checkpoint has the name.
        note: Option<String>,
    },
    /// Where the port stands.
    Location(Box<Stop>),
    /// Taps, inputs and weights.
    Variables(Variables),
    /// One tensor.
    Tensor(Box<ShownTensor>),
    /// The values of an expression, one per statement.
    Values {
        /// The values.
        values: Vec<Value>,
    },
    /// The port goes on with another tensor at this tap.
    Changed {
        /// The tap.
        name: String,
        /// The tensor.
        with: GoesOn,
        /// Whether the port stands at the tap; otherwise the change happens when it gets there.
        now: bool,
    },
    /// A tensor was written.
    Saved {
        /// The tensor.
        name: String,
        /// The file.
        file: PathBuf,
        /// Its dtype and shape.
        tensor: TensorInfo,
    },
    /// The causes of the current failure.
    Diagnosis(Box<Diagnosed>),
    /// The state of the session.
    Status(DebugStatus),
    /// The note is in the trace.
    Noted,
    /// The commands, or the functions of expressions.
    Help {
        /// Every command; none if the functions were asked for.
        commands: Vec<CommandUsage>,
        /// The help for people.
        text: String,
    },
    /// The command could not be performed. Nothing has changed.
    Error {
        /// What was found and what is allowed. It can have several lines.
        message: String,
        /// What to do next, if that is known.
        next: Option<String>,
    },
}

impl DebugAnswer {
    /// The answer to `help`.
    pub fn help(about: Option<HelpTopic>) -> Self {
        match about {
            None => Self::Help { commands: usages(), text: command_help() },
            Some(HelpTopic::Functions) => Self::Help { commands: Vec::new(), text: calculate::help() },
        }
    }

    /// An error without advice.
    pub fn error(message: impl Into<String>) -> Self {
        Self::Error { message: message.into(), next: None }
    }

    /// An error with advice.
    pub fn error_with(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Error { message: message.into(), next: Some(next.into()) }
    }
}

/// A place at which the port stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stop {
    /// The number of the stop in this run, from 0: the start.
    pub stop: u64,
    /// Why the port stands here.
    pub why: StopReason,
    /// The tap and its tensor; absent before the first tap and after the port has returned.
    pub tap: Option<TappedTensor>,
    /// Open scopes, outermost first, such as `blocks.3`.
    pub scopes: Vec<String>,
    /// Taps that the port has reached, with this one.
    pub taps: u64,
    /// The call of `tap` in the port.
    pub place: Option<Location>,
    /// The lines around it.
    pub source: Option<Excerpt>,
    /// The line of the reference that made the golden.
    pub reference_place: Option<String>,
    /// The lines around it.
    pub reference: Option<Excerpt>,
    /// The tensor with which the port goes on.
    pub goes_on: GoesOn,
    /// Whether the port went on with another tensor than its own here or before.
    pub altered: bool,
    /// A remark, such as that a condition could not be evaluated.
    pub note: Option<String>,
}

/// Why a port stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum StopReason {
    /// The port has not started.
    Start,
    /// Breakpoints.
    Breakpoint {
        /// Their numbers.
        numbers: Vec<u32>,
    },
    /// `next`, `into`, `out` or `until` got here.
    Step,
    /// A person or a program asked for a pause.
    Pause,
    /// A planned change could not be made here.
    Change,
    /// The port has returned. Everything that it tapped can still be looked at.
    Returned,
    /// The port has failed. Everything that it tapped can still be looked at.
    Failed {
        /// Its error or panic.
        error: String,
    },
}

/// The tensor at a tap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TappedTensor {
    /// The tap's full name.
    pub name: String,
    /// The number of this hit of the tap, from 0.
    pub hit: u64,
    /// Whether the spec declares the tap, and checks it at this level.
    pub checked: bool,
    /// Whether it passed; absent for a tap that is not checked.
    pub status: Option<Status>,
    /// The class of a failure.
    pub class: Option<Class>,
    /// The numbers that decided, in one line.
    pub detail: String,
    /// The used part of the gate.
    #[serde(with = "number::option", default)]
    #[schemars(with = "Option<WrittenFloat>")]
    pub used: Option<f64>,
    /// The largest difference.
    #[serde(with = "number::option", default)]
    #[schemars(with = "Option<WrittenFloat>")]
    pub max_abs: Option<f64>,
    /// The golden's dtype and shape.
    pub expected: Option<TensorInfo>,
    /// The actual's dtype and shape.
    pub actual: TensorInfo,
    /// The golden's statistics.
    pub expected_stats: Option<Stats>,
    /// The actual's statistics; absent if it was not evaluated.
    pub actual_stats: Option<Stats>,
}

/// The tensor with which the port goes on from a tap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "tensor", rename_all = "snake_case")]
pub enum GoesOn {
    /// Its own.
    #[default]
    Actual,
    /// The golden.
    Golden,
    /// The value of an expression.
    Set {
        /// The expression.
        expression: String,
    },
}

/// The tensors of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Variables {
    /// Inputs, then weights, then taps in the order of the run.
    pub variables: Vec<Variable>,
    /// How many more there are.
    pub left_out: usize,
}

/// One tensor in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Variable {
    /// The name in expressions.
    pub name: String,
    /// What it is.
    pub kind: VariableKind,
    /// Dtype and shape.
    pub tensor: TensorInfo,
    /// Statistics; absent if the tensor was not evaluated or is large.
    pub stats: Option<Stats>,
    /// Whether a checked tap passed.
    pub status: Option<Status>,
}

/// What a tensor of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VariableKind {
    /// An input of the spec.
    Input,
    /// A weight, under the port's name.
    Weight,
    /// The port's tensor at a tap.
    Tap,
}

/// One tensor with values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShownTensor {
    /// The name.
    pub name: String,
    /// Dtype and shape of the whole tensor.
    pub tensor: TensorInfo,
    /// Statistics of the whole tensor.
    pub stats: Option<Stats>,
    /// The values, or the part that was asked for.
    pub value: Value,
}

/// A value in float64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// The text of the statement, or the variable that it sets.
    pub source: String,
    /// Lengths of the axes.
    pub shape: Vec<usize>,
    /// The first elements in row-major order, at most 1000. A complex element is two numbers.
    #[serde(with = "number_list")]
    #[schemars(with = "Vec<WrittenFloat>")]
    pub values: Vec<f64>,
    /// Numbers that are left out.
    pub left_out: usize,
    /// The value for people, with dots in a long axis.
    pub text: String,
}

/// What was found out about the current failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosed {
    /// The checkpoint.
    pub name: String,
    /// Explanations, best first.
    pub causes: Vec<Cause>,
    /// Observations, if nothing explains the error.
    pub facts: Vec<Fact>,
    /// A remark, such as that an earlier stage is red.
    pub note: Option<String>,
}

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DebugStatus {
    /// The spec.
    pub spec: String,
    /// What the worker does.
    pub state: DebugState,
    /// Who holds the device, for which a session that starts may have to wait.
    #[serde(default)]
    pub device: Option<String>,
    /// Seconds in this state.
    pub seconds: u64,
    /// The number of the run in the session, from 1.
    pub run: u32,
    /// The process of the front.
    pub process: u32,
    /// The process of the worker.
    pub worker: Option<u32>,
    /// The folder with the trace.
    pub folder: PathBuf,
    /// Taps reached so far.
    pub taps: u64,
    /// Checkpoints that failed so far.
    pub failed: u64,
    /// The latest tap.
    pub last_tap: Option<String>,
    /// Number of breakpoints.
    pub breakpoints: usize,
    /// How the worker ended, if it has.
    pub ended: Option<Ended>,
}

/// What the worker of a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DebugState {
    /// Cargo builds the suite, or the suite waits for the device and checks the fixtures.
    Starting,
    /// The port stands.
    Paused,
    /// The port runs.
    Running,
    /// There is no worker. `restart` starts one.
    Ended,
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    /// The kind of end.
    pub how: EndKind,
    /// The end in words.
    pub text: String,
    /// The last tap that the port reached.
    pub last_tap: Option<String>,
    /// The place of that tap in the port.
    pub place: Option<Location>,
    /// The last lines that the port, or Cargo, printed.
    pub output: Vec<String>,
}

/// The kind of a worker's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// The port ran to its end, and nothing more was to be looked at.
    Finished,
    /// The front asked for it.
    Terminated,
    /// No command came for the idle limit.
    Idle,
    /// The process crashed or ran into the timeout of the spec.
    Crashed,
    /// It never started: the build failed, or the spec cannot run here.
    NotStarted,
}

impl EndKind {
    /// Whether somebody should look into it.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Crashed | Self::NotStarted)
    }
}

/// Numbers in which NaN and infinities are words.
mod number_list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::number;

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct One(#[serde(with = "number")] f64);

    pub(super) fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|&value| One(value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<One>::deserialize(deserializer)?.into_iter().map(|one| one.0).collect())
    }
}
