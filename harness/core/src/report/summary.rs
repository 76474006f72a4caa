//! The counts of a run in one line.

use std::fmt::Write as _;

use crate::results::Summary;
use crate::spec::list::counted;

/// Returns `512 passed, 0 failed, 0 ignored, 12 specs`; all other counts appear only above zero.
pub fn summary_line(summary: &Summary) -> String {
    let mut text =
        format!("{} passed, {} failed, {} ignored, ", summary.passed, summary.failed, summary.ignored);
    if summary.pending > 0 {
        let _ = write!(text, "{} pending, ", summary.pending);
    }
    if summary.not_gated > 0 {
        let _ = write!(text, "{} not gated, ", summary.not_gated);
    }
    if summary.approved > 0 {
        let _ = write!(text, "{} approved by eye, ", summary.approved);
    }
    if summary.new > 0 {
        let _ = write!(text, "{}, ", counted(summary.new, "new snapshot"));
    }
    text.push_str(&counted(summary.specs, "spec"));
    if summary.not_run > 0 {
        let _ = write!(text, ", {} not run", counted(summary.not_run, "spec"));
    }
    if summary.not_selected > 0 {
        let _ = write!(text, ", {} not selected", counted(summary.not_selected, "trial"));
    }
    if summary.left_out > 0 {
        let _ = write!(text, ", {} left out by PARITY_LEVEL", counted(summary.left_out, "checkpoint"));
    }
    text.push_str(&not_kept(summary));
    text.push_str(if summary.injected { ", INJECTED" } else { "" });
    text
}

/// Returns `, 3 actuals not kept`; empty if none was left out.
pub fn not_kept(summary: &Summary) -> String {
    match summary.not_kept {
        0 => String::new(),
        count => format!(", {} not kept", counted(count, "actual")),
    }
}
