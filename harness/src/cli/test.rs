//! `cargo xtask test`: everything that can be tested here, from a fresh clone on.

use std::process::ExitCode;

use super::cargo::{cargo, status};
use super::{CliError, Project, python, setup};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask test                    every test\n  \
    cargo xtask test -- --list          arguments after -- go to the test binaries; the exporter's tests are left out")]
pub(crate) struct Arguments {
    /// Arguments for the test binaries
    #[arg(last = true)]
    cargo: Vec<String>,
}

/// Sets up, then runs `cargo test --workspace` and the exporter's tests; both run even if the first fails.
pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    setup::ensure(project)?;
    let tests = status(
        cargo(project.root())
            .args(["test", "--workspace", "--no-fail-fast"])
            .args((!arguments.cargo.is_empty()).then_some("--"))
            .args(&arguments.cargo),
    )?;
    let exporter = match project.exporter_folder() {
        Some(folder) if arguments.cargo.is_empty() => python::test(project, folder)?,
        _ => true,
    };
    Ok(if tests.success() && exporter { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
