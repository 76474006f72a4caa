//! Nothing is green by accident: what was not run, not looked at, or told by an older run is not a pass.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod project;

use std::fs;

use project::{Project, Ran};

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";

/// Puts the port `to` in the place of `from`.
fn change_port(project: &Project, from: &str, to: &str) {
    project.edit(SPEC, &format!("port: {from}"), &format!("port: {to}"));
}

fn report(project: &Project) -> Ran {
    Ran::of(project.xtask(&["report"]).output().unwrap())
}

fn trials(project: &Project) -> String {
    fs::read_to_string(project.path("target/parity/runs/latest/trials.jsonl")).unwrap()
}

#[test]
fn a_named_run_of_nextest_does_not_answer_for_the_next() {
    let project = Project::with_port("right");
    let gated = |run: &str| {
        let mut command = project.command(&["--exact", "gated_mlp/block::gated"]);
        Ran::of(command.env("PARITY_RUN", "ci").env("NEXTEST_RUN_ID", run).output().unwrap())
    };
    gated("one").is_green();
    change_port(&project, "right", "scaled");
    gated("two").is_red(&["gated: value differs"]);
}

#[test]
fn a_spec_that_broke_after_the_list_is_red_by_the_name_that_was_asked_for() {
    let project = Project::with_port("right");
    project.edit(SPEC, "dtype: float32", "dtyp: float32");
    project.as_nextest("norm", "one", "1").is_red(&["gated_mlp/block::norm", "dtyp"]);
    fs::remove_file(project.path(SPEC)).unwrap();
    project.as_nextest("norm", "two", "1").is_red(&["gated_mlp/block::norm"]);
    let project = Project::with_port("right");
    project.as_nextest("gone", "one", "1").is_red(&["`gated_mlp/block::gone` is not declared"]);
    // Every binary of a workspace is asked for the tests of all others.
    project.run(&["--exact", "tensor::tests::of_another_binary"]).is_green();
}

