//! The checkpoints that the port of a session has reached, from the session's folder.

use mlx_parity_core::number;
use mlx_parity_core::record::{Location, Record, TensorInfo, Verdict};
use mlx_parity_core::run_folder::{Folder, Line};
use mlx_parity_core::text::error_chain;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Debugger;
use crate::failure::{Failure, FailureKind};

/// How many checkpoints are listed if nothing else is asked for.
const SHOWN: usize = 200;
/// The most that can be asked for.
const MOST: usize = 1000;

/// One checkpoint that the port has reached.
#[derive(Serialize)]
struct Reached<'a> {
    name: &'a str,
    hit: u64,
    sequence: u64,
    #[serde(flatten)]
    verdict: &'a Verdict,
    #[serde(serialize_with = "number::option::serialize")]
    used: Option<f64>,
    #[serde(serialize_with = "number::option::serialize")]
    max_abs: Option<f64>,
    expected: Option<&'a TensorInfo>,
    actual: Option<&'a TensorInfo>,
    place: Option<&'a Location>,
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
    Ok(json!({
        "ok": true, "kind": "checkpoints", "spec": status.spec, "state": status.state,
        "checkpoints": shown, "from": from, "left_out": left_out,
    }))
}
