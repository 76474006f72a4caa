//! The trials of a spec: their names, and how each ended.

use std::path::PathBuf;
use std::sync::Arc;

use super::stats::{STATS, has_stats};
use crate::gate::Class;
use crate::record::{ByEye, Record};
use crate::run_folder::FIXTURE;
use crate::spec::{Inject, Spec, in_rounds};

/// The name of the trial that audits the weights of a spec.
pub const WEIGHTS: &str = "weights";

/// The name of the trial that audits the adapters of a spec, and compares what they change.
pub const ADAPTERS: &str = "adapters";

/// The name of the trial that compares the peak memory of a port with the spec's limit.
pub const MEMORY: &str = "memory";

/// How one trial of a spec ended.
#[derive(Debug, Clone)]
pub struct TrialResult {
    /// The checkpoint's name, or [`FIXTURE`], [`WEIGHTS`], [`ADAPTERS`], [`MEMORY`], [`STATS`] or [`SPEC`](crate::run_folder::SPEC).
    pub name: String,
    /// How the trial ended.
    pub outcome: TrialOutcome,
    /// The record that decided the outcome, if the port reached the checkpoint.
    pub record: Option<Arc<Record>>,
    /// The file with the actual, if it was kept.
    pub actual: Option<PathBuf>,
    /// The files with pictures, if there are any: one path with `{golden,actual,diff}` for the kind.
    pub pictures: Option<PathBuf>,
    /// Milliseconds that the stage takes in a warm run, if the run was timed.
    pub warm_millis: Option<f64>,
    /// Whether the weight audit failed, which makes values meaningless.
    pub audit_failed: bool,
    /// Whether the run was asked for this trial. A port also passes through checkpoints that a filter left out; they are
    /// measured, but neither shown nor counted.
    pub selected: bool,
}

impl TrialResult {
    /// Returns whether the trial failed.
    pub fn is_failed(&self) -> bool {
        matches!(self.outcome, TrialOutcome::Failed { .. })
    }

    /// Returns whether the trial failed or is pending.
    pub fn is_red(&self) -> bool {
        matches!(self.outcome, TrialOutcome::Failed { .. } | TrialOutcome::Pending(_))
    }

    pub(crate) fn without_record(name: &str, outcome: TrialOutcome) -> Self {
        Self {
            name: name.to_owned(),
            outcome,
            record: None,
            actual: None,
            pictures: None,
            warm_millis: None,
            audit_failed: false,
            selected: true,
        }
    }
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialOutcome {
    /// The trial passed.
    Passed,
    /// The spec declares the checkpoint as not gated. The class is that of the failure that a gate would report.
    NotGated(Option<Class>),
    /// The values are off, and a person approved exactly this picture by eye.
    Approved(ByEye),
    /// The trial passed, but its snapshot does not exist yet. The text states what to do.
    New(String),
    /// The trial failed.
    Failed {
        /// The class of the failure.
        class: Class,
        /// What happened, in one line.
        line: String,
        /// Further lines, such as the end of the worker's output; one trial per run has them.
        more: Option<String>,
    },
    /// The outcome is unknown: the run continues, or was interrupted before this trial. The text states which of the two,
    /// and the last checkpoint that was reached. A pending trial is not green.
    Pending(String),
}

impl TrialOutcome {
    /// Returns a failure that one line describes.
    pub(super) fn failed(class: Class, line: String) -> Self {
        Self::Failed { class, line, more: None }
    }
}

/// Returns the names of all trials of `spec` up to `level`: its checkpoints, with the rounds of loops one after the other, then
/// the other trials.
pub fn trial_names(spec: &Spec, level: u8, inject: &Inject) -> Vec<String> {
    let checkpoints = spec.checkpoints.iter().filter(|checkpoint| checkpoint.level <= level);
    let checkpoints = in_rounds(checkpoints, |_| None);
    let mut names: Vec<String> = checkpoints.into_iter().map(|checkpoint| checkpoint.name.clone()).collect();
    names.extend(spec.needs_fixtures().then(|| FIXTURE.to_owned()));
    names.extend(spec.weights.is_some().then(|| WEIGHTS.to_owned()));
    names.extend(has_adapters(spec).then(|| ADAPTERS.to_owned()));
    names.extend(spec.memory.is_some().then(|| MEMORY.to_owned()));
    // The snapshot covers the spec's own level, and only the main run.
    names.extend((has_stats(inject) && level >= spec.level && spec.twin.is_none()).then(|| STATS.to_owned()));
    names
}

/// Whether `spec` has the trial [`ADAPTERS`]. A twin has none: it is compared with the run of its spec, which has one.
pub fn has_adapters(spec: &Spec) -> bool {
    !spec.adapters.is_empty() && spec.twin.is_none()
}

/// The class of a failed audit, by the name of its trial.
pub(super) fn audit_class(trial: &str) -> Class {
    if trial == ADAPTERS { Class::Adapters } else { Class::Weights }
}
