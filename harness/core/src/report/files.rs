//! The report files of a run, for people and for programs: `report.txt`, `report.html`, `junit.xml`, `trials.jsonl`.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use super::html::html;
use super::junit::junit;
use super::{Detail, environments, failures, run_text, summary_line};
use crate::compare::{Choices, TimesFloor};
use crate::files::atomic::write_atomically;
use crate::gate::Class;
use crate::number;
use crate::record::{Location, Record};
use crate::results::{Against, Fate, RunResults, TrialOutcome, TrialResult};
use crate::text::printable::clean_lines;

/// Why a report could not be written.
#[derive(Debug, Error)]
pub enum ReportError {
    /// A file could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The results could not be written as JUnit XML.
    #[error("cannot write JUnit")]
    Junit(#[from] quick_junit::SerializeError),
    /// The results could not be written as JSON lines.
    #[error("cannot write `trials.jsonl`")]
    Json(#[from] serde_json::Error),
    /// The results could not be written as HTML.
    #[error("cannot write `report.html`")]
    Html(#[source] serde_json::Error),
}

/// Writes every report of `run` into `folder`, and replaces older reports.
///
/// # Errors
/// When a report cannot be written.
pub fn write_reports(folder: &Path, run: &RunResults) -> Result<(), ReportError> {
    let mut text = run_text(run, Detail::All, false) + &failures(run);
    environments(run).iter().for_each(|line| text.push_str(&format!("{line}\n")));
    text.push_str(&format!("{}\n", summary_line(&run.summary())));
    let text = clean_lines(&text).into_owned();
    let files = [
        ("report.txt", text),
        ("report.html", html(run, None).map_err(ReportError::Html)?),
        ("junit.xml", junit(run)?),
        ("trials.jsonl", trials(run)?),
    ];
    files.into_iter().try_for_each(|(name, content)| write(folder.join(name), &content))
}

/// Writes the HTML report of `run` to `path`, with a column against another run if one is given.
///
/// # Errors
/// When the file cannot be written.
pub fn write_html(path: &Path, run: &RunResults, against: Option<&Against<'_>>) -> Result<(), ReportError> {
    write(path.to_owned(), &html(run, against).map_err(ReportError::Html)?)
}

fn write(path: PathBuf, content: &str) -> Result<(), ReportError> {
    write_atomically(&path, |out| out.write_all(content.as_bytes()))
        .map_err(|source| ReportError::Write { path, source })
}

/// One line of `trials.jsonl`: how one trial ended, with or without a record.
#[derive(Default, Serialize)]
struct TrialsLine<'a> {
    spec: &'a str,
    trial: &'a str,
    /// `pass`, `fail`, `ignored`, `ungated`, `approved`, `new` or `pending`.
    status: &'static str,
    class: Option<Class>,
    /// Why the trial did not pass, or why a person approved its picture.
    detail: Option<&'a str>,
    /// Milliseconds of a warm run, when timed.
    warm_millis: Option<f64>,
    /// This field and those below come from the deciding record in the spec's `records.jsonl`.
    hit: Option<u64>,
    sequence: Option<u64>,
    #[serde(serialize_with = "number::option::serialize")]
    used: Option<f64>,
    times_floor: Option<&'a TimesFloor>,
    #[serde(serialize_with = "number::option::serialize")]
    max_abs: Option<f64>,
    #[serde(serialize_with = "number::option::serialize")]
    range_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<&'a Choices>,
    location: Option<&'a Location>,
}

impl<'a> TrialsLine<'a> {
    fn with(self, record: Option<&'a Record>) -> Self {
        let Some(record) = record else { return self };
        let difference = record.metrics.as_ref().and_then(|metrics| metrics.difference.as_ref());
        Self {
            hit: Some(record.hit),
            sequence: Some(record.sequence),
            used: difference.and_then(|difference| difference.used),
            times_floor: difference.and_then(|difference| difference.times_floor.as_ref()),
            max_abs: difference.filter(|_| !record.is_of_ids()).map(|difference| difference.max_abs),
            range_ratio: difference.filter(|_| !record.is_of_ids()).map(|difference| difference.range_ratio),
            choices: record.metrics.as_ref().and_then(|metrics| metrics.choices.as_ref()),
            location: record.location.as_ref(),
            ..self
        }
    }
}

fn trials(run: &RunResults) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    let mut write = |line: &TrialsLine<'_>| -> Result<(), serde_json::Error> {
        text.push_str(&serde_json::to_string(line)?);
        text.push('\n');
        Ok(())
    };
    let whole = |spec, trial, status| TrialsLine { spec, trial, status, ..TrialsLine::default() };
    if let Some(passed) = run.smoke {
        write(&whole("parity", "smoke", if passed { "pass" } else { "fail" }))?;
    }
    if let Some(wrong) = &run.discovery {
        let (text, class) = (wrong.join("\n"), Some(Class::Spec));
        let line = whole("parity", "discovery", if wrong.is_empty() { "pass" } else { "fail" });
        write(&match wrong.is_empty() {
            true => line,
            false => TrialsLine { class, detail: Some(&text), ..line },
        })?;
    }
    for error in &run.broken {
        let line = whole(&error.id, "spec", "fail");
        write(&TrialsLine { class: Some(Class::Spec), detail: Some(&error.text), ..line })?;
    }
    for spec in &run.specs {
        let names = &spec.trials;
        let line = |trial, status| {
            let spec = spec.id.as_str();
            TrialsLine { spec, trial, status, ..TrialsLine::default() }
        };
        match &spec.fate {
            Fate::Ran(account) => {
                for trial in account.selected() {
                    let (status, class, detail) = match &trial.outcome {
                        TrialOutcome::Passed => ("pass", None, None),
                        TrialOutcome::NotGated(class) => ("ungated", *class, None),
                        TrialOutcome::Approved(by_eye) => {
                            ("approved", record_class(trial), Some(by_eye.reason.as_str()))
                        }
                        TrialOutcome::New(line) => ("new", None, Some(line.as_str())),
                        TrialOutcome::Failed { class, line, .. } => {
                            ("fail", Some(*class), Some(line.as_str()))
                        }
                        TrialOutcome::Pending(line) => ("pending", None, Some(line.as_str())),
                    };
                    let line = line(trial.name.as_str(), status).with(trial.record.as_deref());
                    write(&TrialsLine { class, detail, warm_millis: trial.warm_millis, ..line })?;
                }
            }
            Fate::Ignored(reason) => {
                for name in names {
                    write(&TrialsLine { detail: Some(reason), ..line(name, "ignored") })?;
                }
            }
            Fate::Failed(problem) => {
                for name in names {
                    let class = Some(Class::Crash);
                    write(&TrialsLine { class, detail: Some(problem), ..line(name, "fail") })?;
                }
            }
            Fate::NotRun | Fate::NotAsked => {}
        }
    }
    Ok(text)
}

/// The class of the record that decided.
fn record_class(trial: &TrialResult) -> Option<Class> {
    trial.record.as_ref().and_then(|record| record.verdict.class)
}
