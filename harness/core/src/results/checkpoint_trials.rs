//! The trials of checkpoints: how each declared checkpoint ended, and its place among the others.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::order::in_execution_order;
use super::run_data::{RunData, undeclared};
use super::trial::{TrialOutcome, TrialResult, WEIGHTS, audit_class};
use super::whole_trials::{cut_short, untrusted};
use crate::gate::Class;
use crate::record::{Record, Status};
use crate::run_folder::Folder;
use crate::spec::{Checkpoint, Spec, Stage};
use crate::text::suggest::did_you_mean;
use crate::text::times;

/// Returns the trials of all checkpoints up to the level of the run, in the order of [`account`](super::account()), and the
/// checkpoint that reports how the port failed.
pub(super) fn checkpoint_trials(spec: &Spec, data: &RunData) -> (Vec<TrialResult>, Option<String>) {
    let level = data.level().unwrap_or(spec.level);
    let mut met: HashMap<&str, Vec<&Arc<Record>>> = HashMap::new();
    for record in data.shared_records() {
        met.entry(&record.checkpoint).or_default().push(record);
    }
    let (crash, pending, changed) = (data.crash(), data.pending(), data.changed().first());
    let stopped = data.end().is_some_and(|end| end.stopped);
    let audits = [data.audit(), data.adapter_audit()];
    let audit_failed = audits.into_iter().flatten().any(|audit| !audit.is_clean());
    // The audit of the weights says more than a crash.
    let not_loaded = data.failed_audit();
    let mut blamed = not_loaded;
    let (mut latest, mut lost) = (TrialPlace::START, 0);
    let undeclared: Vec<&str> = data.lines.iter().filter_map(undeclared).collect();
    let mut placed: Vec<(TrialPlace, TrialResult)> = Vec::new();
    for checkpoint in in_execution_order(spec, level, data) {
        let records = met.get(checkpoint.name.as_str()).map_or(&[][..], Vec::as_slice);
        latest = records.first().map_or(latest, |record| TrialPlace::met(record.sequence));
        let missed = records.len() < checkpoint.hits as usize;
        let place = match (missed && data.crashed(), records) {
            (true, _) => TrialPlace::END,
            (false, []) => TrialPlace::of_unmet(data, &checkpoint.name).unwrap_or(latest),
            (false, _) => latest,
        };
        if records.is_empty() && stopped {
            continue;
        }
        let is_red = records.iter().any(|record| record.verdict.status == Status::Fail);
        let outcome = match (&data.obstacles[..], records, &crash) {
            // The run that a twin is compared with has its own trials, which say more.
            ([obstacle, ..], ..) if spec.twin.is_some() => {
                TrialOutcome::failed(obstacle.class, obstacle.text.clone())
            }
            ([obstacle, ..], ..) => TrialOutcome::failed(
                obstacle.class,
                format!("not run; see `{}::{}`", spec.id, obstacle.trial()),
            ),
            _ if changed.is_some() => untrusted(data),
            _ if pending.is_some() && missed && !is_red => {
                TrialOutcome::Pending(format!("not reached: {}", pending.as_deref().unwrap_or_default()))
            }
            // With one process per test, each trial must name the reason itself.
            ([], [], Some(crash)) if not_loaded.is_some() => {
                let audit = not_loaded.unwrap_or(WEIGHTS);
                let text = format!("not run: {crash}; see `{}::{audit}`", spec.id);
                TrialOutcome::failed(audit_class(audit), text)
            }
            ([], [], Some(crash)) => match blamed {
                Some(first) => {
                    TrialOutcome::failed(Class::Crash, format!("not reached: {}", cut_short(spec, first)))
                }
                None => {
                    blamed = Some(checkpoint.name.as_str());
                    TrialOutcome::Failed {
                        class: Class::Crash,
                        line: crash.clone(),
                        more: data.crash_notes(),
                    }
                }
            },
            // Code that was compiled before the run is not traced again.
            ([], [], None) if checkpoint.is_unseen() => TrialOutcome::NotGated(None),
            ([], [], None) => {
                lost += 1;
                let text = unreached(&checkpoint.name, &undeclared, lost <= OFFERED);
                match checkpoint.stage {
                    Some(Stage::Gradient) => {
                        TrialOutcome::failed(Class::Gradient, format!("it is absent: {text}"))
                    }
                    _ => TrialOutcome::failed(Class::Unreached, text),
                }
            }
            ([], records, _) => judged(checkpoint, records, stopped || pending.is_some(), crash.as_deref()),
        };
        let deciding = first_with(records, Status::Fail)
            .or_else(|| first_with(records, Status::Approved))
            .or(records.first());
        // Only failures keep their actual, and checking for a file per checkpoint is slow in a large spec.
        let failing = deciding.filter(|record| record.verdict.status == Status::Fail);
        let drawn =
            deciding.filter(|record| matches!(record.verdict.status, Status::Fail | Status::Approved));
        let actual = failing.map(|record| data.folder.actual(&record.checkpoint, record.hit));
        let trial = TrialResult {
            name: checkpoint.name.clone(),
            outcome,
            record: deciding.map(|record| Arc::clone(record)),
            actual: actual.filter(|path| path.is_file()).map(|path| data.shown(&path)),
            pictures: drawn.and_then(|record| pictures(&data.folder, record)).map(|path| data.shown(&path)),
            warm_millis: data.warm_millis(&checkpoint.name),
            audit_failed,
            selected: true,
        };
        placed.push((place, trial));
    }
    placed.sort_by_key(|(place, _)| *place);
    (placed.into_iter().map(|(_, trial)| trial).collect(), blamed.map(ToOwned::to_owned))
}

