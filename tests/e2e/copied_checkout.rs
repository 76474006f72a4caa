//! A copied checkout tests itself and leaves the original alone, even with the binary that was built in the original.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use walkdir::WalkDir;

use crate::project::{Project, Ran, SPEC, bad_ports};

/// A project with a built suite, and a copy of both whose spec names a different port.
struct Copied {
    original: Project,
    copy: tempfile::TempDir,
}

impl Copied {
    fn new() -> Self {
        let original = Project::with_port("right");
        let built = original.path("target/debug/parity");
        fs::create_dir_all(built.parent().unwrap()).unwrap();
        fs::copy(bad_ports(), &built).unwrap();
        let copy = tempfile::tempdir().unwrap();
        for (path, is_dir) in below(&original.path("")) {
            let to = copy.path().join(path.strip_prefix(original.path("")).unwrap());
            match is_dir {
                true => fs::create_dir_all(to).unwrap(),
                false => drop(fs::copy(&path, to).unwrap()),
            }
        }
        let spec = copy.path().join(SPEC);
        let text = fs::read_to_string(&spec).unwrap();
        fs::write(&spec, text.replace("port: right", "port: rubbish")).unwrap();
        Self { original, copy }
    }

    /// The copied suite with `root` compiled in: as Cargo runs it in this package of the copy, or started by hand in
    /// the copy.
    fn suite(&self, root: &Path, package: Option<&str>, arguments: &[&str]) -> Command {
        let inherited = self.original.command(&[]);
        let mut command = Command::new(self.copy.path().join("target/debug/parity"));
        for (name, value) in inherited.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.args(arguments).current_dir(self.copy.path()).env("BAD_PORTS_ROOT", root);
        command.env_remove("CARGO_MANIFEST_DIR").env_remove("BAD_PORTS_COUNT");
        command.envs(package.map(|package| ("CARGO_MANIFEST_DIR", self.copy.path().join(package))));
        command
    }

    /// Runs the copied suite, and expects that nothing in the original changed.
    #[track_caller]
    fn run(&self, root: &Path, package: Option<&str>, arguments: &[&str]) -> Ran {
        let before = below(&self.original.path(""));
        let ran = Ran::of(self.suite(root, package, arguments).output().unwrap());
        assert_eq!(below(&self.original.path("")), before, "written into the original");
        ran
    }
}

/// The paths of everything below a folder, and whether each is a folder.
fn below(folder: &Path) -> Vec<(PathBuf, bool)> {
    let entries = WalkDir::new(folder).min_depth(1).sort_by_file_name().into_iter().map(Result::unwrap);
    entries.map(|entry| (entry.path().to_owned(), entry.file_type().is_dir())).collect()
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_relative_root_is_that_of_the_copy() {
    let copied = Copied::new();
    let rubbish = "port `rubbish` is not registered";
    copied.run(Path::new(".."), Some("tests"), &[]).is_red(&[rubbish]);
    copied.run(Path::new(".."), Some("tests"), &["gated_mlp"]).is_red(&[rubbish]);
    assert!(copied.copy.path().join("target/parity/runs/latest").exists());
    // Started by hand in the copy.
    copied.run(Path::new("."), None, &[]).is_red(&[rubbish]);
}

#[test]
fn a_compiled_root_of_another_checkout_is_red_under_any_filter() {
    let copied = Copied::new();
    let original = copied.original.path("").canonicalize().unwrap();
    let package = copied.copy.path().canonicalize().unwrap().join("tests");
    let words = [
        &*format!("the root `{}` does not contain `{}`", original.display(), package.display()),
        "such as `..`",
    ];
    for filter in [&[][..], &["gated_mlp"], &["--exact", "gated_mlp/block::norm"], &["nothing like it"]] {
        copied.run(&original, Some("tests"), filter).is_red(&words);
    }
    let listed = copied.run(&original, Some("tests"), &["--list"]);
    listed.is_green();
    listed.prints(&["parity::settings: test"]);

    let by_hand = copied.run(&original, None, &[]);
    let program = copied.copy.path().canonicalize().unwrap().join("target/debug/parity");
    let words = format!("does not contain the running program `{}`", program.display());
    by_hand.is_red(&[&words, "start it through Cargo, or set CARGO_MANIFEST_DIR"]);
    // Started in a folder in which the relative root does not exist.
    let elsewhere = copied.suite(Path::new("fixtures"), None, &[]).output().unwrap();
    Ran::of(elsewhere).is_red(&["does not contain the running program"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn commands_leave_another_checkout_alone() {
    let copied = Copied::new();
    let original = copied.original.path("");
    for command in ["regenerate-fixtures", "parity", "doctor"] {
        let before = below(&original);
        let output = copied
            .suite(&original, Some("xtask"), &[command])
            .env("BAD_PORTS_MODE", "xtask")
            .output()
            .unwrap();
        assert_eq!(below(&original), before, "written into the original");
        let ran = Ran::of(output);
        assert_eq!(ran.code, Some(1), "{}", ran.text);
        ran.prints(&["error: the root `", "does not contain"]);
    }
}
