//! The counts of a run. Every declared trial is in exactly one of them.

use super::account::Account;
use super::trial::TrialOutcome;

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
    /// Trials whose picture a person approved by eye.
    pub approved: usize,
    /// Trials that passed, and whose snapshot does not exist yet.
    pub new: usize,
    /// Trials that a filter left out, of all specs.
    pub not_selected: usize,
    /// Checkpoints that a `PARITY_LEVEL` below the level of their spec left out.
    pub left_out: usize,
    /// Failing trials whose actual was not kept, because fixtures and runs had reached the size limit.
    pub not_kept: usize,
    /// Specs in these counts.
    pub specs: usize,
    /// Selected specs that were not run.
    pub not_run: usize,
    /// Whether any port continued with goldens in place of its own actuals.
    pub injected: bool,
}

impl Summary {
    /// Adds the selected trials of one spec that ran.
    pub fn add(&mut self, account: &Account) {
        self.specs += 1;
        self.injected |= account.data.inject().any(&account.spec);
        self.left_out += account.left_out();
        for trial in account.selected() {
            self.not_kept +=
                usize::from(trial.record.as_ref().is_some_and(|record| record.not_kept.is_some()));
            match trial.outcome {
                TrialOutcome::Passed => self.passed += 1,
                TrialOutcome::NotGated(_) => self.not_gated += 1,
                TrialOutcome::Approved(_) => self.approved += 1,
                TrialOutcome::New(_) => self.new += 1,
                TrialOutcome::Failed { .. } => self.failed += 1,
                TrialOutcome::Pending(_) => self.pending += 1,
            }
        }
    }
}
