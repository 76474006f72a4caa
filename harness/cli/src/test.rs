//! The command `test`: sets up a fresh clone where that is needed, then runs every test.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use super::cargo::{cargo, status};
use super::{CliError, Project, python, say, setup};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask test                    Run every test\n  \
    cargo xtask test -- --list          Pass `--list` to the test binaries\n\n\
    Exits with 1 when a test fails.")]
pub(crate) struct Arguments {
    /// Arguments for the test binaries; if any, the exporter's tests are skipped
    #[arg(last = true, value_name = "ARGUMENTS")]
    cargo: Vec<String>,
}

/// Test threads per core: end-to-end tests wait for processes more than they compute.
const THREADS_PER_CORE: usize = 2;

/// PATH with the folder of the Python interpreter in front. `python3` may be the script of a version manager, which starts a
/// dozen processes before the interpreter, and the tests start Python some hundred times.
fn path_without_shims() -> Option<OsString> {
    let python = python::Python::find().ok()?.path();
    let folder = Path::new(&python).parent().filter(|folder| folder.is_absolute())?;
    let path = std::env::var_os("PATH")?;
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path))).ok()
}

/// Sets up, then runs `cargo test --workspace`, and the exporter's tests beside it. Both run to their end.
pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    setup::ensure(project)?;
    let mut command = cargo(project.root());
    command.args(["test", "--workspace", "--no-fail-fast"]);
    command.args((!arguments.cargo.is_empty()).then_some("--")).args(&arguments.cargo);
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env("RUST_TEST_THREADS", (THREADS_PER_CORE * cores).to_string());
    }
    if let Some(path) = path_without_shims() {
        command.env("PATH", path);
    }
    let folder = project.exporter_folder().filter(|_| arguments.cargo.is_empty());
    let (tests, exporter) = std::thread::scope(|scope| {
        let exporter = folder.map(|folder| scope.spawn(|| python::test(project, folder)));
        (status(&mut command), exporter.map(|exporter| exporter.join()))
    });
    let exporter = match exporter {
        None => true,
        Some(ended) => {
            let (text, passed) = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            say(&text);
            passed
        }
    };
    Ok(if tests?.success() && exporter { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
