//! The command under test, how it ended, and what it printed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The binary of the commands.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_cargo-parity");

/// The manifest of a workspace without packages: enough for what runs no suite.
pub(crate) const EMPTY_WORKSPACE: &str = "[workspace]\n";

/// The same, with a folder for the Python package of the exporter.
pub(crate) const WITH_EXPORTER: &str =
    "[workspace]\n\n[workspace.metadata.parity]\nexporter = \"exporter\"\n";

/// The manifest of a package whose suite Cargo runs without libtest's harness. It needs a `tests/parity.rs`.
pub(crate) const CARGO_TOML: &str = "[package]\nname = \"p\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[[test]]\nname = \"parity\"\nharness = false\n\n[workspace]\n";

/// The gated MLP of this repository: its spec, the reference's script and the fixtures.
pub(crate) const GATED_MLP: [&str; 9] = [
    "parity-specs/policies.yaml",
    "parity-specs/schema.json",
    "parity-specs/gated_mlp/block.yaml",
    "exporter/references/gated_mlp_block.py",
    "fixtures/gated_mlp/block/manifest.json",
    "fixtures/gated_mlp/block/goldens.safetensors",
    "fixtures/gated_mlp/block/inputs.safetensors",
    "fixtures/gated_mlp/block/recipes.json",
    "fixtures/gated_mlp/block/weights.safetensors",
];

/// This repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Copies files of this repository to the same places below `root`.
pub(crate) fn copy_from_repository(files: &[&str], root: &Path) {
    for file in files {
        let copy = root.join(file);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(repository().join(file), copy).unwrap();
    }
}

/// The command in the project at `root`, without any setting of this process. The root must have a `Cargo.toml`.
pub(crate) fn cargo_parity(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("PARITY_") || name_text.contains("CLICOLOR") || name_text == "COLUMNS" {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null()).current_dir(root);
    command
}

/// The exit code, or -1 after a signal, and standard output followed by standard error.
pub(crate) fn ended(output: Output) -> (i32, String) {
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap_or(-1), text)
}

/// Expects the exit code and these words, and returns all that was printed.
#[track_caller]
pub(crate) fn check(output: Output, code: i32, words: &[&str]) -> String {
    let (found, text) = ended(output);
    assert_eq!(found, code, "{text}");
    prints(&text, words);
    text
}

/// Expects all of these words.
#[track_caller]
pub(crate) fn prints(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "does not print `{word}`:\n{text}");
    }
}

/// Runs a command that must end by itself; after a minute it is killed, and the test fails.
#[track_caller]
pub(crate) fn bounded(command: &mut Command) -> (i32, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        let in_time = started.elapsed() < Duration::from_secs(60);
        if !in_time {
            child.kill().unwrap();
        }
        assert!(in_time, "it hangs");
        std::thread::sleep(Duration::from_millis(10));
    }
    ended(child.wait_with_output().unwrap())
}
