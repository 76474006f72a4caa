//! The command that runs one trial again.

use crate::gate::Class;
use crate::results::{Account, TrialOutcome, TrialResult};

/// Returns the command that runs the trial again; `target` is the test target of the suite.
pub(super) fn rerun(account: &Account, trial: &TrialResult, target: &str) -> String {
    let spec = &account.spec;
    let inner =
        spec.checkpoint(&trial.name).map(|checkpoint| checkpoint.level).filter(|&level| level > spec.level);
    let level = inner.map(|level| format!("PARITY_LEVEL={level} ")).unwrap_or_default();
    // With one checkpoint selected, the port stops after the last declared hit. Extra hits show only in a full run.
    let what = match &trial.outcome {
        TrialOutcome::Failed { class: Class::Hits, .. } => format!("{}::", spec.id),
        _ => format!("--exact {}::{}", spec.id, trial.name),
    };
    format!("{level}cargo test --test {target} -- {what}")
}
