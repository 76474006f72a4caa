//! Pipes, devices, sockets and folders in place of files that commands read: each is an error, without delay.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::command::{BINARY, bounded};
use crate::shell_project::{Project, SCRIPT};

/// Puts each kind of entry in the place of `file`, and expects every command to fail and name the kind.
#[track_caller]
fn refused(project: &Project, file: &str, commands: &[&[&str]]) {
    let path = project.path(file);
    let aside = project.path("aside");
    fs::rename(&path, &aside).unwrap();
    for (kind, make) in KINDS {
        make(&path);
        for arguments in commands {
            // A command that reads without end would take all memory.
            let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
            let mut command = Command::new("/bin/sh");
            let text = format!("ulimit -v 4000000; exec '{BINARY}' {}", words.join(" "));
            command.args(["-c", &text]).current_dir(project.path(""));
            command.env("PARITY_PYTHON", project.path("python"));
            let (code, text) = bounded(command.env("MARK", "1"));
            assert_ne!(code, 0, "{kind} as `{file}`, {arguments:?}: {text}");
            // A folder is compared if it holds tensors.
            let is_named =
                text.contains(kind) || (arguments[0] == "diff" && text.contains("holds no tensors"));
            assert!(is_named, "{kind} as `{file}`, {arguments:?}: {text}");
        }
        if path.is_dir() { fs::remove_dir(&path).unwrap() } else { fs::remove_file(&path).unwrap() }
    }
    // Links to regular files are followed.
    symlink(&aside, &path).unwrap();
    let target = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), target);
}

type Kind = (&'static str, fn(&Path));
const KINDS: &[Kind] = &[
    ("a named pipe", |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
    ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
    ("a folder", |path| fs::create_dir(path).unwrap()),
];

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn specs_policies_schema_manifests_goldens_and_scripts_are_regular_files() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    let (lint, check): (&[&str], &[&str]) = (&["lint"], &["regenerate-fixtures", "--check"]);
    let (list, make): (&[&str], &[&str]) = (&["list"], &["regenerate-fixtures", "--yes"]);
    refused(&project, "fixtures/model/part/golden-a.npy", &[lint, check]);
    refused(&project, "fixtures/model/part/manifest.json", &[lint, check]);
    refused(&project, "parity-specs/policies.yaml", &[lint, list]);
    refused(&project, "reference.sh", &[lint, check, make]);
    project.write("parity-specs/schema.json", "{}");
    refused(&project, "parity-specs/schema.json", &[lint]);
}

#[test]
fn a_device_that_never_ends_is_no_file() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    for file in ["reference.sh", "parity-specs/policies.yaml"] {
        fs::rename(project.path(file), project.path("aside")).unwrap();
        symlink("/dev/zero", project.path(file)).unwrap();
        let (code, text) = bounded(&mut project.command(&["lint"]));
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("a device") || text.contains("outside the spec root"), "{text}");
        fs::remove_file(project.path(file)).unwrap();
        fs::rename(project.path("aside"), project.path(file)).unwrap();
    }
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn what_diff_compares_are_regular_files() {
    let project = Project::new();
    let (a, b) = ("made/1/golden-a.npy", "made/2/golden-a.npy");
    project.write("order.txt", "golden-a\n");
    refused(&project, a, &[&["diff", a, b], &["diff", b, a]]);
    refused(&project, "order.txt", &[&["diff", a, b, "--order", "order.txt"]]);
}

/// A script can write anything: its report may be a pipe, and so may a golden.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn what_a_script_leaves_is_regular_or_refused() {
    let project = Project::new();
    for line in [
        "mkfifo \"$PARITY_REPORT\"; exit 1",
        "mkdir -p \"$1\"; mkfifo \"$1/manifest.json\"; exit 0",
        "cp -r made/1 \"$1\"; rm \"$1/golden-a.npy\"; mkfifo \"$1/golden-a.npy\"; exit 0",
        "cp -r made/1 \"$1\"; mkfifo \"$1/other\"; exit 0",
        "mkdir -p \"$1\"; ln -s /dev/zero \"$1/manifest.json\"; exit 0",
    ] {
        project.script(&format!("{line}\n{SCRIPT}"));
        let mut command = project.command(&["regenerate-fixtures", "--yes"]);
        let (code, text) = bounded(command.env("MARK", "1"));
        assert_eq!(code, 1, "{line}: {text}");
        assert!(text.contains("1 failed"), "{line}: {text}");
        assert_eq!(project.mark(), None);
    }
}
