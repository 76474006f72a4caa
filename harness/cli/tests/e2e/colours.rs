//! Colours: who wants them gets them, and nobody else does.

use std::process::Command;

use crate::command::{BINARY, EMPTY_WORKSPACE};

const RED: &str = "\u{1b}[1;31merror\u{1b}[0m: ";

/// What `list` prints to stderr in a project without specs' root, which is an error.
fn printed(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Cargo.toml"), EMPTY_WORKSPACE).unwrap();
    let mut command = Command::new(BINARY);
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        command.env_remove(name);
    }
    command.args(["weights", "a/b"]).args(arguments).envs(variables.iter().copied());
    let output = command.current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_file_gets_no_colours_unless_they_are_forced() {
    let plain = printed(&[], &[]);
    assert!(plain.starts_with("error: ") && !plain.contains('\u{1b}'), "{plain:?}");
    for forced in [printed(&[], &[("CLICOLOR_FORCE", "1")]), printed(&["--color", "always"], &[])] {
        assert!(forced.starts_with(RED), "{forced:?}");
    }
    assert_eq!(printed(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]), plain);
    assert_eq!(printed(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), plain);
}

/// A terminal, played by `script`, gets colours unless the environment says otherwise.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_colours_unless_they_are_unwanted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Cargo.toml"), EMPTY_WORKSPACE).unwrap();
    let seen = |variables: &[(&str, &str)]| {
        let mut command = Command::new("script");
        command.args(["-qec", &format!("'{BINARY}' weights a/b"), "/dev/null"]).current_dir(folder.path());
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
            command.env_remove(name);
        }
        command.env("TERM", "xterm").envs(variables.iter().copied());
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("error"), "{text}");
        text.contains(RED)
    };
    assert!(seen(&[]));
    assert!(!seen(&[("NO_COLOR", "1")]));
    assert!(!seen(&[("CLICOLOR", "0")]));
    assert!(!seen(&[("TERM", "dumb")]));
}
