//! `cargo xtask report`: tells a run from its folder, whoever ran it: `cargo test`, nextest, or a run that was cut short.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;

use super::parity::{collect, finish};
use super::{CliError, Project, say};
use crate::near::did_you_mean;
use crate::report::{Fate, trial_text};
use crate::run::Out;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo nextest run; cargo xtask report     what nextest ran, spec by spec\n  \
    cargo xtask report --failures             with the text of every failing test\n  \
    cargo xtask report 20261116T044352647Z-12751\n\n\
    Writes report.txt, junit.xml and trials.jsonl into the run's folder. Exits with 1 when the run is red,\n\
    still goes on, was interrupted, or left out specs, 0 otherwise.")]
pub(crate) struct Arguments {
    /// The run, a folder in target/parity/runs; the newest unless told
    run: Option<String>,
    /// Also what each failing test says
    #[arg(long)]
    failures: bool,
}

/// Why there is nothing to tell.
#[derive(Debug, Error)]
pub(crate) enum RunsError {
    #[error("there is no run `{run}` in `{runs}`{near}")]
    NoRun { run: String, runs: PathBuf, near: String },
    #[error("nothing has been run yet: `{runs}` is not there")]
    NoRuns { runs: PathBuf },
    #[error("the run in `{run}` holds none of the specs")]
    Empty { run: PathBuf },
}

impl RunsError {
    pub(crate) fn next(&self) -> String {
        "run the suite with `cargo xtask parity`, `cargo test` or `cargo nextest run`".into()
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let run = find(project, arguments.run.as_deref())?;
    let collected = collect(project, &run, None);
    if collected.is_empty() {
        return Err(RunsError::Empty { run }.into());
    }
    say(&collected.ladders(false, io::stdout().is_terminal()));
    if arguments.failures {
        for (spec, fate) in &collected.specs {
            if let Fate::Ran(account) = fate {
                for ending in &account.endings {
                    let text = trial_text(spec, account, ending, project.suite_target());
                    say(&if text.is_empty() { text } else { text + "\n" });
                }
            }
        }
    }
    finish(project, &run, &collected)?;
    let summary = collected.summary();
    Ok(if summary.failed + summary.not_run + summary.pending == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The folder of the run with that name, or of the newest.
pub(super) fn find(project: &Project, name: Option<&str>) -> Result<PathBuf, RunsError> {
    let runs = Out::of(project.root()).path().join("runs");
    let name = name.unwrap_or("latest");
    let plain = !name.is_empty() && !name.contains(['/', '\\']) && name != "." && name != "..";
    if let Some(run) = plain.then(|| runs.join(name)).and_then(|run| run.canonicalize().ok()) {
        return Ok(run);
    }
    let entries = match std::fs::read_dir(&runs) {
        Ok(entries) => entries,
        Err(_) => return Err(RunsError::NoRuns { runs }),
    };
    let known: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let near = did_you_mean(name, known.iter().map(String::as_str));
    Err(RunsError::NoRun { run: name.to_owned(), runs, near })
}
