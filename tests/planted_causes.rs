//! What a red run says of its first wrong stage: in the test's text, in the ladder, in `cargo xtask diagnose`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod project;

use project::{Project, Ran};

const LOCAL: &str = "target/parity/runs/latest/gated_mlp/block/local/records.jsonl";

/// What the sentence begins with, for a stage that is tapped in that file.
fn first(stage: &str, file: &str) -> String {
    format!("the first stage that is wrong by its own doing is `{stage}` (tests/{file}:")
}

#[test]
fn one_sentence_stands_at_the_top_of_every_failing_test_and_of_the_ladder() {
    let project = Project::with_port("wrong_eps");
    let ran = project.run(&[]);
    let eps = "its output is the RMS norm of `x` with an eps of 1e-5, where the golden has 1e-6 (undone, ";
    ran.is_red(&[&first("norm", "src/gated_mlp.rs"), eps, "look at  eps of the config", "culprit: `norm`"]);
    // Three checkpoints are red, each says what the first is; then the ladder.
    assert_eq!(ran.said.matches(&first("norm", "src/gated_mlp.rs")).count(), 4, "{}", ran.said);
    let text = ran.said.split("---- gated_mlp/block::gated ----").nth(1).unwrap();
    assert!(text.lines().nth(2).unwrap().starts_with("  cause    the first stage"), "{text}");
}

#[test]
fn a_factor_is_named_at_the_stage_that_has_it() {
    let ran = Project::with_port("scaled").run(&[]);
    ran.is_red(&[&first("gated", "faulty.rs"), "its output is the golden times 1.01"]);
}

#[test]
fn nothing_is_looked_into_when_all_is_green() {
    let project = Project::with_port("right");
    project.run(&[]).is_green();
    assert_eq!(project.forwards(), 1);
    assert!(!project.path(LOCAL).exists());
}

#[test]
fn the_second_pass_runs_in_ci_too_and_changes_no_verdict() {
    let project = Project::with_port("scaled");
    let output = project.command(&[]).env("CI", "true").output().unwrap();
    let ran = Ran::of(output);
    ran.is_red(&[&first("gated", "faulty.rs")]);
    // On golden inputs `out` is right; the run as it is has it red, and that stands.
    assert_eq!(ran.ended("FAILED"), ["gated", "out"]);
    assert!(!ran.said.contains("INJECTED"), "{}", ran.said);
    assert!(project.path(LOCAL).is_file());
}

#[test]
fn a_stage_that_is_never_reached_is_the_first_wrong_one() {
    let ran = Project::with_port("panic").run(&[]);
    ran.is_red(&["the first stage that is wrong by its own doing is `out`; crash"]);
}

#[test]
fn diagnose_tells_the_newest_run_and_lists_every_kind() {
    let project = Project::with_port("wrong_eps");
    project.run(&[]);
    let diagnose = |arguments: &[&str]| {
        let arguments = [&["diagnose"], arguments].concat();
        Ran::of(project.xtask(&arguments).output().unwrap())
    };
    let told = diagnose(&[]);
    assert_eq!(told.code, Some(1), "{}", told.said);
    told.says(&[
        "gated_mlp/block  culprit: `norm`",
        "cause    it is the RMS norm of `x` with an eps of 1e-5",
    ]);
    assert_eq!(diagnose(&["gated_mlp/block"]).said, told.said);
    let unknown = diagnose(&["gated_mlp/blok"]);
    assert_eq!(unknown.code, Some(1));
    unknown.says(&["the run has no spec `gated_mlp/blok`, did you mean `gated_mlp/block`?"]);
    let list = diagnose(&["--list"]);
    assert_eq!(list.code, Some(0));
    list.says(&[
        "chunks_swapped\n  means    equal parts of an axis in another order",
        "look at  eps of the config",
        "41 kinds",
    ]);
    let green = Project::with_port("right");
    green.run(&[]);
    let told = Ran::of(green.xtask(&["diagnose"]).output().unwrap());
    assert_eq!((told.code, told.said.as_str()), (Some(0), "nothing is wrong\n"));
}
