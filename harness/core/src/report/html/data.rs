//! The results as the page's script reads them.

use std::collections::HashMap;

use serde::Serialize;

use super::detail::{Budget, Detail, detail};
use crate::compare::Difference;
use crate::number;
use crate::record::Record;
use crate::report::ladder::notes;
use crate::report::localisation::sentence;
use crate::report::{environments, summary_line};
use crate::results::{
    Account, Against, Fate, Localisation, Measured, RunResults, Summary, TrialOutcome, TrialResult,
};
use crate::run_folder::Environment;

/// The whole page.
#[derive(Serialize)]
pub(super) struct Page<'a> {
    /// `green`, `red` or `incomplete`.
    verdict: &'static str,
    /// The counts in one line.
    line: String,
    counts: Counts,
    injected: bool,
    folder: String,
    started: &'a str,
    target: &'a str,
    version: &'static str,
    revision: Option<String>,
    environments: Vec<EnvironmentRows>,
    problems: Vec<Problem>,
    against: Option<AgainstRun<'a>>,
    /// Texts that many rows share: gates, and places of taps.
    texts: Vec<String>,
    specs: Vec<SpecData<'a>>,
    /// How many red rows have no details, since the page has a bounded size.
    without_details: usize,
}

#[derive(Serialize)]
struct Counts {
    declared: usize,
    passed: usize,
    failed: usize,
    ignored: usize,
    pending: usize,
    new: usize,
    not_gated: usize,
    approved: usize,
    specs: usize,
    not_run: usize,
}

/// An environment as pairs of label and value.
#[derive(Serialize, PartialEq)]
struct EnvironmentRows(Vec<(&'static str, String)>);

#[derive(Serialize)]
struct Problem {
    title: String,
    text: String,
}

#[derive(Serialize)]
struct AgainstRun<'a> {
    name: &'a str,
    revision: Option<String>,
    environments: Vec<String>,
    line: String,
    /// Trials that only the other run has.
    gone: Vec<String>,
}

#[derive(Serialize)]
struct SpecData<'a> {
    id: &'a str,
    /// The place in a pipeline, from its start.
    place: u8,
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
struct Row<'a> {
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
    detail: Option<Box<Detail<'a>>>,
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

/// Returns the results as the script reads them.
pub(super) fn page<'a>(run: &'a RunResults, against: Option<&'a Against<'a>>) -> Page<'a> {
    let summary = run.summary();
    let mut texts = Texts::default();
    let mut budget = Budget::default();
    let before = against.map(before).unwrap_or_default();
    let ran = run
        .specs
        .iter()
        .filter_map(|spec| {
            let (fate, reason) = match &spec.fate {
                Fate::Ran(account) => {
                    let data = spec_data(account, &run.target, &before, &mut texts, &mut budget);
                    return Some(SpecData { place: spec.place(), ..data });
                }
                Fate::Ignored(reason) => ("ignored", Some(reason.as_str())),
                Fate::Failed(problem) => ("failed", Some(problem.as_str())),
                Fate::NotRun => ("not_run", None),
                Fate::NotAsked => return None,
            };
            let status = if fate == "failed" { "fail" } else { fate };
            let rows = if fate == "not_run" { &[][..] } else { &spec.trials };
            let rows = rows.iter().map(|name| Row { line: reason, ..Row::plain(name, status) }).collect();
            Some(SpecData { fate, reason, rows, ..SpecData::plain(&spec.id) })
        })
        .collect::<Vec<_>>();
    let specs = ran.into_iter().chain(without_spec(run)).collect();
    Page {
        verdict: verdict(run, &summary),
        line: summary_line(&summary),
        counts: counts(&summary),
        injected: summary.injected,
        folder: run.folder.display().to_string(),
        started: &run.started,
        target: &run.target,
        version: env!("CARGO_PKG_VERSION"),
        revision: run.checkout.as_ref().map(ToString::to_string),
        environments: environment_rows(run),
        problems: problems(run),
        against: against.map(against_run),
        texts: texts.list,
        specs,
        without_details: budget.left_out,
    }
}

/// Trials that belong to no spec, so that the rows of the page are the trials that its counts count.
fn without_spec(run: &RunResults) -> Vec<SpecData<'_>> {
    let problem = |id, rows| SpecData { fate: "problem", rows, ..SpecData::plain(id) };
    let discovery = run.discovery.as_ref().map(|wrong| match wrong.first() {
        Some(first) => Row { line: Some(first), ..Row::plain("discovery", "fail") },
        None => Row::plain("discovery", "pass"),
    });
    // A smoke test that failed is one of the others.
    let smoke = run.smoke.filter(|passed| *passed).map(|_| Row::plain("smoke", "pass"));
    let others = run.others.iter().map(|text| Row { line: Some(text), ..Row::plain("suite", "fail") });
    let rows: Vec<Row<'_>> = smoke.into_iter().chain(discovery).chain(others).collect();
    let broken = run.broken.iter().map(|broken| {
        problem(&broken.id, vec![Row { line: Some(&broken.text), ..Row::plain("spec", "fail") }])
    });
    let suite = (!rows.is_empty()).then(|| problem("parity", rows));
    suite.into_iter().chain(broken).collect()
}

