//! Which project the program works on: the workspace around the current folder, with the settings of its manifest.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{cargo_parity, check};

const SPEC: &str = "version: 1\nport: p\ncheckpoints: [{name: x, shape: [2]}]\n";

/// A folder with these files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (file, text) in files {
            folder.write(file, text);
        }
        folder
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// `list --names` in a folder below this one.
    fn list(&self, below: &str) -> Command {
        cargo_parity(&self.0.path().join(below), &["list", "--names"])
    }

    /// Expects that every command fails with all of these words.
    #[track_caller]
    fn is_refused(&self, below: &str, words: &[&str]) {
        for arguments in [&["list"][..], &["doctor"], &["lint"], &["diff", "a", "b"]] {
            let output = cargo_parity(&self.0.path().join(below), arguments).output().unwrap();
            let code = if arguments[0] == "diff" { 2 } else { 1 };
            check(output, code, words);
        }
    }
}

/// A package with its specs in `checks/specs`, as its manifest's table says.
fn package(table: &str) -> Folder {
    let manifest = "[package]\nname = \"p\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n";
    Folder::with(&[
        ("Cargo.toml", &format!("{manifest}\n{table}")),
        ("src/lib.rs", ""),
        ("checks/specs/a/b.yaml", SPEC),
    ])
}

#[track_caller]
fn lists(output: std::process::Output) {
    let text = check(output, 0, &[]);
    assert_eq!(text, "a/b::x\n");
}

#[test]
fn without_settings_everything_has_its_default() {
    let folder = Folder::with(&[("Cargo.toml", "[workspace]\n"), ("parity-specs/a/b.yaml", SPEC)]);
    lists(folder.list("").output().unwrap());
}

#[test]
fn settings_are_in_the_table_of_the_workspace_or_of_its_package() {
    for kind in ["workspace", "package"] {
        let folder = package(&format!("[{kind}.metadata.parity]\nspecs = \"checks/specs\"\n"));
        lists(folder.list("").output().unwrap());
    }
    let table = "[workspace.metadata.parity]\nspecs = \"checks/specs\"\nfixtures = \"f\"\nsuite = \"s\"\n\
        exporter = \"e\"\nreferences = \"r\"\nsetup = false\n\
        fault_bench = { file = \"faults.yaml\", package = \"p\", binary = \"b\" }\n";
    let folder = package(table);
    lists(folder.list("").output().unwrap());
    // The suite is the one that the table names.
    let output = cargo_parity(folder.0.path(), &["lint"]).output().unwrap();
    check(
        output,
        1,
        &["no package of the workspace has a test target `s`", "`suite` in `[workspace.metadata.parity]`"],
    );
}

#[test]
fn a_subfolder_and_a_member_belong_to_the_workspace() {
    let folder = Folder::with(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n[workspace.metadata.parity]\nspecs = \"s\"\n"),
        ("crates/m/Cargo.toml", "[package]\nname = \"m\"\nversion = \"0.0.0\"\nedition = \"2024\"\n"),
        ("crates/m/src/deep/mod.rs", ""),
        ("crates/m/src/lib.rs", ""),
        ("s/a/b.yaml", SPEC),
    ]);
    for below in ["", "s/a", "crates", "crates/m", "crates/m/src/deep"] {
        lists(folder.list(below).output().unwrap());
    }
    let elsewhere = tempfile::tempdir().unwrap();
    for manifest in ["Cargo.toml", "crates/m/Cargo.toml"] {
        let mut command = cargo_parity(elsewhere.path(), &["list", "--names", "--manifest-path"]);
        lists(command.arg(folder.0.path().join(manifest)).output().unwrap());
    }
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn settings_that_nothing_would_read_are_errors() {
    let folder = package("[package.metadata.parity]\nspec = \"checks/specs\"\n");
    folder.is_refused(
        "",
        &[
            "Cargo.toml` has invalid settings",
            "unknown field `spec`, expected one of `specs`, `fixtures`, `suite`, `exporter`, `references`, `fault_bench`, `setup`",
            "line 9, column 1",
            "to do: correct the line",
        ],
    );
    package("[package.metadata.parity]\nsetup = \"no\"\n")
        .is_refused("", &["invalid type: string \"no\", expected a boolean"]);
    package("[package.metadata.parity]\nfault_bench = { file = \"x\" }\n")
        .is_refused("", &["missing field `package`"]);
    package("[package.metadata.parity]\n[workspace.metadata.parity]\n").is_refused(
        "",
        &["has both `[workspace.metadata.parity]` and `[package.metadata.parity]`", "to do: keep"],
    );
    let folder = Folder::with(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"m\"]\n"),
        (
            "m/Cargo.toml",
            "[package]\nname = \"m\"\nversion = \"0.0.0\"\n[package.metadata.parity]\nspecs = \"s\"\n",
        ),
        ("m/src/lib.rs", ""),
    ]);
    folder.is_refused(
        "m",
        &["m/Cargo.toml` has `[package.metadata.parity]`, but settings must be in the workspace's manifest `", "to do: move it"],
    );
}

#[test]
fn outside_of_a_cargo_project_there_is_one_clear_error() {
    let folder = Folder::with(&[("parity-specs/a/b.yaml", SPEC)]);
    for arguments in [&["list"][..], &["doctor"], &["setup"]] {
        let output = cargo_parity(folder.0.path(), arguments).output().unwrap();
        let text = check(
            output,
            1,
            &["is not in a Cargo project", "to do: run it inside a Cargo project", "--manifest-path"],
        );
        assert_eq!(text.lines().count(), 2, "{text}");
    }
    // A diff needs no project.
    let output = cargo_parity(folder.0.path(), &["diff", "a.npy", "b.npy"]).output().unwrap();
    check(output, 2, &["`a.npy` does not exist"]);
    let output = cargo_parity(folder.0.path(), &["list", "--manifest-path", "none.toml"]).output().unwrap();
    check(output, 1, &["Cargo cannot find the workspace of", "none.toml"]);
}

#[test]
fn a_manifest_that_cargo_refuses_is_quoted() {
    let folder = Folder::with(&[("Cargo.toml", "[workspace\n")]);
    folder.is_refused("", &["Cargo cannot find the workspace of", "unclosed table"]);
}

/// Cargo itself finds the program on the path, and runs it as its subcommand.
#[test]
fn cargo_runs_it_as_a_subcommand() {
    let folder = package("[package.metadata.parity]\nspecs = \"checks/specs\"\n");
    let program = Path::new(crate::command::BINARY).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let paths =
        std::env::join_paths([program.to_owned()].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let mut command = Command::new(env!("CARGO"));
    command.args(["parity", "list", "--names"]).env("PATH", paths).current_dir(folder.0.path().join("src"));
    lists(command.output().unwrap());
}
