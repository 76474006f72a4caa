//! Cargo as a child process.

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

use thiserror::Error;

/// Why Cargo could not be run.
#[derive(Debug, Error)]
#[error("cannot start `{program}`")]
pub(crate) struct CargoError {
    program: String,
    source: io::Error,
}

impl crate::error::CommandError for CargoError {
    fn next(&self) -> Option<String> {
        None
    }
}

/// Returns a command that runs Cargo in `folder`, from which Cargo looks upwards for its configuration.
///
/// It is the Cargo that started this process (`CARGO`), or else the first on the path.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    // `cargo run` set these for this process. If they were passed on, build scripts would see other values and rebuild.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs `command` to its end, with this process's output, and returns how it ended.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus, CargoError> {
    command.status().map_err(|source| CargoError {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })
}
