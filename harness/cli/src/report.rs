//! `cargo xtask report`: reports a run from its folder, whether `cargo test`, nextest or a command made it, and whether it
//! finished or was interrupted. It also reads a zipped run folder from another machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use thiserror::Error;

use super::parity::{ParityError, finish};
use super::zipped_run::{ZipError, unpack};
use super::{CliError, Project, say};
use crate::error::CommandError;
use mlx_parity_core::report::{environments, failures, ladders, summary_line};
use mlx_parity_core::results::{ExpectedSpecs, RunResults};
use mlx_parity_core::runs::Out;
use mlx_parity_core::text::suggest::did_you_mean;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo nextest run; cargo xtask report     the last nextest run, spec by spec\n  \
    cargo xtask report --failures             with the text of every failing test\n  \
    cargo xtask report 20261116T044352647Z-12751\n  \
    cargo xtask report run.zip                a zipped run folder, from any machine\n\n\
    Writes report.txt, junit.xml and trials.jsonl into the run folder; a zip file is only read.\n\
    Exits with 1 when the run is red, incomplete or still running, and with 0 otherwise.")]
pub(crate) struct Arguments {
    /// A folder in target/parity/runs, or the path of a run folder or zip file [default: newest]
    run: Option<String>,
    /// Also print the text of each failing test
    #[arg(long)]
    failures: bool,
}

/// Why a run cannot be reported.
#[derive(Debug, Error)]
pub(crate) enum RunsError {
    #[error("there is no run `{run}` in `{runs}`{near}")]
    NoRun { run: String, runs: PathBuf, near: String },
    #[error("nothing has been run yet: `{runs}` does not exist")]
    NoRuns { runs: PathBuf },
    #[error("the run in `{run}` has no results")]
    Empty { run: PathBuf },
    #[error(
        "`{run}` has no folder `suites`: it was made by an earlier version, killed before its first test, or is not a run folder"
    )]
    NoSuites { run: PathBuf },
    #[error(transparent)]
    Zip(#[from] ZipError),
}

impl CommandError for RunsError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Zip(_) => None,
            _ => Some("run the suite with `cargo xtask parity`, `cargo test` or `cargo nextest run`".into()),
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let run = find(project, arguments.run.as_deref())?;
    let results = RunResults::read(run.folder(), ExpectedSpecs::Everything).map_err(ParityError::from)?;
    if results.target.is_empty() {
        return Err(RunsError::NoSuites { run: run.named().to_owned() }.into());
    }
    if results.is_empty() {
        return Err(RunsError::Empty { run: run.named().to_owned() }.into());
    }
    say(&ladders(&results, false, true));
    if arguments.failures {
        say(&failures(&results));
    }
    match &run {
        FoundRun::Folder(folder) => finish(project, folder, &results)?,
        FoundRun::Zip { .. } => {
            environments(&results).iter().for_each(|line| say(&format!("{line}\n")));
            say(&format!("{}\n", summary_line(&results.summary())));
        }
    }
    let summary = results.summary();
    let complete = summary.not_run + summary.pending == 0 && results.unended.is_empty();
    Ok(if summary.failed == 0 && complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A run that was found.
pub(super) enum FoundRun {
    /// A run folder.
    Folder(PathBuf),
    /// A zipped run folder, unpacked until this value is dropped.
    Zip { file: PathBuf, folder: PathBuf, _unpacked: tempfile::TempDir },
}

impl FoundRun {
    /// The folder with the files of the run.
    pub(super) fn folder(&self) -> &Path {
        match self {
            Self::Folder(folder) | Self::Zip { folder, .. } => folder,
        }
    }

    /// The path that messages show.
    fn named(&self) -> &Path {
        match self {
            Self::Folder(folder) => folder,
            Self::Zip { file, .. } => file,
        }
    }
}

/// Finds the run with this name or path; `None` means the newest.
pub(super) fn find(project: &Project, name: Option<&str>) -> Result<FoundRun, RunsError> {
    let runs = Out::of(project.root()).path().join("runs");
    let name = name.unwrap_or("latest");
    let plain = !name.is_empty() && !name.contains(['/', '\\']) && name != "." && name != "..";
    if let Some(run) = plain.then(|| runs.join(name)).and_then(|run| run.canonicalize().ok()) {
        return Ok(FoundRun::Folder(run));
    }
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip")) && path.exists() {
        let (unpacked, folder) = unpack(path)?;
        return Ok(FoundRun::Zip { file: path.to_owned(), folder, _unpacked: unpacked });
    }
    if name.contains(['/', '\\']) && path.is_dir() {
        return Ok(FoundRun::Folder(path.to_owned()));
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