fn verdict(run: &RunResults, summary: &Summary) -> &'static str {
    let complete = summary.pending + summary.not_run == 0 && run.unended.is_empty();
    match (summary.failed, complete) {
        (1.., _) => "red",
        (0, false) => "incomplete",
        (0, true) => "green",
    }
}

fn counts(summary: &Summary) -> Counts {
    let Summary { passed, failed, ignored, pending, not_gated, approved, new, specs, not_run, .. } = *summary;
    let declared = passed + failed + ignored + pending + not_gated + approved + new;
    Counts { declared, passed, failed, ignored, pending, not_gated, approved, new, specs, not_run }
}

fn problems(run: &RunResults) -> Vec<Problem> {
    let problem = |title: &str, text: &str| Problem { title: title.to_owned(), text: text.to_owned() };
    let discovery = run.discovery.iter().flatten().map(|text| problem("specs and fixtures", text));
    let broken = run.broken.iter().map(|spec| problem(&format!("spec {}", spec.id), &spec.text));
    let others = run.others.iter().map(|text| problem("suite", text));
    let unended = run.unended.iter().map(|target| {
        problem(&format!("suite {target}"), "has not ended: it is still running or was killed")
    });
    discovery.chain(broken).chain(others).chain(unended).collect()
}

fn environment_rows(run: &RunResults) -> Vec<EnvironmentRows> {
    let mut found: Vec<EnvironmentRows> = Vec::new();
    for environment in run.accounts().filter_map(|account| account.data.environment()) {
        let rows = rows_of(environment);
        if !found.contains(&rows) {
            found.push(rows);
        }
    }
    found
}

fn rows_of(environment: &Environment) -> EnvironmentRows {
    let variables: Vec<String> =
        environment.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let build = if environment.optimised { "optimised" } else { "not optimised" };
    EnvironmentRows(vec![
        ("MLX", environment.mlx.clone()),
        ("device", environment.device.clone()),
        ("chip", format!("{}, {} cores", environment.chip, environment.cores)),
        ("system", format!("{} {} {}", environment.os, environment.os_version, environment.arch)),
        ("port", build.to_owned()),
        ("mlx-parity", environment.mlx_parity.clone()),
        ("variables", variables.join(" ")),
    ])
}

fn against_run<'a>(against: &Against<'a>) -> AgainstRun<'a> {
    AgainstRun {
        name: against.name,
        revision: against.before.checkout.as_ref().map(ToString::to_string),
        environments: environments(against.before),
        line: summary_line(&against.before.summary()),
        gone: against.only_in_one().0,
    }
}

type BeforeTrials = HashMap<(String, String), Measured>;

fn before(against: &Against<'_>) -> BeforeTrials {
    let changes = against.changes().into_iter();
    changes.map(|change| ((change.spec, change.trial), change.before)).collect()
}

impl<'a> SpecData<'a> {
    fn plain(id: &'a str) -> Self {
        Self {
            id,
            place: 0,
            about: None,
            source: None,
            fate: "ran",
            reason: None,
            sentence: None,
            faulty: None,
            diverges: None,
            notes: Vec::new(),
            rows: Vec::new(),
        }
    }
}

impl<'a> Row<'a> {
    fn plain(name: &'a str, status: &'static str) -> Self {
        Self {
            name,
            status,
            class: None,
            line: None,
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

fn spec_data<'a>(
    account: &'a Account,
    target: &str,
    before: &BeforeTrials,
    texts: &mut Texts,
    budget: &mut Budget,
) -> SpecData<'a> {
    let spec = &account.spec;
    let found = account.localisation();
    let faulty = match found {
        Some(Localisation::Culprit(culprit)) => Some(culprit.name.as_str()),
        _ => None,
    };
    // The first faulty stage gets its details even if the page is full before its turn.
    let mut details: HashMap<&str, Box<Detail<'a>>> = HashMap::new();
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
            let before = before.get(&(spec.id.clone(), trial.name.clone()));
            Row {
                class,
                line,
                level: checkpoint.map(|checkpoint| checkpoint.level.into()),
                stage: checkpoint.and_then(|checkpoint| checkpoint.stage).map(|stage| stage.name()),
                numbers: Numbers {
                    relative: own.map(|own| own.relative_l2),
                    off: own.map(|own| own.max_abs),
                    ..Numbers::from(&Measured::of(trial))
                },
                local_used: on_golden.and_then(|own| own.used),
                local_relative: on_golden.map(|own| own.relative_l2),
                tensor: tensor.map(|tensor| texts.add(format!("{} {:?}", tensor.dtype, tensor.shape))),
                gate: record.and_then(|record| record.gate.as_ref()).map(|gate| texts.add(gate.text())),
                tap: record
                    .and_then(|record| record.location.as_ref())
                    .map(|place| texts.add(format!("{}:{}", place.file, place.line))),
                before: before
                    .map(|before| Before { status: status(&before.outcome), numbers: Numbers::from(before) }),
                detail: details.remove(trial.name.as_str()),
                ..Row::plain(&trial.name, status(&trial.outcome))
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
        rows,
        ..SpecData::plain(&spec.id)
    }
}

/// Texts that rows share, each once.
#[derive(Default)]
struct Texts {
    list: Vec<String>,
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
