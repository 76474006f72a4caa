//! What a ladder says of one tensor, in columns.

use std::fmt::Write as _;

use super::failure::multiple;
use crate::printable::clean;
use crate::record::Record;

/// The columns of a ladder.
pub(super) struct Columns {
    /// What is in the first.
    pub(super) what: &'static str,
    pub(super) width: usize,
    /// Whether there are times.
    pub(super) timed: bool,
}

impl Columns {
    pub(super) fn heading(&self) -> String {
        let width = self.width;
        let ms = if self.timed { format!(" {:>9} {:>9}", "first ms", "warm ms") } else { String::new() };
        format!("{:<width$} {:>8} {:>9} {:>7} {:>9}{ms}", self.what, "used", "floor", "range", "off by")
    }

    /// The name, how much of the gate was used, the error in multiples of the floor, the ratio of ranges, the largest
    /// distance, and the times.
    pub(super) fn row(&self, name: &str, record: Option<&Record>, warm_millis: Option<f64>) -> String {
        let width = self.width;
        let mut text = format!("{:<width$}", clean(name));
        let metrics = record.and_then(|record| record.metrics.as_ref());
        match metrics.and_then(|metrics| metrics.difference.as_ref()) {
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

/// What stands behind the first that failed, with the last one before it that did not.
pub(super) fn first_divergence(last_green: Option<&str>) -> String {
    let after = last_green
        .map_or_else(|| "nothing before it is green".to_owned(), |name| format!("last green: {name}"));
    format!("  <- first divergence, {after}")
}

/// A share of the gate, in percent while that is readable.
pub(super) fn percent(used: f64) -> String {
    match used {
        used if !used.is_finite() => format!("{used}"),
        used if used >= 9.995 => multiple(used),
        used => format!("{:.1} %", 100.0 * used),
    }
}
