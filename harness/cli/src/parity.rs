//! `cargo xtask parity`: runs the suite, then prints the result of every spec.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use indicatif::ProgressBar;
use thiserror::Error;

use super::cargo::cargo;
use super::live::LiveLines;
use super::{CliError, Project, github, setup};
use crate::error::CommandError;
use mlx_parity_core::report::{
    Detail, ReportError, environments, failures, run_resources, run_text, summary_line, write_reports,
};
use mlx_parity_core::results::{ExpectedSpecs, Fate, RunResults};
use mlx_parity_core::run_folder::FolderError;
use mlx_parity_core::runs::{Going, Out, RunName};
use mlx_parity_core::settings::names::INVOCATION;
use mlx_parity_core::spec::RESERVED;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::printable::clean;
use mlx_parity_core::text::program::program;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask parity                    every spec, and what is wrong with the red ones\n  \
    cargo xtask parity --all              every checkpoint\n  \
    cargo xtask parity gated_mlp          only the trials with `gated_mlp` in their names\n  \
    PARITY_LEVEL=2 cargo xtask parity     the inner checkpoints too\n\n\
    Everything that was measured is in the run folder; `cargo xtask report` prints it again.\n\
    Exits with 1 when a trial fails, or when nothing ran.")]
pub(crate) struct Arguments {
    /// Run only the trials whose names contain this text
    filter: Option<String>,
    /// Print every checkpoint of every spec, and the text of each failing test
    #[arg(long)]
    all: bool,
    /// Build and run with optimisation
    #[arg(long)]
    release: bool,
}

