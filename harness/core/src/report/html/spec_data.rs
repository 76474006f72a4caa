//! The results of one spec, a row per trial, as the page's script reads them.

use std::collections::HashMap;

use serde::Serialize;

use super::detail::{DetailBudget, RowDetail, detail};
use crate::compare::Difference;
use crate::number;
use crate::record::Record;
use crate::report::ladder::notes;
use crate::report::localisation::sentence;
use crate::results::{Account, Against, Localisation, Measured, TrialOutcome, TrialResult};

/// The results of one spec.
#[derive(Serialize)]
pub(super) struct SpecData<'a> {
    id: &'a str,
    /// The place in a pipeline, from its start.
    pub(super) place: u8,
    about: Option<&'a str>,
    source: Option<&'a str>,
    /// `ran`, `ignored`, `failed`, `not_run`, or `problem` for trials that belong to no spec.
    fate: &'static str,
    /// Why the spec did not run.
    reason: Option<&'a str>,
    /// The first faulty stage and its cause.
    sentence: Option<String>,
    /// The name of the first faulty stage.
    faulty: Option<&'a str>,
    /// The first failing checkpoint.
    diverges: Option<usize>,
    notes: Vec<String>,
    rows: Vec<Row<'a>>,
}

/// One trial. Missing values are left out, so that thousands of rows stay small.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    name: &'a str,
    /// `pass`, `fail`, `ungated`, `approved`, `new` or `pending`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'static str>,
    /// Why the trial did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<&'a str>,
    #[serde(flatten)]
    numbers: Numbers,
    /// The used part of the gate on golden inputs.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number::option::serialize")]
    local_used: Option<f64>,
    /// The relative error on golden inputs.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number::option::serialize")]
    local_relative: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tensor: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tap: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Before>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Box<RowDetail<'a>>>,
}

#[derive(Serialize, Default)]
struct Numbers {
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number::option::serialize")]
    used: Option<f64>,
    /// The root mean square of the error, in multiples of the floor.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number::option::serialize")]
    floor: Option<f64>,
    /// The norm of the error divided by that of the golden.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number::option::serialize")]
    relative: Option<f64>,
    /// The largest distance.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number::option::serialize")]
    off: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number::option::serialize")]
    mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number::option::serialize")]
    std: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number::option::serialize")]
    millis: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak: Option<u64>,
}

/// The same trial in the other run.
#[derive(Serialize)]
struct Before {
    status: &'static str,
    #[serde(flatten)]
    numbers: Numbers,
}

/// The trials of the other run, by spec and name.
pub(super) type BeforeTrials = HashMap<(String, String), Measured>;

/// Returns the trials of the other run that this run has, too.
pub(super) fn before(against: &Against<'_>) -> BeforeTrials {
    let changes = against.changes().into_iter();
    changes.map(|change| ((change.spec, change.trial), change.before)).collect()
}

impl<'a> SpecData<'a> {
    /// Returns a spec that did not run, or trials without one.
    pub(super) fn of_rows(
        id: &'a str,
        fate: &'static str,
        reason: Option<&'a str>,
        rows: Vec<Row<'a>>,
    ) -> Self {
        Self {
            id,
            place: 0,
            about: None,
            source: None,
            fate,
            reason,
            sentence: None,
            faulty: None,
            diverges: None,
            notes: Vec::new(),
            rows,
        }
    }
}

impl<'a> Row<'a> {
    /// Returns a trial that has no record.
    pub(super) fn without_record(name: &'a str, status: &'static str, line: Option<&'a str>) -> Self {
        Self {
            name,
            status,
            class: None,
            line,
            level: None,
            stage: None,
            numbers: Numbers::default(),
            local_used: None,
            local_relative: None,
            tensor: None,
            gate: None,
            tap: None,
            before: None,
            detail: None,
        }
    }
}

/// The word of an outcome.
fn status(outcome: &TrialOutcome) -> &'static str {
    match outcome {
        TrialOutcome::Passed => "pass",
        TrialOutcome::NotGated(_) => "ungated",
        TrialOutcome::Approved(_) => "approved",
        TrialOutcome::New(_) => "new",
        TrialOutcome::Failed { .. } => "fail",
        TrialOutcome::Pending(_) => "pending",
    }
}

impl From<&Measured> for Numbers {
    fn from(measured: &Measured) -> Self {
        let Measured { outcome: _, used, floor, mean, std, millis, peak } = *measured;
        Self { used, floor, mean, std, millis, peak, ..Self::default() }
    }
}

