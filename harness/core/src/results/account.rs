//! Judges a run folder against its spec: every declared checkpoint gets an outcome, and none is lost.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::checkpoint_trials::checkpoint_trials;
use super::localisation::Localisation;
use super::run_data::RunData;
use super::spec_file::SpecFileError;
use super::stats::STATS;
use super::trial::{TrialOutcome, TrialResult};
use super::whole_trials::{cut_short, stats_result, whole_trials};
use crate::gate::Class;
use crate::run_folder::{Compared, SPEC, TrialLine, TrialStatus};
use crate::spec::{Checkpoint, Spec};

/// The results of one spec: its run folder, judged against the spec.
#[derive(Debug)]
pub struct Account {
    /// Checkpoints in the order in which the run reached them, then the other trials.
    pub trials: Vec<TrialResult>,
    /// The spec that ran, read from the run folder.
    pub spec: Arc<Spec>,
    /// The content of the run folder.
    pub data: RunData,
    /// The second run of a red spec, with every golden injected.
    pub local: Option<Box<Self>>,
    /// Whether each trial is printed by a process of its own, so that none can leave its text to another.
    pub is_apart: bool,
    /// The position of each trial in `trials`, by name.
    index: HashMap<String, usize>,
    /// The first faulty stage, computed on first use: every failing trial reports it.
    pub(super) found: OnceLock<Option<Localisation>>,
}

impl Account {
    /// Returns the trial with this name.
    pub fn trial(&self, name: &str) -> Option<&TrialResult> {
        self.index.get(name).map(|&at| &self.trials[at])
    }

    /// Sets the outcome of the trial [`STATS`], and replaces that of an earlier attempt.
    pub fn set_stats(&mut self, compared: &Compared) {
        self.trials.retain(|trial| trial.name != STATS);
        self.trials.push(stats_result(compared));
        self.data.stats = Some(compared.clone());
        self.index = index(&self.trials);
    }

    /// Makes the outcomes those of a merged run: `declared` are the names of all trials, and `lines` the outcomes of those that
    /// the parts judged, by full name.
    ///
    /// A trial that no part judged is pending, although the port may have passed through its checkpoint. A trial that failed
    /// where it was judged is failed, whatever the records of this folder say.
    pub(super) fn judge_merged(&mut self, declared: &[String], lines: &HashMap<&str, &TrialLine>) {
        for name in declared {
            let line = lines.get(format!("{}::{name}", self.spec.id).as_str()).copied();
            let known = self.index.get(name).copied().map(|at| &mut self.trials[at]);
            let outcome = merged_outcome(known.as_ref().map(|trial| &trial.outcome), line);
            match (known, outcome) {
                (Some(trial), Some(outcome)) if line.is_none() => {
                    *trial = TrialResult::without_record(name, outcome);
                }
                (Some(trial), Some(outcome)) => trial.outcome = outcome,
                (None, Some(outcome)) => self.trials.push(TrialResult::without_record(name, outcome)),
                (_, None) => {}
            }
        }
        self.index = index(&self.trials);
    }

    /// Returns the run whose stages received golden inputs: the second run, or this one if there was no second.
    pub fn on_golden_inputs(&self) -> &Self {
        self.local.as_deref().unwrap_or(self)
    }

    /// Marks the trials that the run was asked for; `takes` gets a trial's full name, `<spec>::<checkpoint>`.
    pub fn select(&mut self, takes: impl Fn(&str) -> bool) {
        for trial in &mut self.trials {
            trial.selected = takes(&format!("{}::{}", self.spec.id, trial.name));
        }
    }

    /// Returns the trials that the run was asked for, in the order of [`Account::trials`].
    pub fn selected(&self) -> impl Iterator<Item = &TrialResult> {
        self.trials.iter().filter(|trial| trial.selected)
    }

    /// Returns whether any selected trial failed or is pending.
    pub fn is_red(&self) -> bool {
        self.selected().any(TrialResult::is_red)
    }

    /// Returns whether any trial but [`STATS`] failed or is pending, selected or not: the port cannot be trusted.
    pub fn is_wrong(&self) -> bool {
        self.trials.iter().any(|trial| trial.name != STATS && trial.is_red())
    }

    /// Returns whether this is the trial [`STATS`], and the statistics differ from their snapshot.
    pub(crate) fn has_changed_stats(&self, trial: &TrialResult) -> bool {
        trial.name == STATS && matches!(self.data.stats, Some(Compared::Changed { .. }))
    }

    /// Names the trial that reports how the port failed, in one line; `None` if the port finished.
    pub fn cut_short(&self) -> Option<String> {
        self.first_crash().map(|first| cut_short(&self.spec, &first.name))
    }

