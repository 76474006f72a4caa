//! A spec as a table: one row per hit of a checkpoint.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::subject::{Subject, status};
use mlx_parity_core::calculate::short;
use mlx_parity_core::compare::Stats;
use mlx_parity_core::files::size::words;
use mlx_parity_core::record::{Record, TensorInfo};
use mlx_parity_core::report::resource_lines;
use mlx_parity_core::spec::hit_name;
use mlx_parity_core::text::printable::clean;

const HEADINGS: [&str; 10] =
    ["checkpoint", "side", "dtype", "shape", "min", "max", "mean", "std", "ms", "memory"];

/// The table as text. A row of the golden and one of the actual per hit, only the first of them if both are equal.
pub(super) fn as_text(subject: &Subject) -> String {
    let mut rows: Vec<[String; 10]> = vec![HEADINGS.map(str::to_owned)];
    for record in subject.data.records() {
        let metrics = record.metrics.as_ref();
        let golden =
            record.expected.as_ref().map(|info| (info, metrics.and_then(|one| one.expected.as_ref())));
        let actual = record.actual.as_ref().map(|info| (info, metrics.map(|one| &one.actual)));
        let name = hit_name(&record.checkpoint, record.hit);
        let mark = match status(record.verdict.status) {
            "green" => name.into_owned(),
            other => format!("{name} ({other})"),
        };
        let mut first = Some(mark);
        for (side, found) in [("golden", golden), ("actual", actual)] {
            let Some((info, stats)) = found else { continue };
            let is_actual = side == "actual";
            rows.push(row(first.take().unwrap_or_default(), side, info, stats, is_actual.then_some(record)));
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 10] = std::array::from_fn(width);
    let mut text = format!("{} in run {}\n", clean(&subject.spec.id), clean(&subject.run));
    for row in &rows {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            0..=3 => format!("{:<width$}", clean(cell)),
            _ => format!("{:>width$}", clean(cell)),
        });
        let _ = writeln!(text, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    let reached: std::collections::BTreeSet<&str> =
        subject.data.records().map(|record| record.checkpoint.as_str()).collect();
    let missed = subject.spec.checkpoints.iter().filter(|one| !reached.contains(one.name.as_str())).count();
    if missed > 0 {
        let _ = writeln!(text, "{missed} of {} checkpoints were not reached", subject.spec.checkpoints.len());
    }
    for line in subject.data.resources().map(resource_lines).unwrap_or_default() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn row(
    name: String,
    side: &str,
    info: &TensorInfo,
    stats: Option<&Stats>,
    record: Option<&Record>,
) -> [String; 10] {
    let number = |value: fn(&Stats) -> f64| stats.map_or_else(|| "-".to_owned(), |stats| brief(value(stats)));
    let millis = record.map(|record| format!("{:.3}", record.millis)).unwrap_or_default();
    let memory = record.and_then(|record| record.memory.map(|memory| words(memory.active_bytes)));
    [
        name,
        side.to_owned(),
        info.dtype.to_string(),
        format!("{:?}", info.shape),
        number(|stats| stats.min),
        number(|stats| stats.max),
        number(|stats| stats.mean),
        number(|stats| stats.std),
        millis,
        memory.unwrap_or_default(),
    ]
}

/// A number with five digits.
pub(super) fn brief(value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return short(value);
    }
    match value.abs() {
        1e-3..1e6 => {
            let text = format!("{value:.5}");
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        }
        _ => format!("{value:.3e}"),
    }
}

/// The table as JSON: the records of the spec.
pub(super) fn as_json(subject: &Subject) -> Value {
    let records: Vec<&Record> = subject.data.records().collect();
    json!({"run": subject.run, "spec": subject.spec.id, "records": records,
        "resources": subject.data.resources()})
}