fn difference(record: Option<&Record>) -> Option<&Difference> {
    record?.metrics.as_ref()?.difference.as_ref()
}

/// Returns the results of one spec.
pub(super) fn spec_data<'a>(
    account: &'a Account,
    target: &str,
    before: &BeforeTrials,
    texts: &mut Texts,
    budget: &mut DetailBudget,
) -> SpecData<'a> {
    let spec = &account.spec;
    let found = account.localisation();
    let faulty = match found {
        Some(Localisation::Culprit(culprit)) => Some(culprit.name.as_str()),
        _ => None,
    };
    // The first faulty stage gets its details even if the page is full before its turn.
    let mut details: HashMap<&str, Box<RowDetail<'a>>> = HashMap::new();
    let is_faulty = |trial: &&TrialResult| Some(trial.name.as_str()) == faulty;
    let (first, others): (Vec<&TrialResult>, Vec<&TrialResult>) = account.selected().partition(is_faulty);
    for trial in first.into_iter().chain(others) {
        if let Some(detail) = detail(account, trial, target, budget) {
            details.insert(&trial.name, detail);
        }
    }
    let local = account.local.as_deref();
    let rows: Vec<Row<'a>> = account
        .selected()
        .map(|trial| {
            let record = trial.record.as_deref();
            let checkpoint = spec.checkpoint(&trial.name);
            let (class, line) = match &trial.outcome {
                TrialOutcome::Failed { class, line, .. } => (Some(class.name()), Some(line.as_str())),
                TrialOutcome::New(line) | TrialOutcome::Pending(line) => (None, Some(line.as_str())),
                TrialOutcome::NotGated(class) => (class.map(|class| class.name()), None),
                TrialOutcome::Approved(by_eye) => (
                    record.and_then(|record| record.verdict.class).map(|class| class.name()),
                    Some(by_eye.reason.as_str()),
                ),
                TrialOutcome::Passed => (None, None),
            };
            let local = local.and_then(|local| local.trial(&trial.name)?.record.as_deref());
            let (own, on_golden) = (difference(record), difference(local));
            let tensor = record.and_then(|record| record.actual.as_ref());
            let is_of_ids = record.is_some_and(Record::is_of_ids);
            let before = before.get(&(spec.id.clone(), trial.name.clone()));
            Row {
                class,
                level: checkpoint.map(|checkpoint| checkpoint.level.into()),
                stage: checkpoint.and_then(|checkpoint| checkpoint.stage).map(|stage| stage.name()),
                numbers: Numbers {
                    relative: own.filter(|_| !is_of_ids).map(|own| own.relative_l2),
                    off: own.filter(|_| !is_of_ids).map(|own| own.max_abs),
                    ..Numbers::from(&Measured::of(trial))
                },
                local_used: on_golden.and_then(|own| own.used),
                local_relative: on_golden.filter(|_| !is_of_ids).map(|own| own.relative_l2),
                tensor: tensor.map(|tensor| texts.add(format!("{} {:?}", tensor.dtype, tensor.shape))),
                gate: record.and_then(|record| record.gate.as_ref()).map(|gate| texts.add(gate.text())),
                tap: record
                    .and_then(|record| record.location.as_ref())
                    .map(|place| texts.add(format!("{}:{}", place.file, place.line))),
                before: before
                    .map(|before| Before { status: status(&before.outcome), numbers: Numbers::from(before) }),
                detail: details.remove(trial.name.as_str()),
                ..Row::without_record(&trial.name, status(&trial.outcome), line)
            }
        })
        .collect();
    let is_checkpoint = |row: &Row<'_>| spec.checkpoint(row.name).is_some();
    SpecData {
        about: spec.about.as_deref(),
        source: spec.reference.as_ref().and_then(|reference| reference.source.as_deref()),
        sentence: sentence(account),
        faulty,
        diverges: rows.iter().position(|row| row.status == "fail").filter(|&at| is_checkpoint(&rows[at])),
        notes: notes(account),
        ..SpecData::of_rows(&spec.id, "ran", None, rows)
    }
}

/// Texts that rows share, each once.
#[derive(Default)]
pub(super) struct Texts {
    pub(super) list: Vec<String>,
    known: HashMap<String, usize>,
}

impl Texts {
    fn add(&mut self, text: String) -> usize {
        if let Some(&at) = self.known.get(&text) {
            return at;
        }
        self.list.push(text.clone());
        self.known.insert(text, self.list.len() - 1);
        self.list.len() - 1
    }
}
