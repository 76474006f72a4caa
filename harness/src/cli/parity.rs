//! `cargo xtask parity`: the main job. Runs the suite, then tells it checkpoint by checkpoint.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use indicatif::ProgressBar;
use thiserror::Error;

use super::cargo::cargo;
use super::{CliError, Project, setup};
use crate::report::{Collected, ReportError, Told, write_reports};
use crate::run::{FolderError, Going, INVOCATION, Out, RunName};
use crate::spec::list::counted;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask parity                    every spec\n  \
    cargo xtask parity gated_mlp          the trials with that in their names\n  \
    PARITY_LEVEL=2 cargo xtask parity     the inner checkpoints too")]
pub(crate) struct Arguments {
    /// Run only the trials that have this in their names
    filter: Option<String>,
    /// Build and run with optimisation
    #[arg(long)]
    release: bool,
}

/// Why a run could not be told.
#[derive(Debug, Error)]
pub(crate) enum ParityError {
    #[error("cannot start Cargo")]
    Start { source: io::Error },
    #[error("the suite left no run in `{run}`")]
    NoRun { run: PathBuf },
    #[error("no trial has `{filter}` in its name")]
    NothingSelected { filter: String },
    #[error("nothing is proven: every trial with `{filter}` in its name is ignored")]
    NothingRan { filter: String },
    #[error("Cargo reports success, but the suite did not run {}", counted(*specs, "spec"))]
    NotRun { specs: usize, target: String },
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl ParityError {
    pub(crate) fn next(&self) -> Option<String> {
        match self {
            Self::NothingSelected { .. } => {
                Some("see the names with `cargo test --test parity -- --list`; if it lists none, see `cargo xtask doctor`".into())
            }
            Self::NothingRan { .. } => Some("PARITY_REQUIRE=all makes what cannot run here fail".into()),
            Self::NotRun { target, .. } => Some(format!(
                "see that `harness = false` stands below `[[test]]` of `{target}` in Cargo.toml"
            )),
            Self::NoRun { .. } => Some("see what `cargo test --test parity` says".into()),
            _ => None,
        }
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    setup::ensure(project)?;
    let name = RunName::of_command(arguments.filter.is_some());
    let going = Out::of(project.root()).start(&name).map_err(ParityError::from)?;
    going.note.iter().for_each(|note| eprintln!("{note}"));
    let suite = SuiteRun {
        filter: arguments.filter.as_deref(),
        release: arguments.release,
        variables: &[],
        going: Some(&going),
    };
    let (status, said) = suite.run(project)?;
    if !status.success() && !said.contains("\ntest result: ") {
        // The build failed, which Cargo has told, or the suite did not get to its end.
        print!("{said}");
        return Ok(ExitCode::FAILURE);
    }
    let collected = collect(project, &going.folder, suite.filter);
    if status.success() && collected.is_empty() && collected.discovery.is_none() {
        return Err(match arguments.filter.clone() {
            Some(filter) => ParityError::NothingSelected { filter },
            None => ParityError::NoRun { run: going.folder },
        }
        .into());
    }
    print!("{}", collected.ladders(false, io::stdout().is_terminal()));
    if !status.success() {
        print!("{}", failures(&said));
    }
    finish(project, &going.folder, &collected)?;
    if !status.success() && collected.summary().failed == 0 {
        // What failed is no trial of a spec, such as a setting; the last line must not say otherwise.
        println!(
            "{}",
            said.lines().rev().find(|line| line.starts_with("parity: ")).unwrap_or("the suite failed")
        );
    }
    if !status.success() {
        return Ok(ExitCode::FAILURE);
    }
    let summary = collected.summary();
    match &arguments.filter {
        Some(filter) if summary.passed + summary.failed + summary.not_gated == 0 => {
            Err(ParityError::NothingRan { filter: filter.clone() }.into())
        }
        None if summary.not_run > 0 => {
            let target = project.suite_target().to_owned();
            Err(ParityError::NotRun { specs: summary.not_run, target }.into())
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// What the folder of a run says, under the settings that the environment has now. They were looked at before any command
/// began, so that what cannot be read here is not set.
pub(super) fn collect(project: &Project, run: &Path, filter: Option<&str>) -> Collected {
    let told = Told {
        level: std::env::var("PARITY_LEVEL").ok().and_then(|level| level.parse().ok()),
        filter,
        require_all: std::env::var("PARITY_REQUIRE").is_ok_and(|require| require == "all"),
        own_fixtures: project.has_own_fixtures(),
    };
    Collected::read(&project.spec_root(), &project.fixture_root(), run, &told)
}

/// Writes the reports, and ends with where they are and the counts.
pub(super) fn finish(project: &Project, run: &Path, collected: &Collected) -> Result<(), ParityError> {
    write_reports(run, collected, project.suite_target())?;
    collected.environments().iter().for_each(|line| println!("{line}"));
    let shown = run.strip_prefix(project.root()).unwrap_or(run);
    println!("report.txt, junit.xml, trials.jsonl and every record: {}", shown.display());
    println!("{}", collected.summary());
    Ok(())
}

/// One run of the suite under Cargo.
pub(super) struct SuiteRun<'a> {
    /// Only the trials with this in their names.
    pub(super) filter: Option<&'a str>,
    pub(super) release: bool,
    /// Settings for the suite.
    pub(super) variables: &'a [(&'a str, &'a OsStr)],
    /// The run that it is to take part in, if it is one.
    pub(super) going: Option<&'a Going>,
}

impl SuiteRun<'_> {
    /// Runs it, with its own lines kept for later and the last of them shown on a terminal meanwhile.
    pub(super) fn run(&self, project: &Project) -> Result<(ExitStatus, String), ParityError> {
        let start = |source| ParityError::Start { source };
        let mut command = cargo(project.root());
        // The whole workspace, as `cargo xtask test` has it: one package alone would be built with other features, anew.
        command.args(["test", "--workspace", "--test", project.suite_target()]);
        command.args(self.release.then_some("--release")).arg("--").args(self.filter);
        if let Some(going) = self.going {
            command.env("PARITY_RUN", going.folder.file_name().unwrap_or_default());
            command.env(INVOCATION, &going.owner);
        }
        // A suite may have another root than we have; the run must be where we look for it.
        let out = Out::of(project.root());
        command.env("PARITY_OUT", out.path()).env("PARITY_FIXTURES", project.fixture_root());
        command.envs(self.variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(start)?;
        let mut said = String::new();
        // Made with the first line: until then Cargo shows its own progress.
        let mut progress: Option<ProgressBar> = None;
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).split(b'\n') {
                let line = String::from_utf8_lossy(&line.map_err(start)?).into_owned();
                let progress = progress.get_or_insert_with(|| {
                    let progress = ProgressBar::new_spinner();
                    progress.enable_steady_tick(Duration::from_millis(100));
                    progress
                });
                progress.set_message(line.clone());
                said.push_str(&line);
                said.push('\n');
            }
        }
        progress.inspect(ProgressBar::finish_and_clear);
        Ok((child.wait().map_err(start)?, said))
    }
}

/// What libtest-mimic said of the failures, between its own two headings.
fn failures(said: &str) -> &str {
    let Some((_, rest)) = said.split_once("\nfailures:\n") else { return "" };
    rest.split_once("\n\nfailures:\n").map_or(rest, |(told, _)| told)
}
