//! One checkpoint in detail.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::subject::{Hit, Subject, status};
use super::surroundings::{log_lines, source_lines};
use super::table::brief;
use super::values::{Answers, HitValues};
use crate::Project;
use mlx_parity_core::calculate::{Calculator, Limits, Tensors};
use mlx_parity_core::compare::{Difference, Stats};
use mlx_parity_core::gate::Gate;
use mlx_parity_core::record::{Record, TensorInfo};
use mlx_parity_core::spec::hit_name;
use mlx_parity_core::text::printable::clean;

/// Everything about one hit, as text.
pub(super) fn as_text(project: &Project, subject: &Subject, hit: &Hit<'_>, values: &HitValues<'_>) -> String {
    let record = hit.record;
    let mut text = format!("{}::{} in run {}\n", subject.spec.id, hit.name, clean(&subject.run));
    let mut row = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<9}{}", clean(value));
    };
    let class = record.verdict.class.map(|class| format!(", {}", class.name())).unwrap_or_default();
    row("result", &format!("{}{class}: {}", status(record.verdict.status), record.verdict.detail));
    if record.injected {
        row("injected", "the port continued with a golden, here or earlier");
    }
    let metrics = record.metrics.as_ref();
    side(&mut row, "golden", record.expected.as_ref(), metrics.and_then(|metrics| metrics.expected.as_ref()));
    if let Some(top) = record.gate.as_ref().and_then(Gate::top) {
        row(
            "",
            &format!("the {top} most probable ids of each row; errors are those of their log-probabilities"),
        );
    }
    side(&mut row, "actual", record.actual.as_ref(), metrics.map(|metrics| &metrics.actual));
    let choices = metrics.and_then(|metrics| metrics.choices.as_ref());
    choices.iter().flat_map(|choices| &choices.other).for_each(|other| row("row", &other.text()));
    // The distance between two ids means nothing.
    if let Some(difference) =
        metrics.and_then(|metrics| metrics.difference.as_ref()).filter(|_| !record.is_of_ids())
    {
        differences(&mut row, difference);
    }
    for line in entropy(record, values) {
        row("entropy", &line);
    }
    if let Some(place) = values.place() {
        row("made at", &format!("{place} (reference)"));
    }
    row("time", &format!("{:.3} ms since the previous checkpoint", record.millis));
    if let Some(memory) = record.memory {
        row("memory", &memory.to_string());
    }
    let kept = subject.data.folder().actual(&record.checkpoint, record.hit);
    if kept.exists() {
        row("kept", &kept.display().to_string());
    }
    if let Some(place) = &record.location {
        row("tap", &format!("{}:{}", place.file, place.line));
        match source_lines(project.root(), place) {
            Ok(lines) => lines.iter().for_each(|line| _ = writeln!(text, "    {line}")),
            Err(problem) => _ = writeln!(text, "    no source: {}", clean(&problem)),
        }
    }
    let log = subject.data.folder().output();
    let lines = log_lines(&log, &hit_name(&record.checkpoint, record.hit));
    let _ = writeln!(text, "  {:<9}{}", "log", clean(&log.display().to_string()));
    lines.iter().for_each(|line| _ = writeln!(text, "    {line}"));
    text
}

fn side(row: &mut impl FnMut(&str, &str), label: &str, info: Option<&TensorInfo>, stats: Option<&Stats>) {
    let Some(info) = info else { return row(label, "none") };
    row(label, &format!("{} {:?}", info.dtype, info.shape));
    let Some(stats) = stats else { return };
    let elements: u64 = info.shape.iter().map(|&length| length as u64).product();
    let skipped = stats.nan + stats.positive_infinity + stats.negative_infinity + stats.huge;
    let sum = stats.mean * elements.saturating_sub(skipped) as f64;
    let numbers =
        [("min", stats.min), ("max", stats.max), ("mean", stats.mean), ("std", stats.std), ("sum", sum)];
    let numbers: Vec<String> =
        numbers.iter().map(|(name, value)| format!("{name} {}", brief(*value))).collect();
    row("", &numbers.join(", "));
    let first: Vec<String> = stats.first.iter().map(ToString::to_string).collect();
    row("", &format!("first {}: {}", first.len(), first.join(", ")));
    let odd = [
        (stats.nan, "NaN"),
        (stats.positive_infinity, "inf"),
        (stats.negative_infinity, "-inf"),
        (stats.subnormal, "subnormal"),
        (stats.huge, "at or above 1e30"),
    ];
    let odd: Vec<String> =
        odd.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !odd.is_empty() {
        row("", &odd.join(", "));
    }
}

fn differences(row: &mut impl FnMut(&str, &str), difference: &Difference) {
    row(
        "error",
        &format!(
            "max {}, mean {}, rms {}, cosine {:.8}, range x{:.3}",
            brief(difference.max_abs),
            brief(difference.mean_abs),
            brief(difference.rms),
            difference.cosine,
            difference.range_ratio
        ),
    );
    row(
        "",
        &format!(
            "max relative {} % of |golden| + {:e}",
            brief(100.0 * difference.max_rel),
            difference.rel_guard
        ),
    );
    for worst in &difference.worst {
        let (index, distance) = (&worst.index, brief(worst.distance));
        row(
            "worst",
            &format!("{index:?}: expected {}, actual {}, off by {distance}", worst.expected, worst.actual),
        );
    }
}

/// The entropy of attention weights: where rows along the last axis sum to one.
fn entropy(record: &Record, values: &HitValues<'_>) -> Vec<String> {
    const MOST: usize = 1 << 24;
    let Some(info) = record.actual.as_ref().or(record.expected.as_ref()) else { return Vec::new() };
    let keys = info.shape.last().copied().unwrap_or(0);
    let elements = info.shape.iter().try_fold(1usize, |all, &length| all.checked_mul(length));
    let stats = record.metrics.as_ref().map(|metrics| &metrics.actual);
    let is_share = stats.is_some_and(|stats| stats.min >= 0.0 && stats.max <= 1.001 && stats.max > 0.0);
    if keys < 2 || !is_share || elements.is_none_or(|elements| elements > MOST) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for name in ["golden", "actual"] {
        // A tensor that was not kept has no entropy, which is no reason to fail.
        if values.tensor(name).is_err() {
            continue;
        }
        let mut calculator = Calculator::new(values, Limits::default());
        let text =
            format!("abs({name}.sum(axis=-1) - 1).max(); entropy({name}).mean(); entropy({name}).min()");
        let Ok(answers) = calculator.run(&text) else { continue };
        let number =
            |index: usize| answers.get(index).and_then(|answer| answer.value.values().first().copied());
        if let (Some(off), Some(mean), Some(least)) = (number(0), number(1), number(2))
            && off < 0.01
        {
            let even = (keys as f64).ln();
            lines.push(format!("{name}: mean {mean:.4}, least {least:.4}; ln({keys} keys) is {even:.4}"));
        }
    }
    lines
}

/// Everything about one hit, as JSON.
pub(super) fn as_json(subject: &Subject, hit: &Hit<'_>, values: &HitValues<'_>, answers: &Answers) -> Value {
    let record = hit.record;
    let kept = subject.data.folder().actual(&record.checkpoint, record.hit);
    json!({
        "run": subject.run,
        "spec": subject.spec.id,
        "checkpoint": hit.checkpoint.name,
        "hit": record.hit,
        "record": record,
        "entropy": entropy(record, values),
        "actual_file": kept.exists().then_some(kept),
        "log": subject.data.folder().output(),
        "answers": answers.as_json(),
    })
}
