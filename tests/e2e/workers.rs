//! Workers: their children end with them, their output is bounded and kept, and an actual is written once.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use crate::processes::{is_alive, until};
use crate::project::{Project, Ran, SPEC};

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn children_of_a_worker_end_at_its_timeout() {
    let project = Project::with_port("leaves_a_child");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ntimeout: 2s");
    project.run(&[]).is_red(&["timed out after 2 s, after checkpoint `gated`"]);
    let child = fs::read_to_string(project.path("child")).unwrap();
    until(|| !is_alive(&child));
}

#[test]
fn children_of_a_worker_end_with_a_suite_that_is_killed() {
    let project = Project::with_port("leaves_a_child");
    let mut suite = project.command(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(|| project.path("child").is_file());
    suite.kill().unwrap();
    suite.wait().unwrap();
    let child = fs::read_to_string(project.path("child")).unwrap();
    until(|| !is_alive(&child) && !is_alive(&project.workers()[0]));
}

#[test]
fn what_a_port_prints_is_kept_up_to_a_bound() {
    let project = Project::with_port("prints_much");
    project.run(&[]).is_green();
    let output = project.path("target/parity/runs/latest/gated_mlp/block/output.log");
    let text = fs::read_to_string(output).unwrap();
    assert!(text.len() < (2 << 20) + 100, "{} bytes", text.len());
    let (start, end) = ("-- tap norm\n-- tap gated\nthe first line\n", "the last line\n-- tap out\n");
    assert!(text.starts_with(start) && text.ends_with(&format!("x\n{end}")));
    let left_out = (16 << 20) + start.len() + end.len() - (2 << 20);
    assert!(text.contains(&format!("\n[{left_out} bytes left out here]\n")));
}

#[test]
fn an_actual_that_both_runs_of_a_red_port_have_is_written_once() {
    // The first stage is wrong, and has the same inputs in both runs.
    let project = Project::with_port("wrong_eps");
    project.run(&[]).is_red(&["norm: value differs"]);
    let run = project.path("target/parity/runs/latest/gated_mlp/block");
    let inode = |file: &str| fs::metadata(run.join(file)).unwrap().ino();
    assert_eq!(inode("actual/norm.npy"), inode("local/actual/norm.npy"));
}

#[test]
fn what_a_port_prints_is_kept_apart_from_the_tests() {
    let project = Project::with_port("prints");
    let ran = project.run(&[]);
    ran.is_green();
    assert!(!ran.text.contains("printed by the port"));
    let output = project.path("target/parity/runs/latest/gated_mlp/block/output.log");
    let expected = "printed by the port\n-- tap norm\n-- tap gated\n-- tap out\n";
    assert_eq!(fs::read_to_string(output).unwrap(), expected);
}

#[test]
fn every_failure_names_the_log_and_both_passes_print_their_taps() {
    let project = Project::with_port("wrong_eps");
    let ran = project.run(&[]);
    let shown = "\n  log      target/parity/runs/";
    let count = ran.text.matches(shown).count();
    assert_eq!(count, 2, "in the one failure that is shown whole, and in the summary:\n{}", ran.text);
    assert!(ran.text.contains("/gated_mlp/block/output.log\n"), "{}", ran.text);
    let output = project.path("target/parity/runs/latest/gated_mlp/block/output.log");
    let taps = "-- tap norm\n-- tap gated\n-- tap out\n";
    let expected = format!("{taps}-- second pass, with every golden injected\n{taps}");
    assert_eq!(fs::read_to_string(output).unwrap(), expected);
}

#[test]
fn a_run_keeps_no_more_than_its_limit_and_the_verdict_is_the_same() {
    let project = Project::with_port("wrong_eps");
    let kept = project.run(&[]);
    let limited = Ran::of(project.command(&[]).env("PARITY_KEEP_LIMIT", "1").output().unwrap());
    assert_eq!(limited.ended("FAILED"), kept.ended("FAILED"));
    limited.is_red(&[
        "  actual   not kept: the actuals of this run have reached PARITY_KEEP_LIMIT; raise the limit,",
        ", 3 actuals not kept\n",
    ]);
    let run = project.path("target/parity/runs/latest/gated_mlp/block");
    assert!(!run.join("actual").exists() && !run.join("local/actual").exists());
}

#[test]
fn above_the_size_limit_no_actual_is_kept_and_the_verdict_is_the_same() {
    let project = Project::with_port("wrong_eps");
    let kept = project.run(&[]);
    let limited = Ran::of(
        project.command(&[]).env("PARITY_SIZE_LIMIT", "1").env("PARITY_SIZE_WARN", "1").output().unwrap(),
    );
    assert_eq!(limited.ended("FAILED"), kept.ended("FAILED"));
    limited.is_red(&[
        "parity: warning: fixtures and runs take ",
        "above 1 bytes no actual is kept; remove old runs with `cargo parity clean`",
        "  actual   not kept: fixtures and runs have reached PARITY_SIZE_LIMIT; remove old runs with",
        ", 3 actuals not kept\n",
    ]);
    assert!(!kept.text.contains("not kept") && kept.text.contains("actual/norm.npy"), "{}", kept.text);
    let run = project.path("target/parity/runs/latest/gated_mlp/block");
    assert!(!run.join("actual").exists() && !run.join("local/actual").exists());
    let records = fs::read_to_string(run.join("records.jsonl")).unwrap();
    assert_eq!(records.matches("\"not_kept\":\"fixtures and runs").count(), 3);
    project.report(&[]).prints(&[", 3 actuals not kept\n"]);
}
