//! The trials that judge a run as a whole: fixtures, weights, memory and statistics.

use super::adapters::adapters;
use super::audit::audit_failure;
use super::run_data::RunData;
use super::stats::STATS;
use super::trial::{ADAPTERS, MEMORY, TrialOutcome, TrialResult, WEIGHTS, has_adapters};
use crate::files::size;
use crate::gate::Class;
use crate::run_folder::{Compared, FIXTURE, SPEC};
use crate::spec::{MemoryGate, Spec};

/// Returns the trials that `spec` needs. `first` is the checkpoint that reports how the port failed; if no checkpoint
/// does, because the port reached all of them before it failed, the first of these trials does.
pub(super) fn whole_trials(spec: &Spec, data: &RunData, mut first: Option<String>) -> Vec<TrialResult> {
    let mut trials = Vec::new();
    let mut whole = |name: &str, outcome: TrialOutcome| {
        let verdict = unless_cut_short(spec, name, outcome, data, &mut first);
        trials.push(TrialResult::without_record(name, verdict));
    };
    if spec.needs_fixtures() {
        whole(FIXTURE, fixture(data));
    }
    if spec.weights.is_some() {
        whole(WEIGHTS, audited(data, || weights(data)));
    }
    if has_adapters(spec) {
        whole(ADAPTERS, audited(data, || adapters(data)));
    }
    if let Some(limit) = spec.memory {
        whole(MEMORY, memory(limit, data));
    }
    trials
}

/// Turns a pass into a failure or pending if the port did not finish: the check was incomplete. `first` is the trial that
/// reports how the port failed; if there is none yet, this one does.
fn unless_cut_short(
    spec: &Spec,
    name: &str,
    outcome: TrialOutcome,
    data: &RunData,
    first: &mut Option<String>,
) -> TrialOutcome {
    if outcome != TrialOutcome::Passed {
        return outcome;
    }
    let partial = |why: String| format!("not fully checked: {why}");
    match (data.crash(), data.pending()) {
        (Some(crash), _) => match first {
            Some(first) => TrialOutcome::failed(Class::Crash, partial(cut_short(spec, first))),
            None => {
                *first = Some(name.to_owned());
                TrialOutcome::Failed { class: Class::Crash, line: partial(crash), more: data.crash_notes() }
            }
        },
        (None, Some(pending)) => TrialOutcome::Pending(partial(pending)),
        (None, None) => outcome,
    }
}

/// Names the trial that reports how the port failed.
pub(super) fn cut_short(spec: &Spec, first: &str) -> String {
    format!("the port did not finish; see `{}::{first}`", spec.id)
}

/// The outcome of every trial in a run whose spec or fixtures changed during the run.
pub(super) fn untrusted(data: &RunData) -> TrialOutcome {
    match data.changed() {
        [] => TrialOutcome::Passed,
        [changed] => TrialOutcome::failed(changed.class, changed.text.clone()),
        [changed, others @ ..] => {
            let more: Vec<&str> = others.iter().map(|other| other.text.as_str()).collect();
            TrialOutcome::Failed {
                class: changed.class,
                line: changed.text.clone(),
                more: Some(more.join("\n")),
            }
        }
    }
}

fn fixture(data: &RunData) -> TrialOutcome {
    if data.obstacles.first().is_some_and(|obstacle| obstacle.trial() == SPEC) {
        return TrialOutcome::failed(Class::Spec, "not checked".to_owned());
    }
    let mut problems: Vec<(Class, String)> =
        data.obstacles.iter().map(|obstacle| (obstacle.class, obstacle.text.clone())).collect();
    problems.extend(data.changed().iter().map(|changed| (changed.class, changed.text.clone())));
    if let Some(end) = data.end() {
        if !end.unused_inputs.is_empty() {
            let inputs = end.unused_inputs.join(", ");
            let text = format!("the spec declares inputs that the port never asked for: {inputs}");
            problems.push((Class::Unused, text));
        }
        problems.extend(end.random.as_ref().map(|drew| (Class::Random, drew.to_string())));
    }
    match &problems[..] {
        [] => TrialOutcome::Passed,
        [(class, text)] => TrialOutcome::failed(*class, text.clone()),
        [(class, _), ..] => {
            let texts: Vec<&str> = problems.iter().map(|(_, text)| text.as_str()).collect();
            let line = format!("{} problems with the fixtures", texts.len());
            TrialOutcome::Failed { class: *class, line, more: Some(texts.join("\n")) }
        }
    }
}

/// The outcome of an audit, which needs fixtures that can be trusted.
fn audited(data: &RunData, outcome: impl FnOnce() -> TrialOutcome) -> TrialOutcome {
    match &data.obstacles[..] {
        [obstacle, ..] => TrialOutcome::failed(obstacle.class, "not run".to_owned()),
        [] if !data.changed().is_empty() => untrusted(data),
        [] => outcome(),
    }
}

fn weights(data: &RunData) -> TrialOutcome {
    // Without an audit the worker has crashed, and the crash is reported instead.
    let audit = data.audit().filter(|audit| !audit.is_clean());
    audit.map_or(TrialOutcome::Passed, |audit| audit_failure(Class::Weights, audit))
}

/// The outcome of the trial [`MEMORY`]: MLX's peak against the spec's limit.
fn memory(limit: MemoryGate, data: &RunData) -> TrialOutcome {
    let Some(used) = data.resources() else {
        // A worker that was killed wrote none, and the crash is the reason to report.
        if data.crashed() {
            return TrialOutcome::Passed;
        }
        return TrialOutcome::failed(Class::Memory, "the run recorded no memory".to_owned());
    };
    let (peak, most) = (size::words(used.peak_bytes), size::words(limit.peak_bytes));
    if used.peak_bytes <= limit.peak_bytes {
        return TrialOutcome::Passed;
    }
    let stages =
        data.records().filter_map(|record| Some((record.memory?.stage_peak_bytes, &record.checkpoint)));
    let highest = stages.max_by_key(|(bytes, _)| *bytes);
    let stage = highest.map(|(bytes, name)| format!("; the stage of `{name}` needs {}", size::words(bytes)));
    TrialOutcome::failed(
        Class::Memory,
        format!("peak memory is {peak}, at most {most} are allowed{}", stage.unwrap_or_default()),
    )
}

/// The trial [`STATS`], which ends after all others.
pub(super) fn stats_result(compared: &Compared) -> TrialResult {
    let verdict = match compared.clone() {
        Compared::Kept => TrialOutcome::Passed,
        Compared::New { line } => TrialOutcome::New(line),
        Compared::Changed { line, more } | Compared::Failed { line, more } => {
            TrialOutcome::Failed { class: Class::Stats, line, more }
        }
    };
    TrialResult::without_record(STATS, verdict)
}
