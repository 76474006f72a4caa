//! The command line: which commands exist, and what runs each of them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, value_parser};

use super::as_cargo_parity::AS_CARGO_PARITY;
use super::error::print_error;
use super::manifest::ManifestError;
use super::{
    CliError, Project, accept, bisect, check_macos, clean, debug, diagnose, diff, doctor, fault_bench,
    fixtures, guard, init, lint, list, mutate, new_spec, parity, refused, regenerate, report, script, serve,
    setup, shapes, show, skill, status, test, tutorial, weights,
};
use mlx_parity_core::settings;
use mlx_parity_core::text::printable::set_colours;
use mlx_parity_core::text::program::{PARITY, XTASK, set_program, with_program};

// Help and the advice of `CliError::next` name `cargo xtask`. Printing replaces it with the program that runs.
#[derive(Debug, Parser)]
#[command(
    about = "Proves that an mlx-rs port computes what its reference computes",
    after_help = "Examples:\n  \
        cargo xtask test            Set up what is missing, then run every test\n  \
        cargo xtask parity          Run the parity suite and show what is wrong, spec by spec\n  \
        cargo xtask parity mlp      Run only the checkpoints with `mlp` in their names\n  \
        cargo test --test parity    Run the same checkpoints as plain tests, once MLX is set up",
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// When to print colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Colours,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Colours {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Learn mlx-parity in eleven steps, in a small crate with a mistake to find
    Tutorial(tutorial::Arguments),
    /// Prepare a crate for parity tests: dependencies, the suite, policies, Python environments
    Init(init::Arguments),
    /// Prepare this machine: on Linux, build MLX's CPU backend; on macOS, check Xcode's tools and cmake
    Setup(setup::Arguments),
    /// Set up what is missing, then run every test of the workspace and of the exporter
    Test(test::Arguments),
    /// Run the parity suite, print one line per green spec and the first faulty stage of each red one, and write the reports
    #[command(visible_alias = "run")]
    Parity(parity::Arguments),
    /// Report a run from its folder: the newest run, or the one that you name
    Report(report::Arguments),
    /// Make the statistics of the last run's green ports their new snapshots
    Accept(accept::Arguments),
    /// Show one spec as a table, or one checkpoint with its values and expressions over them
    Show(show::Arguments),
    /// Find the first faulty stage of a spec
    Bisect(bisect::Arguments),
    /// Show the first faulty stage of each red spec and its cause, or list the kinds of causes and facts
    Diagnose(diagnose::Arguments),
    /// Run ports with known faults, and count how many are caught, placed and explained
    FaultBench(fault_bench::Arguments),
    /// Step through a port from checkpoint to checkpoint, with the golden at hand
    Debug(debug::Arguments),
    /// Check the shapes and dtypes of a spec without evaluating anything
    Shapes(shapes::Arguments),
    /// Change tensors at a spec's taps, one at a time, and show which checkpoints notice
    Mutate(mutate::Arguments),
    /// Compare two files or folders of tensors, pair by pair
    Diff(diff::Arguments),
    /// Run references and replace the fixtures that are missing, stale or broken
    RegenerateFixtures(regenerate::Arguments),
    /// Check this machine and checkout, and print how to fix problems
    Doctor(doctor::Arguments),
    /// Write a spec from a reference script, or a spec, a script and a port from a template
    NewSpec(new_spec::Arguments),
    /// Type-check the workspace for macOS, on Linux too
    CheckMacos(check_macos::Arguments),
    /// Check specs, policies, the schema and fixtures without running a port
    Lint(lint::Arguments),
    /// List the specs and checkpoints that a run would check
    List(list::Arguments),
    /// List the weights of a spec, and what the last run did with each
    Weights(weights::Arguments),
    /// List the fixture sets, describe one, or remove what no spec uses
    Fixtures(fixtures::Arguments),
    /// Show the progress of active runs
    Status(status::Arguments),
    /// Serve specs, runs and debug sessions to coding agents, over MCP
    Mcp(serve::McpArguments),
    /// Print or write a short text that teaches a coding agent how to work with mlx-parity
    Skill(skill::Arguments),
    /// Remove old runs, and what stopped commands left behind
    Clean(clean::Arguments),
    #[command(hide = true)]
    GenerateBindings(setup::BindingsArguments),
    #[command(hide = true)]
    RunScript(script::Arguments),
    #[command(hide = true)]
    Guard(guard::GuardArguments),
}