/// Why a run could not be reported.
#[derive(Debug, Error)]
pub(crate) enum ParityError {
    #[error("cannot start Cargo")]
    Start { source: io::Error },
    #[error("no suite `{target}` ran, though Cargo reports success")]
    NoSuite { target: String },
    #[error("no trial has `{filter}` in its name")]
    NothingSelected { filter: String },
    #[error("nothing is proven: every trial with `{filter}` in its name is ignored")]
    NothingRan { filter: String },
    #[error("Cargo reports success, but the suite did not run {}", counted(*specs, "spec"))]
    NotRun { specs: usize },
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl CommandError for ParityError {
    fn next(&self) -> Option<String> {
        match self {
            Self::NothingSelected { .. } => {
                Some("see the names with `cargo test --test parity -- --list`; if it lists none, see `cargo xtask doctor`".into())
            }
            Self::NothingRan { .. } => Some("set PARITY_REQUIRE=all to fail specs that cannot run here".into()),
            Self::NoSuite { target } => Some(format!(
                "check that `harness = false` is set below `[[test]]` of `{target}` in Cargo.toml, and run `cargo xtask doctor`"
            )),
            Self::NotRun { .. } => Some("run `cargo test --test parity` and read its output".into()),
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
    let status = suite.run(project)?;
    let results = RunResults::read(&going.folder, ExpectedSpecs::Selected).map_err(ParityError::from)?;
    if results.target.is_empty() {
        // No suite wrote a plan. If the build failed, Cargo has printed why.
        return match status.success() {
            false => Ok(ExitCode::FAILURE),
            true => Err(ParityError::NoSuite { target: project.suite_target().to_owned() }.into()),
        };
    }
    print!("{}", run_text(&results, if arguments.all { Detail::All } else { Detail::Brief }, true));
    if arguments.all {
        print!("{}", failures(&results));
    }
    if let Some(line) = not_judged(&results) {
        println!("{line}");
    }
    finish(project, &going.folder, &results)?;
    if !status.success() {
        return Ok(ExitCode::FAILURE);
    }
    let summary = results.summary();
    match &arguments.filter {
        Some(filter) if results.is_empty() => {
            Err(ParityError::NothingSelected { filter: filter.clone() }.into())
        }
        Some(filter)
            if summary.passed + summary.failed + summary.not_gated + summary.approved + summary.new == 0 =>
        {
            Err(ParityError::NothingRan { filter: filter.clone() }.into())
        }
        _ if summary.not_run > 0 => Err(ParityError::NotRun { specs: summary.not_run }.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Writes the reports, then prints their folder and the counts.
pub(super) fn finish(project: &Project, run: &Path, results: &RunResults) -> Result<(), ParityError> {
    write_reports(run, results)?;
    environments(results).iter().for_each(|line| println!("{line}"));
    run_resources(results).iter().for_each(|line| println!("{line}"));
    let shown = run.strip_prefix(project.root()).unwrap_or(run);
    println!("report.txt, junit.xml, trials.jsonl, report.html and every record: {}", shown.display());
    let summary = results.summary();
    if summary.new > 0 && summary.failed + summary.pending == 0 {
        println!("if the new statistics are right, accept them with `{} accept`", program());
    }
    println!("{}", summary_line(&summary));
    github::publish(project, results);
    Ok(())
}

/// The trials about a whole spec that a filter left out, in specs that ran: nobody judged what they check.
fn not_judged(results: &RunResults) -> Option<String> {
    let ran = results.specs.iter().filter_map(|spec| match &spec.fate {
        Fate::Ran(account) => Some((spec, account)),
        _ => None,
    });
    let mut names = BTreeSet::new();
    for (spec, account) in ran {
        let judged = |name: &str| account.selected().any(|trial| trial.name == name);
        names.extend(
            RESERVED
                .into_iter()
                .filter(|name| spec.trials.iter().any(|trial| trial == name) && !judged(name)),
        );
    }
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    (results.not_selected > 0 && !names.is_empty())
        .then(|| format!("not selected, so not judged in these specs: {}", names.join(", ")))
}

/// One run of the suite under Cargo.
pub(super) struct SuiteRun<'a> {
    /// Only the trials with this in their names.
    pub(super) filter: Option<&'a str>,
    /// Whether to build with optimisation.
    pub(super) release: bool,
    /// Settings for the suite.
    pub(super) variables: &'a [(&'a str, &'a OsStr)],
    /// The run that the suite joins.
    pub(super) going: Option<&'a Going>,
}

impl SuiteRun<'_> {
    /// Runs the suite and waits for it. A terminal shows its progress meanwhile; the results are in the run folder.
    pub(super) fn run(&self, project: &Project) -> Result<ExitStatus, ParityError> {
        let start = |source| ParityError::Start { source };
        let out = Out::of(project.root());
        let mut command = suite_cargo(project, &out, self.release);
        command.args(self.filter);
        if let Some(going) = self.going {
            command.env("PARITY_RUN", going.folder.file_name().unwrap_or_default());
            command.env(INVOCATION, &going.owner);
        }
        command.envs(self.variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(start)?;
        let _lines = self.going.map(|going| LiveLines::of(out, going));
        if let Some(mut stdout) = child.stdout.take() {
            match self.going {
                // The run folder has the progress. What the suite prints is read so that it does not block.
                Some(_) => _ = io::copy(&mut stdout, &mut io::sink()).map_err(start)?,
                None => show_latest_line(stdout).map_err(start)?,
            }
        }
        child.wait().map_err(start)
    }
}

/// Returns the command with which Cargo builds and runs the suite. Arguments that are added to it are the suite's own.
pub(super) fn suite_cargo(project: &Project, out: &Out, release: bool) -> Command {
    let mut command = cargo(project.root());
    // `cargo xtask test` also builds the whole workspace. One package alone has other features and would be rebuilt.
    command.args(["test", "--workspace", "--test", project.suite_target()]);
    command.args(release.then_some("--release")).arg("--");
    // The root of the suite can differ from ours, and this command must find the run.
    command.env("PARITY_OUT", out.path()).env("PARITY_FIXTURES", project.fixture_root());
    command
}

/// Reads what a suite prints that makes no run; a terminal shows its latest line meanwhile.
fn show_latest_line(stdout: impl io::Read) -> io::Result<()> {
    // The bar starts with the first line: until then Cargo shows its own progress.
    let mut progress: Option<ProgressBar> = None;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        let progress = progress.get_or_insert_with(|| {
            let progress = ProgressBar::new_spinner();
            progress.enable_steady_tick(Duration::from_millis(100));
            progress
        });
        progress.set_message(clean(&line).into_owned());
    }
    progress.inspect(ProgressBar::finish_and_clear);
    Ok(())
}
