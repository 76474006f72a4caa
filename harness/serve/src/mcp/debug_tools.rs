//! The tools of debug sessions.

use mlx_parity_cli::debug::{Answer, Command, answer_text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Tooling;
use super::reply::Reply;
use super::wait::Wait;
use crate::StartRequest;
use crate::failure::{Failure, FailureKind};

/// How long a call waits by default. Clients give up after a minute or so.
const WAIT: u64 = 45;
const REST: &str = "ask for a part: `vars PATTERN`, or `show NAME SLICE`";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Start {
    /// The spec, as `model/component`
    spec: String,
    /// Build and run with optimisation
    #[serde(default)]
    release: bool,
    /// Seconds to wait for the build and the first stop, from 0 to 600; 45 by default
    #[serde(default)]
    wait_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    /// The command line, such as `break failed` or `eval abs(actual - golden).max()`; `help` lists the commands
    line: String,
    /// Seconds to wait for the next stop, from 0 to 600; 45 by default
    #[serde(default)]
    wait_seconds: Option<f64>,
}

pub(super) fn start(tooling: &Tooling, start: Start) -> Result<Reply, Failure> {
    let wait = Wait { wait_seconds: start.wait_seconds }.or(WAIT)?;
    let request = StartRequest { release: start.release, ..StartRequest::new(start.spec) };
    answered(tooling.debugger.start(request, wait))
}

pub(super) fn command(tooling: &Tooling, line: Line) -> Result<Reply, Failure> {
    let wait = Wait { wait_seconds: line.wait_seconds }.or(WAIT)?;
    let malformed = |message: String| Failure::new(FailureKind::Malformed, message);
    let command = Command::parse(&line.line).map_err(|error| malformed(error.to_string()))?;
    let command = command.ok_or_else(|| malformed("the line is empty".to_owned()))?;
    answered(tooling.debugger.perform(command, wait))
}

pub(super) fn status(tooling: &Tooling, wait: Wait) -> Result<Reply, Failure> {
    answered(tooling.debugger.status(wait.or(0)?))
}

pub(super) fn pause(tooling: &Tooling, wait: Wait) -> Result<Reply, Failure> {
    answered(tooling.debugger.pause(wait.or(WAIT)?))
}

pub(super) fn terminate(tooling: &Tooling) -> Result<Reply, Failure> {
    answered(tooling.debugger.terminate())
}

fn answered(answer: Result<Answer, Failure>) -> Result<Reply, Failure> {
    let answer = answer?;
    let data = serde_json::to_value(&answer)
        .map_err(|error| Failure::new(FailureKind::Internal, format!("the answer is no JSON: {error}")))?;
    let mut text = answer_text(&answer);
    if let Answer::Running(_) = answer {
        text += "call debug_status with wait_seconds to wait for the next stop\n";
    }
    Ok(Reply::new(text, data).with_rest(REST))
}
