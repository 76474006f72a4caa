//! `clean`: which runs and leftovers it removes, and what it never touches.

use std::fs;
use std::path::{Path, PathBuf};

use mlx_parity_core::runs::{Out, RunName, claim};

use crate::command::{EMPTY_WORKSPACE, cargo_parity, check};

struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("Cargo.toml"), EMPTY_WORKSPACE).unwrap();
        Self(root)
    }

    fn out(&self) -> Out {
        Out::of(self.0.path())
    }

    /// A run that has ended, with an actual of 1000 bytes.
    fn run(&self) -> PathBuf {
        let folder = self.out().start(&RunName::fresh(false)).unwrap().folder;
        fs::create_dir_all(folder.join("m/c/actual")).unwrap();
        fs::write(folder.join("m/c/job.json"), "{}").unwrap();
        fs::write(folder.join("m/c/actual/x.npy"), [0; 1000]).unwrap();
        folder
    }

    #[track_caller]
    fn clean(&self, arguments: &[&str], code: i32, words: &[&str]) -> String {
        check(cargo_parity(self.0.path(), &[&["clean"], arguments].concat()).output().unwrap(), code, words)
    }
}

/// Makes a run a named one.
fn name(run: &Path) {
    let marker = run.join(".parity-run.json");
    let text = fs::read_to_string(&marker).unwrap();
    fs::write(marker, text.replace("\"named\": false", "\"named\": true")).unwrap();
}

#[test]
fn old_runs_go_and_the_newest_stays() {
    let project = Project::new();
    project.clean(&[], 0, &["nothing to remove\n"]);
    let runs = [project.run(), project.run(), project.run()];
    let text = project.clean(&["--dry-run"], 0, &["would free 2."]);
    assert_eq!(text.matches("  run ").count(), 2, "{text}");
    assert!(runs.iter().all(|run| run.exists()));
    project.clean(&["--keep", "2"], 0, &["1.", " kB  run ", "freed 1."]);
    assert_eq!(runs.each_ref().map(|run| run.exists()), [false, true, true]);
    project.clean(&[], 0, &["freed 1."]);
    assert_eq!(runs.each_ref().map(|run| run.exists()), [false, false, true]);
    project.clean(&["--actuals"], 0, &["m/c/actual", "freed 1.0 kB"]);
    assert!(runs[2].join("m/c/job.json").exists() && !runs[2].join("m/c/actual").exists());
    project.clean(&["--keep", "0"], 0, &["freed "]);
    assert!(!runs[2].exists() && fs::symlink_metadata(project.out().run("latest")).is_err());
}

#[test]
fn named_running_and_foreign_folders_stay() {
    let project = Project::new();
    let named = project.run();
    name(&named);
    let going = project.out().start(&RunName::fresh(false)).unwrap();
    let theirs = project.out().run("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("x"), "x").unwrap();
    let pid = std::process::id();
    project.clean(
        &["--keep", "0"],
        0,
        &[
            &format!("is active, pid {pid}, and stays"),
            "note: kept 1 named run; --named removes named runs too",
            "nothing to remove",
        ],
    );
    project.clean(
        &["--keep", "0", "--named"],
        1,
        &["1 named run would be removed, but there is no terminal to ask on"],
    );
    assert!(named.exists());
    project.clean(&["--keep", "0", "--named", "--yes"], 0, &["named run ", "freed 1."]);
    assert!(!named.exists() && going.folder.exists() && theirs.join("x").exists());
}

#[test]
fn leftovers_go_and_caches_only_with_all() {
    let project = Project::new();
    let root = project.0.path();
    let run = project.run();
    // As a process leaves it that is killed while it removes a run.
    let aside = run.with_file_name(".aside-old-1-2-3");
    fs::rename(project.run(), &aside).unwrap();
    fs::create_dir_all(root.join("fixtures/.regenerating/run-dead")).unwrap();
    fs::write(root.join("fixtures/.regenerating/run-dead/x"), "x").unwrap();
    claim(&root.join("target/parity/mutations")).unwrap();
    for file in [".parity/mlx/lib.so", ".parity/notes.txt", "fixtures/m/c/golden.npy"] {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), "x").unwrap();
    }
    project.clean(
        &[],
        0,
        &["leftover .aside-old-1-2-3", "leftovers of an interrupted regenerate-fixtures", "freed 1."],
    );
    assert!(!aside.exists() && !root.join("fixtures/.regenerating").exists());
    assert!(run.exists() && root.join(".parity/mlx/lib.so").exists());
    project.clean(&["--all"], 1, &["1 folder in .parity would be removed, but there is no terminal"]);
    project.clean(&["--all", "--yes"], 0, &["target/parity/mutations", ".parity/mlx"]);
    assert!(
        !run.exists() && !root.join(".parity/mlx").exists() && !root.join("target/parity/mutations").exists()
    );
    assert!(root.join(".parity/notes.txt").exists() && root.join("fixtures/m/c/golden.npy").exists());
}
