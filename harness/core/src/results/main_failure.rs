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

    /// Returns the first divergence: the first selected checkpoint, in the order of execution, that failed or is pending. Its
    /// test prints the cause.
    pub fn first_red(&self) -> Option<&TrialResult> {
        self.selected().find(|trial| trial.is_red() && is_checkpoint(trial))
    }
}

/// Returns whether the trial is a checkpoint, not one about the spec as a whole.
fn is_checkpoint(trial: &TrialResult) -> bool {
    !RESERVED.contains(&trial.name.as_str())
}
