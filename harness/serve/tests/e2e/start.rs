//! How the servers start, and what they refuse.

use std::process::Command;

use crate::project::Project;

const BINARY: &str = env!("CARGO_BIN_EXE_mlx-parity-serve");

/// Runs a command that ends by itself, and expects an error with these words.
#[track_caller]
fn is_refused(mut command: Command, words: &[&str]) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(output.stdout.is_empty(), "{:?}", output.stdout);
    for word in words {
        assert!(text.contains(word), "does not print `{word}`:\n{text}");
    }
}

#[test]
fn other_machines_are_not_served() {
    let project = Project::with_port("right");
    for (address, next) in [("0.0.0.0:8123", "use `127.0.0.1:8123`"), ("[::]:0", "use `127.0.0.1:0`")] {
        let words = ["is not an address of this machine alone", next];
        is_refused(project.xtask(&["debug", "--serve", address]), &words);
    }
    is_refused(
        project.xtask(&["debug", "--serve", "8000"]),
        &["`8000` is no address with a port", "127.0.0.1:8000"],
    );
}

#[test]
fn a_port_that_is_taken_and_a_spec_that_does_not_exist_are_named() {
    let project = Project::with_port("right");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    is_refused(
        project.xtask(&["debug", "--serve", &address]),
        &["cannot listen on", &address, "another port"],
    );
    let unknown = project.xtask(&["debug", "--serve", "127.0.0.1:0", "gated_mlp/blok"]);
    is_refused(unknown, &["did you mean `gated_mlp/block`?"]);
}

#[test]
fn outside_of_a_project_or_with_another_version_nothing_starts() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |arguments: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args(arguments).current_dir(folder.path()).env_remove("CARGO_MANIFEST_DIR");
        command
    };
    is_refused(serve(&["mcp"]), &["is not in a Cargo project"]);
    is_refused(serve(&["rest"]), &["is not in a Cargo project"]);
    let other = [r#"has version 99.9.9"#, "install the same version of both"];
    is_refused(serve(&["mcp", "--project", r#"{"version": "99.9.9"}"#]), &other);
    is_refused(serve(&["mcp", "--project", "{"]), &["`--project` is no description"]);
}

#[test]
fn a_client_that_speaks_no_mcp_is_told_so() {
    let project = Project::with_port("right");
    let mut command = project.xtask(&["mcp"]);
    command.stdin(std::process::Stdio::null());
    is_refused(command, &["did not open an MCP session"]);
}
