//! Cargo as a child process, always in the project's root: Cargo reads its configuration from there upwards.

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

/// Cargo, as the one that started us names itself, with `root` as its current folder.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // `cargo run` set these for us; passed on, they make build scripts see other values and rebuild.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs `command` to its end with our own output.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus, CargoError> {
    command.status().map_err(|source| CargoError {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })
}
