//! The help of every command, to the letter: a change of wording is seen in review.

use std::process::Command;

use crate::command::{BINARY, check};

const COMMANDS: [&str; 27] = [
    "tutorial",
    "init",
    "setup",
    "test",
    "parity",
    "report",
    "accept",
    "show",
    "bisect",
    "diagnose",
    "fault-bench",
    "debug",
    "shapes",
    "mutate",
    "diff",
    "regenerate-fixtures",
    "doctor",
    "new-spec",
    "check-macos",
    "lint",
    "list",
    "weights",
    "fixtures",
    "status",
    "mcp",
    "skill",
    "clean",
];

/// The help that these arguments print, outside of any project.
#[track_caller]
fn help(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(BINARY);
    command.args(arguments).env_remove("COLUMNS").env_remove("CLICOLOR_FORCE").current_dir(folder.path());
    check(command.output().unwrap(), 0, &["Usage: cargo parity ", "Example"])
}

#[test]
fn every_command_has_help_with_examples() {
    let all = help(&["--help"]);
    insta::assert_snapshot!("all", all);
    let list = all.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let listed: Vec<&str> = list
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(listed, COMMANDS);
    for command in COMMANDS {
        // As Cargo starts it: `cargo-parity parity parity` is the command `parity`.
        let text = help(&["parity", command, "--help"]);
        assert!(!text.contains("xtask"), "{text}");
        insta::assert_snapshot!(command, text);
    }
}

/// Cargo runs `cargo parity list` as `cargo-parity parity list`.
#[test]
fn cargo_and_a_person_start_the_same() {
    assert_eq!(help(&["parity", "--help"]), help(&["--help"]));
    assert_eq!(help(&["parity", "list", "--help"]), help(&["list", "--help"]));
    assert_eq!(help(&["parity", "parity", "--help"]), help(&["run", "--help"]));
    let output = Command::new(BINARY).arg("parity").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: cargo parity"), "{output:?}");
}

#[test]
fn a_misspelt_command_is_answered_with_the_right_one() {
    let output = Command::new(BINARY).args(["parity", "lits"]).output().unwrap();
    check(output, 2, &["unrecognized subcommand 'lits'", "'list'", "Usage: cargo parity"]);
}