/// The sort key of a trial: the record before it, then the order of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TrialPlace {
    /// One more than the sequence of the record before the trial; 0 at the start.
    record: u64,
    /// For a checkpoint that was not reached, its position in the reference.
    unmet: Option<usize>,
}

impl TrialPlace {
    const START: Self = Self { record: 0, unmet: None };
    const END: Self = Self { record: u64::MAX, unmet: None };

    fn met(sequence: u64) -> Self {
        Self { record: after(sequence), unmet: None }
    }

    /// After the last reached checkpoint that precedes this one in the reference; `None` if that order is unknown.
    fn of_unmet(data: &RunData, checkpoint: &str) -> Option<Self> {
        let own = data.order(checkpoint)?;
        let before = data.records().filter(|record| {
            record.hit == 0 && data.order(&record.checkpoint).is_some_and(|place| place < own)
        });
        let record = before.map(|record| after(record.sequence)).max().unwrap_or(0);
        Some(Self { record, unmet: Some(own) })
    }
}

/// One more than `sequence`, which a damaged record may give as the largest number.
fn after(sequence: u64) -> u64 {
    sequence.saturating_add(1)
}

/// The path of the pictures of a hit, if they exist.
fn pictures(folder: &Folder, record: &Record) -> Option<PathBuf> {
    let path = |kind| folder.picture(&record.checkpoint, record.hit, kind);
    (record.image.is_some() && path("diff").is_file()).then(|| path("{golden,actual,diff}"))
}

/// The first record with this status.
fn first_with<'r>(records: &'r [&'r Arc<Record>], status: Status) -> Option<&'r &'r Arc<Record>> {
    records.iter().find(|record| record.verdict.status == status)
}

/// The outcome of a checkpoint that the port reached at least once.
fn judged(
    checkpoint: &Checkpoint,
    records: &[&Arc<Record>],
    stopped: bool,
    crash: Option<&str>,
) -> TrialOutcome {
    let record = first_with(records, Status::Fail)
        .or_else(|| records.iter().find(|record| record.verdict.status != Status::Pass))
        .unwrap_or(&records[0]);
    let verdict = &record.verdict;
    let wanted = checkpoint.hits as usize;
    let counts = !checkpoint.is_unseen();
    if counts && (records.len() > wanted || (records.len() < wanted && !stopped)) {
        let because = crash.map(|crash| format!(": {crash}")).unwrap_or_default();
        let class = if crash.is_some() && records.len() < wanted { Class::Crash } else { Class::Hits };
        return TrialOutcome::failed(
            class,
            format!("reached {}, but the spec declares {wanted}{because}", times(records.len())),
        );
    }
    match verdict.status {
        Status::Pass => TrialOutcome::Passed,
        Status::Ungated => TrialOutcome::NotGated(verdict.class),
        Status::Approved => match &record.by_eye {
            Some(by_eye) if by_eye.stale.is_none() => TrialOutcome::Approved(by_eye.clone()),
            // Only a damaged run folder has such a record.
            _ => TrialOutcome::failed(verdict.class.unwrap_or(Class::Value), verdict.detail.clone()),
        },
        Status::Fail => TrialOutcome::failed(verdict.class.unwrap_or(Class::Value), verdict.detail.clone()),
    }
}

/// How many unreached checkpoints get a suggestion; the search is slow when a renamed scope loses many.
const OFFERED: usize = 20;

fn unreached(name: &str, undeclared: &[&str], offers: bool) -> String {
    let near = if offers { did_you_mean(name, undeclared.iter().copied()) } else { String::new() };
    let seen = match undeclared.len() {
        0 => "the spec declares every tap that the port reached".to_owned(),
        1 => format!("the port reached one undeclared tap, `{}`", undeclared[0]),
        count => format!("the port reached {count} undeclared taps, `{}` first", undeclared[0]),
    };
    format!("the port finished without reaching this tap{near}; {seen}")
}
