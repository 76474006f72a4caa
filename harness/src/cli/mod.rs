//! Every command of `cargo xtask`, here and in a porter's own repository. Needs no MLX to build.
//!
//! A repository has them with an `xtask` crate whose `main` names its roots:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use mlx_parity::cli::Project;
//!
//! fn main() -> ExitCode {
//!     Project::new("..", "parity-specs", "fixtures").main()
//! }
//! ```

mod ask;
mod bisect;
mod cargo;
mod diagnose;
mod diff;
mod doctor;
mod fault_bench;
mod lint;
mod list;
mod mutate;
mod new_spec;
mod parity;
mod project;
mod python;
mod references;
mod refused;
mod regenerate;
mod report;
mod script;
mod setup;
mod steps;
mod suite_target;
mod test;
mod tighten;
mod weights;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use thiserror::Error;

pub use project::Project;

use crate::printable::{indented, paint};

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Proves that an mlx-rs port computes what its reference computes",
    after_help = "Examples:\n  \
        cargo xtask test            set up what is missing, then run every test\n  \
        cargo xtask parity          run the parity suite and read it checkpoint by checkpoint\n  \
        cargo xtask parity mlp      only the checkpoints with `mlp` in their names\n  \
        cargo test --test parity    the same checkpoints as plain tests, once set up",
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prepare this machine: on Linux, build MLX's CPU backend; on macOS, check Xcode's tools and cmake
    Setup(setup::Arguments),
    /// Set up what is missing, then run every test of the workspace and the exporter's own
    Test(test::Arguments),
    /// Run the parity suite, print each spec's ladder and the summary, write the reports
    Parity(parity::Arguments),
    /// Tell a run from its folder: the newest, or another; for nextest, and for runs that were cut short
    Report(report::Arguments),
    /// Find the first faulty stage of a spec
    Bisect(bisect::Arguments),
    /// Show the first faulty stage of each red spec and its cause, or list the kinds of causes and facts
    Diagnose(diagnose::Arguments),
    /// Plant known faults, and count how many are caught, placed and explained
    FaultBench(fault_bench::Arguments),
    /// Plant faults at a spec's taps, one at a time, and see which checkpoints notice
    Mutate(mutate::Arguments),
    /// Compare two files or folders of tensors, pair by pair
    Diff(diff::Arguments),
    /// Run references and replace the fixtures that are missing, stale or broken
    RegenerateFixtures(regenerate::Arguments),
    /// Say what this machine and checkout have and lack, and how to mend it
    Doctor(doctor::Arguments),
    /// Write a spec, its reference script and its port from a template, to be filled in
    NewSpec(new_spec::Arguments),
    /// Check specs, policies, the schema and fixtures without running anything; what a run or a change shows of gates
    Lint(lint::Arguments),
    /// Show what would run: as a tree, as names, as JSON
    List(list::Arguments),
    /// Show every weight of a spec, and what the last run did with it
    Weights(weights::Arguments),
    #[command(hide = true)]
    GenerateBindings(setup::BindingsArguments),
    #[command(hide = true)]
    RunScript(script::Arguments),
}

/// Why a command could not do its work. Each says what happened; [`CliError::next`] says what to do.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Refused(#[from] refused::RefusedError),
    #[error(transparent)]
    Setup(#[from] setup::SetupError),
    #[error(transparent)]
    Python(#[from] python::PythonError),
    #[error(transparent)]
    Cargo(#[from] cargo::CargoError),
    #[error(transparent)]
    Lint(#[from] lint::LintError),
    #[error(transparent)]
    Parity(#[from] parity::ParityError),
    #[error(transparent)]
    Report(#[from] report::RunsError),
    #[error(transparent)]
    Bisect(#[from] bisect::BisectError),
    #[error(transparent)]
    Diagnose(#[from] diagnose::DiagnoseError),
    #[error(transparent)]
    FaultBench(#[from] fault_bench::BenchError),
    #[error(transparent)]
    Mutate(#[from] mutate::MutateError),
    #[error(transparent)]
    Diff(#[from] diff::DiffError),
    #[error(transparent)]
    Regenerate(#[from] regenerate::RegenerateError),
    #[error(transparent)]
    NewSpec(#[from] new_spec::NewSpecError),
    #[error(transparent)]
    Weights(#[from] weights::WeightsError),
}

impl CliError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Refused(error) => error.next(),
            Self::Setup(error) => error.next(),
            Self::Python(error) => error.next(),
            Self::Cargo(_) | Self::Diff(_) => None,
            Self::Lint(error) => error.next(),
            Self::Parity(error) => error.next(),
            Self::Report(error) => Some(error.next()),
            Self::Bisect(error) => error.next(),
            Self::Diagnose(error) => error.next(),
            Self::FaultBench(error) => error.next(),
            Self::Mutate(error) => error.next(),
            Self::Regenerate(error) => error.next(),
            Self::NewSpec(error) => error.next(),
            Self::Weights(error) => error.next(),
        }
    }
}

/// Writes a result to stdout.
fn say(text: &str) {
    print!("{text}");
}

/// Runs the command in this process's arguments.
fn run(project: &Project) -> ExitCode {
    let command = Arguments::parse().command;
    let refused = match &command {
        // Our own commands run these, after everything was looked at.
        Command::GenerateBindings(_) | Command::RunScript(_) => Ok(()),
        // Doctor reports what is wrong with settings, one by one.
        Command::Doctor(_) => project.placed(),
        _ => project.placed().and_then(|()| refused::settings(project).map(drop)),
    };
    // For a diff, 1 is the answer that tensors differ.
    let failure = if matches!(command, Command::Diff(_)) { ExitCode::from(2) } else { ExitCode::FAILURE };
    let result = refused.map_err(CliError::from).and_then(|()| match command {
        Command::Setup(arguments) => setup::run(project, &arguments),
        Command::Test(arguments) => test::run(project, &arguments),
        Command::Parity(arguments) => parity::run(project, &arguments),
        Command::Report(arguments) => report::run(project, &arguments),
        Command::Bisect(arguments) => bisect::run(project, &arguments),
        Command::Diagnose(arguments) => diagnose::run(project, &arguments),
        Command::FaultBench(arguments) => fault_bench::run(project, &arguments),
        Command::Mutate(arguments) => mutate::run(project, &arguments),
        Command::Diff(arguments) => diff::run(project, &arguments),
        Command::RegenerateFixtures(arguments) => regenerate::run(project, &arguments),
        Command::Doctor(arguments) => doctor::run(project, &arguments),
        Command::NewSpec(arguments) => new_spec::run(project, &arguments),
        Command::Lint(arguments) => lint::run(project, &arguments),
        Command::List(arguments) => list::run(project, &arguments),
        Command::Weights(arguments) => weights::run(project, &arguments),
        Command::GenerateBindings(arguments) => setup::generate_bindings(&arguments),
        Command::RunScript(arguments) => Ok(script::supervise(&arguments)),
    });
    result.unwrap_or_else(|error| {
        let colour = std::io::stderr().is_terminal();
        let text = indented(&crate::report::error_chain(&error), 7);
        eprintln!("{}: {text}", paint(colour, "1;31", "error"));
        if let Some(next) = error.next() {
            eprintln!("{}: {}", paint(colour, "1", "to do"), indented(&next, 7));
        }
        failure
    })
}