    /// The trial that reports how the port failed.
    fn first_crash(&self) -> Option<&TrialResult> {
        let is_crash =
            |trial: &&TrialResult| matches!(trial.outcome, TrialOutcome::Failed { class: Class::Crash, .. });
        self.trials.iter().find(is_crash)
    }

    /// Returns the line of a trial. Where it leads to the trial that reports how the port failed, and that trial is not
    /// printed beside this one, the line says itself how the port failed.
    pub(crate) fn whole_line(&self, line: &str) -> String {
        match (self.first_crash(), self.data.crash()) {
            (Some(first), Some(crash)) if self.is_apart || !first.selected => {
                line.replace(&cut_short(&self.spec, &first.name), &crash)
            }
            _ => line.to_owned(),
        }
    }

    /// Returns how many checkpoints of the spec's own level a lower `PARITY_LEVEL` left out.
    pub fn left_out(&self) -> usize {
        let level = self.data.level().unwrap_or(self.spec.level);
        let out = |checkpoint: &&Checkpoint| checkpoint.level > level && checkpoint.level <= self.spec.level;
        self.spec.checkpoints.iter().filter(out).count()
    }
}

impl Account {
    /// Judges a run folder against the spec inside it.
    ///
    /// # Errors
    /// When the run folder has no spec, or the digest of its spec differs from the recorded one.
    pub fn of(mut data: RunData) -> Result<Self, SpecFileError> {
        let spec = data.take_spec()?;
        Ok(account(&spec, data))
    }
}

/// Returns the outcome of every trial of `spec`, with checkpoints up to the level of the run.
///
/// Checkpoints are sorted by the order of the run. A checkpoint that the port did not reach is placed as follows:
///
/// - The reference reached it: after the last reached checkpoint that precedes it in the reference. The order of
///   declaration would be wrong here: a spec declares its loops one after another, so `blocks.1.norm` is often declared
///   before `blocks.0.out`.
/// - The order of the reference is unknown: after the checkpoint declared before it, with the rounds of loops one after the
///   other.
/// - The port crashed: at the end, in the same order.
///
/// A run that was stopped early, because no later checkpoint was selected, lists only the checkpoints that it reached.
pub fn account(spec: &Arc<Spec>, mut data: RunData) -> Account {
    let mut local = data.take_local().map(|data| Box::new(account(spec, data)));
    let trials = trials(spec, &data);
    // Golden inputs give another picture, which nobody has seen. A stage whose picture is approved is not faulty.
    for trial in local.iter_mut().flat_map(|local| &mut local.trials).filter(|trial| trial.is_failed()) {
        let own = trials.iter().find(|own| own.name == trial.name);
        if let Some(approved @ TrialOutcome::Approved(_)) = own.map(|own| &own.outcome) {
            trial.outcome = approved.clone();
        }
    }
    let index = index(&trials);
    Account { spec: Arc::clone(spec), trials, data, local, is_apart: false, index, found: OnceLock::new() }
}

/// Returns the outcome of a trial in a merged run; `None` if `known`, the one by the records, stays.
fn merged_outcome(known: Option<&TrialOutcome>, line: Option<&TrialLine>) -> Option<TrialOutcome> {
    let Some(line) = line else {
        return Some(TrialOutcome::Pending("none of the merged runs judged it".to_owned()));
    };
    let failed = || {
        let text = line.text.as_deref().and_then(|text| text.lines().next());
        let text =
            text.unwrap_or("it failed in the run that judged it, whose records are not in the merged run");
        TrialOutcome::failed(line.class.unwrap_or(Class::Crash), text.to_owned())
    };
    match (line.status, known) {
        (TrialStatus::Failed, Some(TrialOutcome::Failed { .. })) => None,
        (TrialStatus::Failed, _) => Some(failed()),
        (_, Some(TrialOutcome::Pending(_)) | None) => Some(match line.status {
            TrialStatus::NotGated => TrialOutcome::NotGated(line.class),
            TrialStatus::New => TrialOutcome::New("its snapshot waits to be accepted".to_owned()),
            _ => TrialOutcome::Passed,
        }),
        (_, Some(_)) => None,
    }
}

fn index(trials: &[TrialResult]) -> HashMap<String, usize> {
    trials.iter().enumerate().map(|(at, trial)| (trial.name.clone(), at)).collect()
}

fn trials(spec: &Spec, data: &RunData) -> Vec<TrialResult> {
    let (mut trials, blamed) = checkpoint_trials(spec, data);
    if let Some(obstacle) = data.obstacles.first().filter(|obstacle| obstacle.trial() == SPEC) {
        let verdict = TrialOutcome::failed(obstacle.class, obstacle.text.clone());
        trials.push(TrialResult::without_record(SPEC, verdict));
    }
    if data.end().is_some_and(|end| end.stopped) {
        return trials;
    }
    trials.extend(whole_trials(spec, data, blamed));
    trials.extend(data.stats.as_ref().map(stats_result));
    trials
}
