//! How a person starts the commands, as messages name them.
//!
//! A process of the commands knows how it was started: as `cargo parity`, or through the `xtask` crate of a repository.
//! The suite was started by `cargo test`, so it names what the project has: `cargo xtask` where the root has a folder
//! `xtask`, else `cargo parity`.

use std::path::Path;
use std::sync::OnceLock;

/// The program that `cargo install` puts in place.
pub const PARITY: &str = "cargo parity";
/// A repository's own crate of commands.
pub const XTASK: &str = "cargo xtask";

/// `cargo parity parity` would stutter, so the command has a second name.
const PARITY_SUITE: &str = "cargo parity run";
const XTASK_SUITE: &str = "cargo xtask parity";

static PROGRAM: OnceLock<&'static str> = OnceLock::new();

/// Returns the words that start a command: `cargo parity` or `cargo xtask`.
pub fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or(XTASK)
}

/// Returns the command that runs the suite: `cargo xtask parity`, or `cargo parity run`.
pub fn suite_command() -> &'static str {
    if program() == PARITY { PARITY_SUITE } else { XTASK_SUITE }
}

/// Returns a text that names `cargo xtask` with `program` in its place.
pub fn with_program(text: &str, program: &str) -> String {
    match program {
        PARITY => text.replace(XTASK_SUITE, PARITY_SUITE).replace(XTASK, PARITY),
        _ => text.to_owned(),
    }
}

/// Sets what [`program`] returns in this process. The first call decides.
pub fn set_program(name: &'static str) {
    let _ = PROGRAM.set(name);
}

/// Returns the program that the project at `root` has.
pub fn program_of(root: &Path) -> &'static str {
    if root.join("xtask").is_dir() { XTASK } else { PARITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_with_an_xtask_folder_has_cargo_xtask() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(program_of(root.path()), PARITY);
        std::fs::create_dir(root.path().join("xtask")).unwrap();
        assert_eq!(program_of(root.path()), XTASK);
    }
}
