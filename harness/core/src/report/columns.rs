//! The columns of a ladder, one row per tensor.

use std::fmt::Write as _;

use super::words::multiple;
use crate::record::Record;
use crate::text::printable::clean;

/// The columns of a ladder.
pub(super) struct Columns {
    /// The heading of the first column.
    pub(super) what: &'static str,
    /// The width of the first column, in characters.
    pub(super) width: usize,
    /// Whether the ladder has columns for times.
    pub(super) timed: bool,
}

impl Columns {
    /// The line of headings.
    pub(super) fn heading(&self) -> String {
        let width = self.width;
        let ms = if self.timed { format!(" {:>9} {:>9}", "first ms", "warm ms") } else { String::new() };
        format!("{:<width$} {:>8} {:>9} {:>7} {:>9}{ms}", self.what, "used", "floor", "range", "off by")
    }

    /// One row: name, share of the gate used, error in multiples of the floor, ratio of ranges, largest distance and
    /// times.
    pub(super) fn row(&self, name: &str, record: Option<&Record>, warm_millis: Option<f64>) -> String {
        let width = self.width;
        let mut text = format!("{:<width$}", clean(name));
        let metrics = record.and_then(|record| record.metrics.as_ref());
        match metrics.and_then(|metrics| metrics.difference.as_ref()) {
            Some(difference) if record.is_some_and(|record| record.is_of_ids()) => {
                let used = difference.used.map_or_else(|| "-".to_owned(), percent);
                // The distance between two ids means nothing.
                let choices = metrics.and_then(|metrics| metrics.choices.as_ref());
                let other = choices
                    .map_or(difference.mismatched.unwrap_or(0), |choices| choices.rows - choices.equal);
                let what = if choices.is_some() { "rows" } else { "ids" };
                let off = format!("{other} {what}");
                let _ = write!(text, " {used:>8} {:>9} {:>7} {off:>9}", "-", "-");
            }
            Some(difference) => {
                let used = difference.used.map_or_else(|| "-".to_owned(), percent);
                let floor = difference.times_floor.as_ref();
                let floor = floor.map_or_else(|| "-".to_owned(), |times| multiple(times.rms));
                let range = format!("{:.3}", difference.range_ratio);
                let off = format!("{:.1e}", difference.max_abs);
                let _ = write!(text, " {used:>8} {floor:>9} {range:>7} {off:>9}");
            }
            None if self.timed => {
                let _ = write!(text, "{:>37}", "");
            }
            None => {}
        }
        if let Some((record, warm)) = record.zip(warm_millis) {
            let _ = write!(text, " {:>9.3} {warm:>9.3}", record.millis);
        }
        text
    }
}

/// The mark of the first failing row, which names the last green row before it.
pub(super) fn first_divergence(last_green: Option<&str>) -> String {
    let after = last_green
        .map_or_else(|| "nothing passed before it".to_owned(), |name| format!("last green: {name}"));
    format!("  <- first divergence, {after}")
}

/// A share of the gate: in percent below 10, as a multiple above.
pub(super) fn percent(used: f64) -> String {
    match used {
        used if !used.is_finite() => format!("{used}"),
        used if used >= 9.995 => multiple(used),
        used => format!("{:.1} %", 100.0 * used),
    }
}
