//! The checkpoints that the port of a session has reached, from the session's folder.

use mlx_parity_cli::debug::State;
use mlx_parity_core::number::{self, WrittenFloat};
use mlx_parity_core::record::{Location, Record, TensorInfo, Verdict};
use mlx_parity_core::run_folder::{Folder, Line};
use mlx_parity_core::text::error_chain;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::Debugger;
use crate::failure::{Failure, FailureKind};

/// How many checkpoints are listed if nothing else is asked for.
const SHOWN: usize = 200;
/// The most that can be asked for.
const MOST: usize = 1000;

/// The kind of the answer.
pub(super) const CHECKPOINTS: &str = "checkpoints";

/// The checkpoints that the port of a session has reached in this run.
#[derive(Serialize, JsonSchema)]
pub(super) struct History<'a> {
    /// The spec.
    spec: String,
    /// What the worker does.
    state: State,
    /// The checkpoints, in the order of the run.
    checkpoints: Vec<Reached<'a>>,
    /// How many are before the first one in the list.
    from: usize,
    /// How many are behind the last one in the list.
    left_out: usize,
}

/// One checkpoint that the port has reached.
#[derive(Serialize, JsonSchema)]
struct Reached<'a> {
    /// The checkpoint.
    name: &'a str,
    /// The number of this hit of the tap, from 0.
    hit: u64,
    /// The number of the hit in the run.
    sequence: u64,
    #[serde(flatten)]
    verdict: &'a Verdict,
    /// The used part of the gate.
    #[serde(serialize_with = "number::option::serialize")]
    #[schemars(with = "Option<WrittenFloat>")]
    used: Option<f64>,
    /// The largest difference.
    #[serde(serialize_with = "number::option::serialize")]
    #[schemars(with = "Option<WrittenFloat>")]
    max_abs: Option<f64>,
    /// The golden's dtype and shape.
    expected: Option<&'a TensorInfo>,
    /// The actual's dtype and shape.
    actual: Option<&'a TensorInfo>,
    /// The call of `tap` in the port.
    place: Option<&'a Location>,
    /// Whether the port went on with the golden.
    injected: bool,
}

impl<'a> Reached<'a> {
    fn of(record: &'a Record) -> Self {
        let difference = record.metrics.as_ref().and_then(|metrics| metrics.difference.as_ref());
        Self {
            name: &record.checkpoint,
            hit: record.hit,
            sequence: record.sequence,
            verdict: &record.verdict,
            used: difference.and_then(|difference| difference.used),
            max_abs: difference.map(|difference| difference.max_abs),
            expected: record.expected.as_ref(),
            actual: record.actual.as_ref(),
            place: record.location.as_ref(),
            injected: record.injected,
        }
    }
}

/// Lists checkpoints from the number `from` on, and counts the others.
pub(super) fn history(
    debugger: &Debugger,
    from: Option<usize>,
    limit: Option<usize>,
) -> Result<Value, Failure> {
    let (from, limit) = (from.unwrap_or(0), limit.unwrap_or(SHOWN));
    if limit > MOST {
        return Err(Failure::new(
            FailureKind::Malformed,
            format!("`limit` is {limit}, at most {MOST} are listed"),
        ));
    }
    let session = debugger.session()?;
    let status = session.status();
    let folder = Folder::at(status.folder.join(&status.spec));
    let lines = match folder.records().exists() {
        true => folder.lines().map_err(|error| Failure::new(FailureKind::Internal, error_chain(&error)))?,
        false => Vec::new(),
    };
    let all: Vec<_> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Checkpoint(record) => Some(record),
            _ => None,
        })
        .collect();
    let shown: Vec<Reached<'_>> =
        all.iter().skip(from).take(limit).map(|record| Reached::of(record)).collect();
    let left_out = all.len().saturating_sub(from + shown.len());
    let history = History { spec: status.spec, state: status.state, checkpoints: shown, from, left_out };
    let mut value = serde_json::to_value(history)
        .map_err(|error| Failure::new(FailureKind::Internal, format!("the answer is no JSON: {error}")))?;
    (value["ok"], value["kind"]) = (true.into(), CHECKPOINTS.into());
    Ok(value)
}
