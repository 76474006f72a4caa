//! Tests of this repository's `cargo xtask`.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue reports where")]

use std::process::{Command, Output};

/// Runs a command from another folder, with the package's folder in the environment as Cargo sets it.
fn xtask(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PARITY_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"))
        .current_dir("/")
        .output()
        .unwrap()
}

#[test]
fn it_lists_the_specs_of_this_repository() {
    let output = xtask(&["list", "--names"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.lines().any(|line| line == "gated_mlp/block::norm"), "{text}");
}

#[test]
fn its_help_and_its_errors_name_cargo_xtask() {
    for arguments in [&["--help"][..], &["list", "--help"], &["weights", "--help"]] {
        let output = xtask(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("Usage: cargo xtask "), "{text}");
        assert!(!text.contains("cargo parity") && !text.contains("--manifest-path"), "{text}");
    }
    let output = xtask(&["weights", "gated_mlp/blok"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.ends_with("to do: see the specs with `cargo xtask list`\n"), "{text}");
}

/// For `cargo-parity`, Cargo passes `parity` as the first argument. Here it is the name of a command.
#[test]
fn parity_is_a_command() {
    let output = xtask(&["parity", "--help"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("Usage: cargo xtask parity"), "{text}");
}
