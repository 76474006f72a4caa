//! Which failing trial of a spec is printed in full. The others are consequences, and get one line each.

use super::account::Account;
use super::localisation::Localisation;
use super::trial::TrialResult;
use crate::spec::RESERVED;

impl Account {
    /// Returns the failing checkpoint that is printed in full: the first faulty stage, or the first failing checkpoint of the
    /// run if the faulty stage is unknown or not selected. `None` if no selected checkpoint failed.
    pub fn main_failure(&self) -> Option<&TrialResult> {
        let is_candidate = |trial: &&TrialResult| trial.selected && trial.is_failed() && is_checkpoint(trial);
        let culprit = match self.localisation() {
            Some(Localisation::Culprit(culprit)) => self.trial(&culprit.name).filter(is_candidate),
            _ => None,
        };
        culprit.or_else(|| self.trials.iter().find(is_candidate))
    }

    /// Returns the selected checkpoint that failed or is pending, and that the spec declares first. libtest lists trials in
    /// that order, so its text is read first.
    pub fn first_listed_failure(&self) -> Option<&TrialResult> {
        let red = self.selected().filter(|trial| trial.is_red() && is_checkpoint(trial));
        red.min_by_key(|trial| self.spec.checkpoints.position(&trial.name))
    }
}

/// Returns whether the trial is a checkpoint, not one about the spec as a whole.
fn is_checkpoint(trial: &TrialResult) -> bool {
    !RESERVED.contains(&trial.name.as_str())
}
