//! The counts of a run. Every declared trial is in exactly one of them.

use super::trial::{TrialOutcome, TrialResult};

/// The number of trials per outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Trials that passed.
    pub passed: usize,
    /// Trials that failed.
    pub failed: usize,
    /// Trials that cannot run on this machine.
    pub ignored: usize,
    /// Trials without an outcome: the run continues, or was interrupted before them.
    pub pending: usize,
    /// Trials that were measured, and that the spec declares as not gated.
    pub not_gated: usize,
    /// Specs in these counts.
    pub specs: usize,
    /// Selected specs that were not run.
    pub not_run: usize,
    /// Whether any port continued with goldens in place of its own actuals.
    pub injected: bool,
}

impl Summary {
    /// Adds the trials of one spec that ran.
    pub fn add(&mut self, trials: &[TrialResult]) {
        self.specs += 1;
        for trial in trials {
            match trial.outcome {
                TrialOutcome::Passed => self.passed += 1,
                TrialOutcome::NotGated(_) => self.not_gated += 1,
                TrialOutcome::Failed { .. } => self.failed += 1,
                TrialOutcome::Pending(_) => self.pending += 1,
            }
        }
    }
}
