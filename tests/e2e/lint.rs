//! What `cargo xtask lint` reports about gates after a run of the suite.

use crate::project::{Project, Ran, SPEC};

fn lint(project: &Project) -> Ran {
    Ran::of(project.xtask(&["lint", "--write-schema", "--strict"]).output().unwrap())
}

#[test]
fn the_gates_that_we_ship_are_not_slack() {
    let project = Project::with_port("right");
    project.run(&[]).is_green();
    let ran = lint(&project);
    ran.is_green();
    ran.prints(&["0 errors\n", "note: the gates of 3 lines were compared with run "]);
}

#[test]
fn a_gate_that_is_far_too_loose_is_reported_with_the_one_to_write() {
    let project = Project::with_port("right");
    project.edit(SPEC, "policy: fp32", "rtol: 1e-3, atol: 1e-3, why: a test");
    project.run(&[]).is_green();
    let ran = lint(&project);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&[
        "warning: `out`: atol 1e-3, rtol 1e-3 allows ",
        "block.yaml:",
        "would still allow 4x what is needed, and `noise: 8` would pass",
    ]);
    // The gate that lint offers passes, and lint does not report it again.
    let offered = ran.text.split("help: `").nth(1).unwrap().split('`').next().unwrap().to_owned();
    project.edit(SPEC, "rtol: 1e-3, atol: 1e-3, why: a test", &offered);
    project.run(&[]).is_green();
    lint(&project).is_green();
}

#[test]
fn a_run_on_golden_inputs_does_not_count_for_gates() {
    let project = Project::with_port("right");
    project.edit(SPEC, "policy: fp32", "rtol: 1e-3, atol: 1e-3, why: a test");
    Ran::of(project.command(&[]).env("PARITY_LOCALISE", "1").output().unwrap()).is_green();
    let ran = lint(&project);
    ran.is_green();
    ran.prints(&["has no checkpoint that matches the current specs"]);
}

#[test]
fn a_green_row_with_another_range_is_reported() {
    let project = Project::with_port("tripled");
    project.declare("  - {name: gated, dtype: float32, rtol: 9, atol: 9, why: a test}");
    project.edit(SPEC, "policy: fp32", "rtol: 9, atol: 9, why: a test");
    let ran = project.run(&["--skip", "::stats"]);
    ran.is_green();
    let ran = lint(&project);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&[
        "warning: `gated` passed, but its range (max - min) is 3.00x that of the golden",
        "block.yaml:",
        "help: look at its values; if they are wrong, tighten the gate",
    ]);
}