const MANIFEST_PATH: &str = "manifest-path";

/// Runs the program `cargo parity` and returns its exit code.
///
/// The project is the Cargo workspace around the current folder, or around `--manifest-path`. Its settings are in
/// `[workspace.metadata.parity]` or `[package.metadata.parity]` of its `Cargo.toml`, see the [crate's page](crate).
pub fn cargo_parity() -> ExitCode {
    run(PARITY, |matches| {
        let manifest_path = matches.get_one::<PathBuf>(MANIFEST_PATH).map(PathBuf::as_path);
        match Project::around(manifest_path) {
            // A diff compares any two files. It looks at the project only for a policy.
            Err(ManifestError::NoCargoProject { .. }) if matches.subcommand_name() == Some("diff") => {
                Ok(Project::without_manifest())
            }
            found => found,
        }
    })
}

impl Project {
    /// Runs the command in this process's arguments, as `cargo xtask`, and returns its exit code.
    pub fn main(self) -> ExitCode {
        if std::env::args_os().nth(1).is_some_and(|first| first == AS_CARGO_PARITY) {
            return cargo_parity();
        }
        run(XTASK, |_| Ok(self))
    }
}

/// Runs the command in this process's arguments as `program`, on the project that `find` returns.
fn run(program: &'static str, find: impl FnOnce(&ArgMatches) -> Result<Project, ManifestError>) -> ExitCode {
    set_program(program);
    let mut parser = parser(program);
    let parsed = parser
        .try_get_matches_from_mut(arguments(program, std::env::args_os()))
        .and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (Arguments { command, color }, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => error.format(&mut parser).exit(),
    };
    match color {
        Colours::Auto => {}
        Colours::Always => set_colours(true),
        Colours::Never => set_colours(false),
    }
    // For a diff, 1 means that tensors differ.
    let failure = if matches!(command, Command::Diff(_)) { ExitCode::from(2) } else { ExitCode::FAILURE };
    dispatch(command, || find(&matches)).unwrap_or_else(|error| {
        print_error(&error);
        failure
    })
}

