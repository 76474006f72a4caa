//! Nothing is green by accident: a trial passes only if this run has tested it.

use std::fs;

use crate::project::{Project, Ran, SPEC};

/// Replaces the port `from` of the spec by `to`.
fn change_port(project: &Project, from: &str, to: &str) {
    project.edit(SPEC, &format!("port: {from}"), &format!("port: {to}"));
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
    project.as_nextest("gone", "one", "1").is_red(&["trial `gated_mlp/block::gone` does not exist"]);
    // Cargo passes a filter to every test binary of a workspace, so it may name a test of another one.
    project.run(&["--exact", "tensor::tests::of_another_binary"]).is_green();
}

#[test]
fn a_golden_that_nobody_declares_is_in_the_reports() {
    let project = Project::with_port("right");
    project.declare("");
    project.run(&[]).is_red(&["parity::discovery"]);
    assert!(project.trials().contains(r#""spec":"parity","trial":"discovery","status":"fail""#));
}

#[test]
fn what_must_not_be_ignored_is_counted_alike_everywhere() {
    let project = Project::with_port("right");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\nrequires: [\"env:NEVER_SET\"]");
    let output = project.xtask(&["parity"]).env("PARITY_REQUIRE", "all").output().unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.code, Some(1));
    ran.prints(&["2 passed, 6 failed, 0 ignored, 1 spec"]);
}

#[test]
fn a_port_that_fails_after_its_last_checkpoint_is_red() {
    let project = Project::with_port("error");
    // The port fails before `out`, which is not tested at this level.
    project.edit(SPEC, "stage: residual", "stage: residual, level: 1");
    let ran = project.run(&[]);
    ran.is_red(&["weights: crash", "fixture: crash", "not fully checked: the port failed after checkpoint"]);
    project.run(&["::weights"]).is_red(&["error on purpose"]);
}

#[test]
fn the_printed_command_repeats_the_failure() {
    let project = Project::with_port("twice");
    let ran = project.run(&[]);
    ran.is_red(&["-- gated_mlp/block::\n"]);
    project.run(&["gated_mlp/block::"]).is_red(&["reached 2 times, but the spec declares 1"]);
    project.run(&["::gated"]).prints(&["their later hits were not counted"]);
}

#[test]
fn what_never_ran_is_not_reported_as_green() {
    let project = Project::with_port("right");
    let spec = fs::read_to_string(project.path(SPEC)).unwrap();
    let twin = spec.replacen("version: 1", "version: 1\nfixtures: gated_mlp/block", 1);
    fs::write(project.path("parity-specs/gated_mlp/twin.yaml"), twin).unwrap();
    project.as_nextest("norm", "one", "1").is_green();
    let ran = project.report(&[]);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&["not run: gated_mlp/twin", "1 spec not run", "were not compared with their snapshot"]);
}

#[test]
fn a_level_that_takes_checkpoints_away_says_so() {
    let project = Project::with_port("scaled");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\nlevel: 1");
    project.edit(SPEC, "stage: mlp", "stage: mlp, level: 1");
    let output = project.command(&[]).env("PARITY_LEVEL", "0").output().unwrap();
    Ran::of(output).is_red(&[
        "out: value differs",
        "1 checkpoint left out by PARITY_LEVEL",
        "at level 1: PARITY_LEVEL=1",
    ]);
}

#[test]
fn a_run_called_latest_does_not_hide_later_ones() {
    let project = Project::with_port("right");
    Ran::of(project.command(&[]).env("PARITY_RUN", "latest").output().unwrap()).is_green();
    change_port(&project, "right", "scaled");
    project.run(&[]).is_red(&[]);
    assert_eq!(project.report(&[]).code, Some(1));
}

#[test]
fn the_last_line_of_parity_is_not_green_when_the_suite_is_red() {
    let project = Project::with_port("right");
    // A setting that only the suite refuses belongs to no trial of a spec.
    let ran = Ran::of(project.xtask(&["parity"]).env("PARITY_FIXTURES", "nowhere").output().unwrap());
    assert_eq!(ran.code, Some(1));
    ran.prints(&["PARITY_FIXTURES is `", "0 passed, 1 failed, 0 ignored, 0 specs"]);
    let ran = Ran::of(project.xtask(&["parity", "discovery"]).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.text);
}
