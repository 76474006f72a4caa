//! The tutorial with its prompt in a pipe: it starts, is left and continued, and a wrong edit gets a hint. One slow test does
//! every step with real builds and real runs.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::command::{BINARY, cargo_parity, check, copy_from_repository, ended, repository};

const PORT: &str = "src/lib.rs";
const STATE: &str = ".parity-tutorial.json";

/// The tutorial in a folder of its own, with answers in a pipe.
struct Tutorial {
    outer: tempfile::TempDir,
}

impl Tutorial {
    fn new() -> Self {
        Self { outer: tempfile::tempdir().unwrap() }
    }

    /// The tutorial's folder, as the program shows it.
    fn folder(&self) -> PathBuf {
        self.outer.path().canonicalize().unwrap().join("learn")
    }

    /// `cargo parity tutorial learn` with these options, outside of any Cargo project.
    fn command(&self, options: &[&str]) -> Command {
        cargo_parity(self.outer.path(), &[&["tutorial", "learn"], options].concat())
    }

    /// Runs the tutorial with these lines as answers.
    fn answer(&self, options: &[&str], lines: &str) -> Output {
        let mut command = self.command(options);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        // The program may end before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Makes this step the next one.
    fn set_step(&self, step: &str) {
        let path = self.folder().join(STATE);
        let mut state: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        state["step"] = step.into();
        fs::write(path, state.to_string()).unwrap();
    }

    /// What was printed, with the folder's path shortened.
    #[track_caller]
    fn printed(&self, output: Output, code: i32) -> String {
        check(output, code, &[]).replace(&*self.folder().to_string_lossy(), "[FOLDER]")
    }
}

#[test]
fn it_starts_is_left_and_continues() {
    let tutorial = Tutorial::new();
    let checkout = repository().to_string_lossy();
    let first = tutorial.printed(tutorial.answer(&["--path", &checkout], "q\n"), 0);
    insta::assert_snapshot!("started", first);
    let manifest = fs::read_to_string(tutorial.folder().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("harness/tap\""), "{manifest}");
    // The end of the input leaves, too.
    let again = tutorial.printed(tutorial.answer(&[], "hint\nwhat\n"), 0);
    insta::assert_snapshot!("continued", again);
    let listed = check(tutorial.command(&["--list"]).output().unwrap(), 0, &["1  run", "next"]);
    assert!(!listed.contains("done"), "{listed}");
}

#[test]
fn a_wrong_edit_gets_a_hint_and_stays_on_the_step() {
    let tutorial = Tutorial::new();
    tutorial.answer(&["--path", &repository().to_string_lossy()], "q\n");
    tutorial.set_step("fix");
    let printed = tutorial.printed(tutorial.answer(&[], "\nhint\nq\n"), 0);
    insta::assert_snapshot!("wrong_edit", printed);
    // An edit of another place.
    let path = tutorial.folder().join(PORT);
    let port = fs::read_to_string(&path).unwrap();
    fs::write(&path, port.replace(".eps(1e-5)", "")).unwrap();
    check(tutorial.answer(&[], "\n"), 0, &["Not yet.", "sets no eps", "You left at step 3 of 11"]);
    assert!(!tutorial.folder().join("target").exists(), "nothing was built");
}

#[test]
fn the_crate_has_the_fixtures_of_this_repository() {
    let tutorial = Tutorial::new();
    tutorial.answer(&["--path", &repository().to_string_lossy()], "");
    for name in
        ["goldens.safetensors", "inputs.safetensors", "manifest.json", "recipes.json", "weights.safetensors"]
    {
        let file = format!("fixtures/gated_mlp/block/{name}");
        assert_eq!(
            fs::read(tutorial.folder().join(&file)).unwrap(),
            fs::read(repository().join(&file)).unwrap()
        );
    }
    // Every check that runs no port passes, but for the checkpoint that the learner adds.
    let (code, text) = ended(cargo_parity(&tutorial.folder(), &["list", "--names"]).output().unwrap());
    assert_eq!((code, text.as_str()), (0, "gated_mlp/block::norm\ngated_mlp/block::out\n"));
}

#[test]
fn other_folders_are_left_alone() {
    let tutorial = Tutorial::new();
    let folder = tutorial.folder();
    copy_from_repository(&["parity-specs/policies.yaml"], &folder);
    for options in [&[][..], &["--restart"]] {
        check(
            tutorial.answer(options, "\n"),
            1,
            &["has files in it, but no tutorial", "to do: name a new or an empty folder"],
        );
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::remove_dir_all(&folder).unwrap();
    check(tutorial.answer(&["--restart"], ""), 1, &["has no tutorial to restart", "to do: start one with"]);
    let here = tutorial.outer.path().to_string_lossy();
    check(
        tutorial.answer(&["--path", &here], ""),
        1,
        &["is not a checkout of mlx-parity", "to do: name the root"],
    );
    assert!(!folder.exists());
}

#[test]
fn a_damaged_progress_is_an_error() {
    let tutorial = Tutorial::new();
    tutorial.answer(&["--path", &repository().to_string_lossy()], "");
    tutorial.set_step("fxi");
    check(tutorial.answer(&[], "\n"), 1, &["its step is `fxi`, expected one of `run`, `diagnose`, `fix`"]);
    fs::write(tutorial.folder().join(STATE), "{").unwrap();
    check(tutorial.answer(&[], "\n"), 1, &[STATE, "does not hold the progress of a tutorial"]);
}

#[test]
fn without_a_folder_the_unfinished_tutorial_continues() {
    let outer = tempfile::tempdir().unwrap();
    let run = |options: &[&str]| {
        let mut command = cargo_parity(outer.path(), &[&["tutorial"], options].concat());
        check(command.env("TMPDIR", outer.path()).output().unwrap(), 0, &["[1/11] Enter runs it"])
    };
    assert!(run(&["--path", &repository().to_string_lossy()]).contains("From a red port"));
    assert!(run(&[]).contains("Welcome back"));
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
}

/// The folder for builds of tutorials, which later runs of this test use again.
fn target() -> PathBuf {
    Path::new(BINARY).ancestors().nth(2).unwrap().join("tutorial")
}

#[test]
#[ignore = "slow: builds mlx-parity for the tutorial's crate, and runs its suite eleven times"]
fn every_step_can_be_done() {
    let tutorial = Tutorial::new();
    let mut command = tutorial.command(&["--non-interactive", "--path", &repository().to_string_lossy()]);
    command.env("CARGO_TARGET_DIR", target()).env("CARGO_PROFILE_DEV_DEBUG", "0");
    // What a learner's shell may have set has no effect.
    command.env("CI", "true").env("PARITY_LEVEL", "wrong").env("INSTA_UPDATE", "no");
    let printed = check(
        command.output().unwrap(),
        0,
        &[
            "value     norm          14.0x",
            "eps 1e-5 in place of 1e-6",
            "parity::discovery",
            "PARITY_INJECT=norm cargo parity run gated_mlp/block",
            "INJECTED",
            "stopped at `gated`, green",
            "The answer is 288.",
            "NEVER",
            "mutation score 21/21",
            "That was the tutorial.",
        ],
    );
    assert_eq!(printed.matches("Done.").count(), 11, "{printed}");
    check(tutorial.answer(&[], ""), 0, &["You have finished the tutorial"]);
    // The finished crate is an ordinary one.
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--test", "parity"]).current_dir(tutorial.folder());
    test.env("CARGO_TARGET_DIR", target()).env("CARGO_PROFILE_DEV_DEBUG", "0").env("CI", "true");
    check(test.output().unwrap(), 0, &["0 failed"]);
}