fn dispatch(
    command: Command,
    find: impl FnOnce() -> Result<Project, ManifestError>,
) -> Result<ExitCode, CliError> {
    // These work on no project. Our own commands start the last three.
    let command = match command {
        Command::Tutorial(arguments) => return tutorial::run(&arguments),
        Command::GenerateBindings(arguments) => return setup::generate_bindings(&arguments),
        Command::RunScript(arguments) => return Ok(script::supervise(&arguments)),
        Command::Guard(arguments) => return Ok(guard::guard(&arguments)),
        command => command,
    };
    let mut project = find()?;
    project.take_refusal()?;
    // Doctor reports every setting that is wrong; any other command stops at the first.
    if !matches!(command, Command::Doctor(_)) {
        refused::settings(&project)?;
    }
    let project = &project;
    match command {
        Command::Init(arguments) => init::run(project, &arguments),
        Command::Setup(arguments) => setup::run(project, &arguments),
        Command::Test(arguments) => test::run(project, &arguments),
        Command::Parity(arguments) => parity::run(project, &arguments),
        Command::Report(arguments) => report::run(project, &arguments),
        Command::Accept(arguments) => accept::run(project, &arguments),
        Command::Show(arguments) => show::run(project, &arguments),
        Command::Debug(arguments) => debug::run(project, &arguments),
        Command::Shapes(arguments) => shapes::run(project, &arguments),
        Command::Bisect(arguments) => bisect::run(project, &arguments),
        Command::Diagnose(arguments) => diagnose::run(project, &arguments),
        Command::FaultBench(arguments) => fault_bench::run(project, &arguments),
        Command::Mutate(arguments) => mutate::run(project, &arguments),
        Command::Diff(arguments) => diff::run(project, &arguments),
        Command::RegenerateFixtures(arguments) => regenerate::run(project, &arguments),
        Command::Doctor(arguments) => doctor::run(project, &arguments),
        Command::NewSpec(arguments) => new_spec::run(project, &arguments),
        Command::CheckMacos(arguments) => check_macos::run(project, &arguments),
        Command::Lint(arguments) => lint::run(project, &arguments),
        Command::List(arguments) => list::run(project, &arguments),
        Command::Weights(arguments) => weights::run(project, &arguments),
        Command::Fixtures(arguments) => fixtures::run(project, &arguments),
        Command::Status(arguments) => status::run(project, &arguments),
        Command::Mcp(arguments) => serve::mcp(project, &arguments),
        Command::Skill(arguments) => skill::run(project, &arguments),
        Command::Clean(arguments) => clean::run(project, &arguments),
        Command::Tutorial(_) | Command::GenerateBindings(_) | Command::RunScript(_) | Command::Guard(_) => {
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the parser whose help and errors name `program`.
fn parser(program: &'static str) -> clap::Command {
    let command = named(Arguments::command(), program).name(program).bin_name(program);
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let settings = format!("{examples}\n\nSettings, as environment variables:\n{}", settings::help());
    let command = command.after_help(settings);
    if program != PARITY {
        return command;
    }
    // An xtask's project is the one that its `main` names.
    command.arg(
        Arg::new(MANIFEST_PATH)
            .long(MANIFEST_PATH)
            .global(true)
            .value_name("PATH")
            .value_parser(value_parser!(PathBuf))
            .help("Cargo.toml of the project [default: the nearest one, from the current folder upwards]"),
    )
}

/// Replaces the program that the help of a command and of its subcommands names.
fn named(command: clap::Command, program: &'static str) -> clap::Command {
    let command = command.mut_subcommands(|command| named(command, program));
    let Some(text) = command.get_after_help().map(ToString::to_string) else { return command };
    let lines: Vec<String> = text.lines().map(|line| named_line(line, program)).collect();
    command.after_help(lines.join("\n"))
}

/// Replaces the program in one line. A second column keeps its place.
fn named_line(line: &str, program: &str) -> String {
    let mut named = with_program(line, program);
    let start = named.len() - named.trim_start().len();
    if let Some(gap) = named[start..].find("   ").map(|gap| start + gap) {
        match line.len().checked_sub(named.len()) {
            Some(shorter) => named.insert_str(gap, &" ".repeat(shorter)),
            None => named.replace_range(gap..gap + (named.len() - line.len()).min(2), ""),
        }
    }
    named
}

/// Returns the arguments without the `parity` that Cargo puts in front of a subcommand's own, and without
/// [`AS_CARGO_PARITY`].
fn arguments(program: &str, given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.collect();
    if program == PARITY
        && arguments.get(1).is_some_and(|first| first == "parity" || first == AS_CARGO_PARITY)
    {
        arguments.remove(1);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_consistent() {
        for program in [PARITY, XTASK] {
            parser(program).debug_assert();
        }
    }

    #[test]
    fn columns_of_help_stay_in_place() {
        assert_eq!(named_line("  cargo xtask list    All", PARITY), "  cargo parity list   All");
        assert_eq!(named_line("  cargo test          All", PARITY), "  cargo test          All");
        assert_eq!(named_line("  cargo xtask list    All", XTASK), "  cargo xtask list    All");
        assert_eq!(named_line("  cargo xtask setup", PARITY), "  cargo parity setup");
    }

    #[track_caller]
    fn check_arguments(program: &str, given: &[&str], expected: &[&str]) {
        assert_eq!(arguments(program, given.iter().map(OsString::from)), expected);
    }

    #[test]
    fn the_word_that_cargo_adds_is_dropped_once() {
        check_arguments(PARITY, &["cargo-parity", "parity", "list"], &["cargo-parity", "list"]);
        check_arguments(PARITY, &["cargo-parity", "list"], &["cargo-parity", "list"]);
        check_arguments(
            PARITY,
            &["cargo-parity", "parity", "parity", "mlp"],
            &["cargo-parity", "parity", "mlp"],
        );
        check_arguments(XTASK, &["xtask", "parity", "mlp"], &["xtask", "parity", "mlp"]);
    }
}
