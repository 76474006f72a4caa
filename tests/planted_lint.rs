//! What lint says of gates after the real suite has run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod project;

use project::{Project, Ran};

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";

fn lint(project: &Project) -> Ran {
    Ran::of(project.xtask(&["lint", "--write-schema", "--strict"]).output().unwrap())
}

#[test]
fn the_gates_that_we_ship_are_not_slack() {
    let project = Project::with_port("right");
    project.run(&[]).is_green();
    let ran = lint(&project);
    ran.is_green();
    ran.says(&["0 things are wrong\n", "note: the gates of 3 lines were held against run "]);
}

#[test]
fn a_gate_that_is_far_too_loose_is_told_with_what_to_write() {
    let project = Project::with_port("right");
    project.edit(SPEC, "policy: fp32", "rtol: 1e-3, atol: 1e-3, why: planted");
    project.run(&[]).is_green();
    let ran = lint(&project);
    assert_eq!(ran.code, Some(1), "{}", ran.said);
    ran.says(&[
        "warning: `out`: atol 1e-3, rtol 1e-3 allows ",
        "block.yaml:",
        "would leave 4x, and `noise: 8` holds",
    ]);
    // What lint offers is what passes, and is no longer slack.
    let offered = ran.said.split("help: `").nth(1).unwrap().split('`').next().unwrap().to_owned();
    project.edit(SPEC, "rtol: 1e-3, atol: 1e-3, why: planted", &offered);
    project.run(&[]).is_green();
    lint(&project).is_green();
}

#[test]
fn a_run_on_golden_inputs_tells_nothing_of_gates() {
    let project = Project::with_port("right");
    project.edit(SPEC, "policy: fp32", "rtol: 1e-3, atol: 1e-3, why: planted");
    Ran::of(project.command(&[]).env("PARITY_LOCALISE", "1").output().unwrap()).is_green();
    let ran = lint(&project);
    ran.is_green();
    ran.says(&["met no checkpoint as the specs have it now"]);
}
