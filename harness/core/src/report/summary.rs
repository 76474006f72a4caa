//! The counts of a run in one line.

use std::fmt::Write as _;

use crate::results::Summary;
use crate::spec::list::counted;

/// Returns `512 passed, 0 failed, 0 ignored, 12 specs`; counts of pending trials, ungated trials and specs
/// not run appear only above zero.
pub fn summary_line(summary: &Summary) -> String {
    let mut text =
        format!("{} passed, {} failed, {} ignored, ", summary.passed, summary.failed, summary.ignored);
    if summary.pending > 0 {
        let _ = write!(text, "{} pending, ", summary.pending);
    }
    if summary.not_gated > 0 {
        let _ = write!(text, "{} not gated, ", summary.not_gated);
    }
    text.push_str(&counted(summary.specs, "spec"));
    if summary.not_run > 0 {
        let _ = write!(text, ", {} not run", counted(summary.not_run, "spec"));
    }
    text.push_str(if summary.injected { ", INJECTED" } else { "" });
    text
}
