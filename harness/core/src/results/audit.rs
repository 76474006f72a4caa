//! An audit of weights that found something, in words.

use super::rename_advice::rename_advice;
use super::trial::TrialOutcome;
use crate::gate::Class;
use crate::run_folder::Audit;

/// The outcome of an audit that found something.
pub(super) fn audit_failure(class: Class, audit: &Audit) -> TrialOutcome {
    let mut line = format!("{} weights taken", audit.taken.len());
    // Advice before the list, of which reports show only the beginning.
    let mut more: Vec<String> = rename_advice(audit).into_iter().collect();
    for (position, (what, counted, found)) in audit.faults().into_iter().enumerate() {
        // Counts of the first three kinds are always shown, of the others only above zero.
        if position < 3 || !found.is_empty() {
            line.push_str(&format!(", {} {counted}", found.len()));
        }
        more.extend(found.iter().map(|text| format!("{what:<8} {text}")));
    }
    TrialOutcome::Failed { class, line, more: Some(more.join("\n")) }
}
