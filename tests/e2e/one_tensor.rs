//! What a run keeps and measures: actuals for `show`, shapes without values, memory, and the port's own numbers.

use std::fs;

use crate::project::{Project, Ran, SPEC};

const BLOCK: &str = "gated_mlp/block";
const RUN: &str = "target/parity/runs/latest/gated_mlp/block";

fn xtask(project: &Project, arguments: &[&str]) -> Ran {
    Ran::of(project.xtask(arguments).output().unwrap())
}

#[test]
fn green_actuals_are_kept_on_request_and_can_be_computed_with() {
    let project = Project::with_port("right");
    project.run(&[]).is_green();
    assert!(!project.path(RUN).join("actual").exists());
    let name = "gated_mlp/block::gated";
    let ran = xtask(&project, &["show", name, "--expr", "abs(actual - golden).max() < 1e-5"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&["kept no actual", "PARITY_KEEP=all"]);
    Ran::of(project.command(&[]).env("PARITY_KEEP", "all").output().unwrap()).is_green();
    assert!(project.path(RUN).join("actual/norm.npy").is_file());
    let ran = xtask(&project, &["show", name, "--expr", "abs(actual - golden).max() < 1e-5"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1\n"), "{}", ran.text);
}

#[test]
fn shapes_are_checked_without_a_value() {
    let project = Project::with_port("right");
    let ran = xtask(&project, &["shapes", BLOCK]);
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    ran.prints(&["gated  float32 [1, 6, 48]", "3 tensors: 0 wrong, 0 not reached"]);
    assert!(!project.path("target/parity/runs").exists(), "it is no run");
    // Evaluating this tensor would take 14 GB.
    let project = Project::with_port("huge");
    let ran = xtask(&project, &["shapes", BLOCK]);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&["float32 [60000, 60000], golden float32 [1, 6, 48]", "3 tensors: 1 wrong, 0 not reached"]);
    let project = Project::with_port("error");
    let ran = xtask(&project, &["shapes", BLOCK]);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&["unreached out", "the port failed: error on purpose"]);
}

#[test]
fn a_port_above_its_memory_limit_fails_one_trial() {
    let project = Project::with_port("right");
    project.edit(SPEC, "checkpoints:", "memory: {peak: 1GB}\ncheckpoints:");
    let ran = project.run(&[]);
    ran.is_green();
    ran.prints(&["test gated_mlp/block::memory"]);
    project.edit(SPEC, "peak: 1GB", "peak: 1kB");
    let ran = project.run(&[]);
    ran.is_red(&["the port uses too much memory", "at most 1.0 kB are allowed; the stage of `"]);
    assert_eq!(ran.ended("FAILED"), ["memory"]);
    project.edit(SPEC, "peak: 1kB", "peak: much");
    project.run(&[]).is_red(&["a size with a unit, such as `512MiB` or `2GB`"]);
}

#[test]
fn resources_and_the_ports_own_numbers_are_recorded() {
    let project = Project::with_port("metric");
    Ran::of(project.command(&[]).env("PARITY_TIMES", "2").output().unwrap()).is_green();
    let text = fs::read_to_string(project.path(RUN).join("resources.json")).unwrap();
    let used: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(used["metrics"]["generation_tps"], 81.5);
    assert_eq!((&used["evaluations"], &used["weights"]["parameters"]), (&3.into(), &4672.into()));
    assert!(used["peak_bytes"].as_u64() > Some(0) && used["stream"].as_str().unwrap().contains("Stream"));
    assert_eq!(used["warm"]["passes"], 2);
    assert!(used["warm"]["untapped_millis"].as_f64() > Some(0.0));
    let ran = project.report(&[]);
    ran.prints(&["memory peak ", "3 evaluations", "gated_mlp/block: generation_tps 81.5"]);
    xtask(&project, &["show", BLOCK])
        .prints(&["metric     generation_tps 81.5", "weights    5 tensors, 4672 parameters"]);
}

#[test]
fn a_killed_worker_leaves_its_last_numbers_and_advice() {
    let project = Project::with_port("killed");
    project.run(&[]).is_red(&[
        "the worker was killed by SIGKILL (possibly out of memory) after checkpoint `gated`",
        "memory may have run out. At `gated`, the last checkpoint: ",
        "- load weights in bfloat16, or quantised",
    ]);
    let project = Project::with_port("abort");
    let ran = project.run(&[]);
    ran.is_red(&["SIGABRT"]);
    assert!(!ran.text.contains("memory may have run out"), "{}", ran.text);
}
