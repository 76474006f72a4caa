//! The ladder of a spec: its checkpoints in execution order, so that the first wrong one is seen at a glance.

use std::fmt::Write as _;

use super::failure::multiple;
use crate::run::{Ending, Verdict};
use crate::spec::Spec;

/// The ladder as text, with ANSI colours or without.
///
/// The first checkpoint that failed is marked, with the last green one before it. The trials beside the checkpoints
/// stand below them.
pub(crate) fn ladder(spec: &Spec, endings: &[Ending], colour: bool) -> String {
    let paint = |code: &str, text: &str| match colour {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    };
    let mut text = paint("1", &spec.id);
    if let Some(about) = &spec.about {
        let _ = write!(text, "  {about}");
    }
    let width = endings.iter().map(|ending| ending.name.len()).max().unwrap_or(0).clamp(10, 48);
    let _ =
        write!(text, "\n  {:<9} {:<width$} {:>8} {:>9} {:>7}", "", "checkpoint", "used", "floor", "range");
    let first_red = endings.iter().position(|ending| matches!(ending.verdict, Verdict::Failed { .. }));
    for (position, ending) in endings.iter().enumerate() {
        let (word, code) = match &ending.verdict {
            Verdict::Passed => ("ok", "32"),
            Verdict::NotGated(_) => ("not gated", "33"),
            Verdict::Failed { class, .. } => (class.name(), "31"),
        };
        let word = paint(code, &format!("{word:<9}"));
        let numbers = numbers(ending);
        let line = format!("\n  {word} {:<width$} {numbers}", ending.name);
        text.push_str(line.trim_end());
        if let Verdict::NotGated(Some(class)) = ending.verdict {
            let _ = write!(text, "  {class}, were it gated");
        }
        if first_red == Some(position) && ending.record.is_some() {
            let green = endings[..position].iter().rev().find(|before| before.verdict == Verdict::Passed);
            let after = green.map_or_else(
                || "nothing before it is green".to_owned(),
                |before| format!("last green: {}", before.name),
            );
            text.push_str(&paint("31", &format!("  <- first divergence, {after}")));
        }
    }
    text.push('\n');
    text
}

/// How much of the gate was used, the error in multiples of the floor, and the ratio of ranges.
fn numbers(ending: &Ending) -> String {
    let difference = ending
        .record
        .as_ref()
        .and_then(|record| record.metrics.as_ref())
        .and_then(|metrics| metrics.difference.as_ref());
    let Some(difference) = difference else { return String::new() };
    let used = difference.used.map_or_else(|| "-".to_owned(), percent);
    let floor = difference.times_floor.as_ref().map_or_else(|| "-".to_owned(), |times| multiple(times.rms));
    format!("{used:>8} {floor:>9} {:>7}", format!("{:.3}", difference.range_ratio))
}

/// A share of the gate, in percent while that is readable.
fn percent(used: f64) -> String {
    match used {
        used if !used.is_finite() => format!("{used}"),
        used if used >= 9.995 => multiple(used),
        used => format!("{:.1} %", 100.0 * used),
    }
}