#[test]
fn reports_tell_of_what_has_no_account() {
    let project = Project::with_port("right");
    fs::write(project.path("parity-specs/gated_mlp/broken.yaml"), "version: 1\n").unwrap();
    project.run(&[]).is_red(&["gated_mlp/broken::spec"]);
    assert!(trials(&project).contains(r#""spec":"gated_mlp/broken","trial":"spec","status":"fail""#));
    let report = fs::read_to_string(project.path("target/parity/runs/latest/report.txt")).unwrap();
    assert!(report.contains("1 failed"), "{report}");
    let junit = fs::read_to_string(project.path("target/parity/runs/latest/junit.xml")).unwrap();
    assert!(junit.contains("failures=\"1\""), "{junit}");
}

#[test]
fn a_golden_that_nobody_declares_is_in_the_reports() {
    let project = Project::with_port("right");
    project.declare("");
    project.run(&[]).is_red(&["parity::discovery"]);
    assert!(trials(&project).contains(r#""spec":"parity","trial":"discovery","status":"fail""#));
}

#[test]
fn what_must_not_be_ignored_is_counted_alike_everywhere() {
    let project = Project::with_port("right");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\nrequires: [\"env:FAULTY_NEVER\"]");
    let output = project.xtask(&["parity"]).env("PARITY_REQUIRE", "all").output().unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.code, Some(1));
    ran.says(&["1 passed, 6 failed, 0 ignored, 1 spec"]);
}

#[test]
fn a_port_that_fails_after_its_last_checkpoint_is_red() {
    let project = Project::with_port("error");
    // `out`, before which it fails, is not looked at.
    project.edit(SPEC, "stage: residual", "stage: residual, level: 1");
    let ran = project.run(&[]);
    ran.is_red(&[
        "weights: crash",
        "fixture: crash",
        "not looked at to the end: the port failed after checkpoint",
    ]);
    project.run(&["::weights"]).is_red(&["planted error"]);
}

#[test]
fn the_command_that_repeats_a_failure_repeats_it() {
    let project = Project::with_port("twice");
    let ran = project.run(&[]);
    ran.is_red(&["-- gated_mlp/block::\n"]);
    project.run(&["gated_mlp/block::"]).is_red(&["met 2 times, but 1 declared"]);
    project.run(&["::gated"]).says(&["later hits of theirs were not counted"]);
}

#[test]
fn what_never_ran_is_not_reported_as_green() {
    let project = Project::with_port("right");
    let spec = fs::read_to_string(project.path(SPEC)).unwrap();
    let twin = spec.replacen("version: 1", "version: 1\nfixtures: gated_mlp/block", 1);
    fs::write(project.path("parity-specs/gated_mlp/twin.yaml"), twin).unwrap();
    project.as_nextest("norm", "one", "1").is_green();
    let ran = report(&project);
    assert_eq!(ran.code, Some(1), "{}", ran.said);
    ran.says(&["gated_mlp/twin  was not run", "1 spec not run", "were not compared with their snapshot"]);
}

#[test]
fn a_level_adds_checkpoints_and_takes_none() {
    let project = Project::with_port("scaled");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\nlevel: 1");
    project.edit(SPEC, "stage: mlp", "stage: mlp, level: 1");
    let output = project.command(&[]).env("PARITY_LEVEL", "0").output().unwrap();
    Ran::of(output).is_red(&["gated: value differs"]);
}

#[test]
fn retries_repeat_a_crash_once_an_attempt() {
    let project = Project::with_port("abort");
    project.edit(SPEC, "stage: mlp", "stage: mlp, hits: 2");
    for attempt in ["1", "2", "3"] {
        for name in ["gated", "out", "weights", "fixture"] {
            project.as_nextest(name, "one", attempt).is_red(&[]);
        }
    }
    assert_eq!(project.forwards(), 3);
}

#[test]
fn a_new_attempt_knows_nothing_of_the_last() {
    let project = Project::with_port("abort");
    project.as_nextest("out", "one", "1").is_red(&["after checkpoint `gated`"]);
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ndevice: gpu");
    if cfg!(target_os = "linux") {
        project.as_nextest("out", "one", "2").is_red(&["before any checkpoint"]);
        project.as_nextest("norm", "one", "2").is_red(&["norm: crash"]);
    }
}

#[test]
fn a_run_called_latest_does_not_hide_later_ones() {
    let project = Project::with_port("right");
    Ran::of(project.command(&[]).env("PARITY_RUN", "latest").output().unwrap()).is_green();
    change_port(&project, "right", "scaled");
    project.run(&[]).is_red(&[]);
    assert_eq!(report(&project).code, Some(1));
}

#[test]
fn the_last_line_of_parity_is_not_green_when_the_suite_is_red() {
    let project = Project::with_port("right");
    // What the suite alone can refuse is no trial of a spec.
    let ran = Ran::of(project.xtask(&["parity"]).env("PARITY_FIXTURES", "nowhere").output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.said.contains("parity: 8 declared = 0 passed + 8 failed"), "{}", ran.said);
    let ran = Ran::of(project.xtask(&["parity", "discovery"]).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.said);
}

#[test]
fn an_image_of_floats_is_drawn_and_its_failure_says_where() {
    let project = Project::with_port("shape");
    project.declare(
        "  - {name: gated, dtype: float32, shape: [6, 48], squeeze: [0], stage: image, noise: 8, range: [-0.1, 0.1]}",
    );
    let ran = project.run(&[]);
    ran.is_red(&[
        "gated: out of range",
        "  image    PSNR ",
        "  pictures ",
        "/gated_mlp/block/images/gated.{golden,actual,diff}.png\n",
    ]);
    for kind in ["golden", "actual", "diff"] {
        let png = project.path(&format!("target/parity/runs/latest/gated_mlp/block/images/gated.{kind}.png"));
        assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"), "{}", png.display());
    }
}
