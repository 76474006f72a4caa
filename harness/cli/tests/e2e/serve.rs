//! How `mcp` and `debug --serve` find the program with the servers.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{BINARY, EMPTY_WORKSPACE, cargo_parity, check, ended, repository};

/// A copy of the commands in a folder where nothing else is, and a project.
fn alone() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Cargo.toml"), EMPTY_WORKSPACE).unwrap();
    let copy = folder.path().join("bin/cargo-parity");
    fs::create_dir(folder.path().join("bin")).unwrap();
    if fs::hard_link(BINARY, &copy).is_err() {
        fs::copy(BINARY, &copy).unwrap();
    }
    folder
}

/// The copy with these arguments. The path has only Cargo.
fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(folder.join("bin/cargo-parity"));
    command.args(arguments).current_dir(folder).env("PATH", "/usr/bin:/bin").env("CARGO", env!("CARGO"));
    command
}

#[test]
fn without_the_program_the_error_says_how_to_install_it() {
    let folder = alone();
    for arguments in [&["mcp"][..], &["debug", "--serve", "127.0.0.1:0"]] {
        let install = "cargo install --git https://github.com/mlx-parity/mlx-parity mlx-parity-serve";
        let words = ["the program `mlx-parity-serve` is neither beside", "nor on the path", install];
        check(command(folder.path(), arguments).output().unwrap(), 1, &words);
    }
}

#[test]
fn the_program_beside_the_commands_gets_the_project() {
    let folder = alone();
    let script = folder.path().join("bin/mlx-parity-serve");
    fs::write(&script, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 7\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, executable).unwrap();
    let (code, text) =
        ended(command(folder.path(), &["debug", "--serve", "127.0.0.1:0", "a/b"]).output().unwrap());
    // The program takes the place of the command, so its exit code is the command's.
    assert_eq!(code, 7, "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..6], ["rest", "--listen", "127.0.0.1:0", "--start", "a/b", "--project"]);
    let project: serde_json::Value = serde_json::from_str(lines[6]).unwrap();
    let (root, layout) = (folder.path().canonicalize().unwrap(), &project["layout"]);
    assert_eq!((layout["root"].as_str(), layout["specs"].as_str()), (root.to_str(), Some("parity-specs")));
    assert_eq!(project["program"], "cargo parity");
}

#[test]
fn a_server_takes_no_options_of_the_prompt() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Cargo.toml"), EMPTY_WORKSPACE).unwrap();
    let both = cargo_parity(folder.path(), &["debug", "--serve", "127.0.0.1:0", "--json"]).output().unwrap();
    check(both, 2, &["cannot be used with"]);
    let neither = cargo_parity(folder.path(), &["debug"]).output().unwrap();
    check(neither, 2, &["required", "<SPEC>"]);
}

/// What Cargo compiles for this package, one name per line.
fn compiled(package: &str) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--package", package, "--edges", "normal,build", "--prefix", "none"]);
    command.args(["--format", "{lib}", "--offline", "--locked"]).current_dir(repository());
    check(command.output().unwrap(), 0, &[])
}

#[test]
fn neither_an_xtask_nor_a_port_compiles_a_server() {
    let of_servers = ["axum", "hyper", "rmcp", "tokio"];
    let servers = compiled("mlx-parity-serve");
    for library in of_servers {
        assert!(servers.lines().any(|line| line == library), "{library}: {servers}");
    }
    for package in ["xtask", "mlx-parity-cli", "mlx-parity"] {
        let names = compiled(package);
        let found = names.lines().find(|line| of_servers.contains(line));
        assert_eq!(found, None, "{package}: {names}");
    }
}
