//! The files that a run leaves for people and for other programs: `report.txt`, `junit.xml`, `trials.jsonl`.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use super::collect::{Collected, Fate};
use super::junit::junit;
use crate::Class;
use crate::atomic::write_atomically;
use crate::compare::{TimesFloor, number};
use crate::printable::clean_lines;
use crate::record::{Location, Record};
use crate::run::Verdict;

/// Why a report could not be written.
#[derive(Debug, Error)]
pub(crate) enum ReportError {
    #[error("cannot write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot write JUnit")]
    Junit(#[from] quick_junit::SerializeError),
    #[error("cannot write `trials.jsonl`")]
    Json(#[from] serde_json::Error),
}

/// Writes every report of `run` into its folder, each in place of an older one; `target` is the suite's test target.
pub(crate) fn write_reports(folder: &Path, run: &Collected, target: &str) -> Result<(), ReportError> {
    let mut text = run.ladders(false, false);
    run.environments().iter().for_each(|line| text.push_str(&format!("{line}\n")));
    text.push_str(&format!("{}\n", run.summary()));
    let text = clean_lines(&text).into_owned();
    for (name, content) in
        [("report.txt", text), ("junit.xml", junit(run, target)?), ("trials.jsonl", trials(run)?)]
    {
        let path = folder.join(name);
        write_atomically(&path, |out| out.write_all(content.as_bytes()))
            .map_err(|source| ReportError::Write { path, source })?;
    }
    Ok(())
}

/// One line of `trials.jsonl`: how one trial ended, also one that has no record.
#[derive(Default, Serialize)]
struct TrialLine<'a> {
    spec: &'a str,
    trial: &'a str,
    /// `pass`, `fail`, `ignored`, `ungated` or `pending`.
    status: &'static str,
    class: Option<Class>,
    /// Why, where it did not pass.
    detail: Option<&'a str>,
    /// Milliseconds of a warm run, when timed.
    warm_millis: Option<f64>,
    /// The rest is from the record that decided, which is in the spec's `records.jsonl`.
    hit: Option<u64>,
    sequence: Option<u64>,
    #[serde(serialize_with = "number::option::serialize")]
    used: Option<f64>,
    times_floor: Option<&'a TimesFloor>,
    #[serde(serialize_with = "number::option::serialize")]
    max_abs: Option<f64>,
    #[serde(serialize_with = "number::option::serialize")]
    range_ratio: Option<f64>,
    location: Option<&'a Location>,
}

impl<'a> TrialLine<'a> {
    fn with(self, record: Option<&'a Record>) -> Self {
        let Some(record) = record else { return self };
        let difference = record.metrics.as_ref().and_then(|metrics| metrics.difference.as_ref());
        Self {
            hit: Some(record.hit),
            sequence: Some(record.sequence),
            used: difference.and_then(|difference| difference.used),
            times_floor: difference.and_then(|difference| difference.times_floor.as_ref()),
            max_abs: difference.map(|difference| difference.max_abs),
            range_ratio: difference.map(|difference| difference.range_ratio),
            location: record.location.as_ref(),
            ..self
        }
    }
}

fn trials(run: &Collected) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    let mut write = |line: &TrialLine<'_>| -> Result<(), serde_json::Error> {
        text.push_str(&serde_json::to_string(line)?);
        text.push('\n');
        Ok(())
    };
    let whole = |spec, trial, status| TrialLine { spec, trial, status, ..TrialLine::default() };
    if let Some(wrong) = &run.discovery {
        let (text, class) = (wrong.join("\n"), Some(Class::Spec));
        let line = whole("parity", "discovery", if wrong.is_empty() { "pass" } else { "fail" });
        write(&match wrong.is_empty() {
            true => line,
            false => TrialLine { class, detail: Some(&text), ..line },
        })?;
    }
    for error in &run.broken {
        let text = error.to_string();
        let line = whole(&error.id, "spec", "fail");
        write(&TrialLine { class: Some(Class::Spec), detail: Some(&text), ..line })?;
    }
    for (spec, fate) in &run.specs {
        let names = run.trial_names(spec);
        let line = |trial, status| {
            let spec = spec.id.as_str();
            TrialLine { spec, trial, status, ..TrialLine::default() }
        };
        match fate {
            Fate::Ran(account) => {
                for ending in &account.endings {
                    let (status, class, detail) = match &ending.verdict {
                        Verdict::Passed => ("pass", None, None),
                        Verdict::NotGated(class) => ("ungated", *class, None),
                        Verdict::Failed { class, line, .. } => ("fail", Some(*class), Some(line.as_str())),
                        Verdict::Pending(line) => ("pending", None, Some(line.as_str())),
                    };
                    let line = line(ending.name.as_str(), status).with(ending.record.as_deref());
                    write(&TrialLine { class, detail, warm_millis: ending.warm_millis, ..line })?;
                }
            }
            Fate::Ignored(reason) => {
                for name in &names {
                    write(&TrialLine { detail: Some(reason), ..line(name, "ignored") })?;
                }
            }
            Fate::Failed(problem) => {
                for name in &names {
                    let class = Some(Class::Crash);
                    write(&TrialLine { class, detail: Some(problem), ..line(name, "fail") })?;
                }
            }
            Fate::NotRun => {}
        }
    }
    Ok(text)
}
