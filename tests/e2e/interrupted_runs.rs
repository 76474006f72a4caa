//! Runs that are killed or interrupted, and runs at the same time: no verdict is lost, and none is reported twice.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Stdio};

use crate::processes::{is_alive, signal, until};
use crate::project::{Project, Ran};

/// Starts a suite whose port hangs before `out`, and waits until it has reached `gated`.
pub(crate) fn hanging(project: &Project, variables: &[(&str, &str)]) -> Child {
    let mut suite = project.command(&["--skip", "parity::smoke"]);
    let child = suite
        .envs(variables.iter().copied())
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let records = project.path("target/parity/runs/latest/gated_mlp/block/records.jsonl");
    until(|| fs::read_to_string(&records).is_ok_and(|text| text.contains("\"checkpoint\":\"gated\"")));
    child.unwrap()
}

#[test]
fn a_suite_that_is_killed_leaves_a_readable_run_and_no_worker() {
    let project = Project::with_port("hang");
    let mut suite = hanging(&project, &[]);
    suite.kill().unwrap();
    suite.wait().unwrap();
    let worker = project.workers().remove(0);
    until(|| !is_alive(&worker));
    let ran = project.report(&["--failures"]);
    assert_eq!(ran.code, Some(1));
    ran.prints(&[
        "ok        norm",
        "ok        gated",
        "pending   out",
        "the run was interrupted after checkpoint `gated`: the process that ran this spec was killed",
        "3 passed, 0 failed, 0 ignored, 3 pending, 1 spec",
    ]);
    // The port is not blamed for a suite that was killed.
    assert!(!ran.text.contains("crash") && !ran.text.contains("faulty stage"), "{}", ran.text);
    let trials = project.trials();
    assert!(trials.contains(r#""trial":"out","status":"pending""#), "{trials}");
    assert!(project.path("target/parity/runs/latest/junit.xml").is_file());
    let diagnosed = Ran::of(project.xtask(&["diagnose"]).output().unwrap());
    assert_eq!(diagnosed.code, Some(1), "what is not known is not green");
    assert!(!diagnosed.text.contains("first faulty stage:"), "{}", diagnosed.text);
}

#[test]
fn a_suite_that_is_interrupted_leaves_a_readable_run_too() {
    let project = Project::with_port("hang");
    heed_interrupts();
    let mut suite = hanging(&project, &[]);
    // A terminal sends the signal to the whole process group.
    signal("-INT", &format!("-{}", suite.id()));
    until(|| !is_alive(&suite.id().to_string()));
    assert_eq!(suite.wait().unwrap().signal(), Some(2));
    until(|| !is_alive(&project.workers()[0]));
    project.report(&[]).prints(&["ok        gated", "pending   out"]);
}

#[test]
fn a_run_that_goes_on_is_not_called_dead() {
    let project = Project::with_port("hang");
    let mut suite = hanging(&project, &[]);
    let ran = project.report(&[]);
    assert_eq!(ran.code, Some(1), "it is not complete");
    ran.prints(&[
        "ok        gated",
        "pending   out",
        "the spec is still running, after checkpoint `gated`",
        "3 passed, 0 failed, 0 ignored, 3 pending, 1 spec",
    ]);
    suite.kill().unwrap();
    suite.wait().unwrap();
}

#[test]
fn a_worker_that_is_killed_ends_what_it_had_not_reached() {
    let project = Project::with_port("hang");
    let suite = project.command(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let records = project.path("target/parity/runs/latest/gated_mlp/block/records.jsonl");
    until(|| fs::read_to_string(&records).is_ok_and(|text| text.contains("\"checkpoint\":\"gated\"")));
    signal("-KILL", &project.workers()[0]);
    let ran = Ran::of(suite.wait_with_output().unwrap());
    ran.is_red(&["out: crash", "killed by SIGKILL (possibly out of memory) after checkpoint `gated`"]);
    assert_eq!(ran.ended("ok"), ["gated", "norm"]);
}

#[test]
fn every_trial_that_was_not_reached_gives_the_reason() {
    let project = Project::with_port("weight_invented");
    let ran = project.run(&[]);
    ran.is_red(&[
        "norm: the weight audit failed\n",
        "the port failed before any checkpoint: weight `down.scale` does not exist",
        "out: the weight audit failed, not run: the port failed before any checkpoint: weight `down.scale` does not exist; see",
    ]);
    // With one process per test, each test must name the reason itself.
    project.as_nextest("out", "one", "1").is_red(&["weight `down.scale` does not exist"]);
}

#[test]
fn a_worker_that_dies_once_its_port_is_back_is_noted_and_changes_no_verdict() {
    let ran = Project::with_port("dies_late").xtask(&["parity"]).output().unwrap();
    let ran = Ran::of(ran);
    ran.is_green();
    ran.prints(&["the worker was killed by SIGABRT after the port had returned"]);
}

#[test]
fn two_runs_at_once_do_not_disturb_each_other() {
    let project = Project::with_port("right");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| project.run(&[]).is_green());
        }
    });
    assert_eq!(project.forwards(), 2);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn repeated_runs_give_the_same_verdicts() {
    let project = Project::with_port("scaled");
    let trials = || {
        let ran = project.run(&[]);
        assert_eq!(ran.code, Some(101), "{}", ran.text);
        project.trials()
    };
    let first = trials();
    assert_eq!(first.lines().count(), 8);
    for _ in 1..20 {
        assert_eq!(trials(), first);
    }
}

/// Lets later children end by an interrupt, even if this process ignores interrupts because `nohup` or a script with `&`
/// started it. Children inherit that a signal is ignored, but no handler.
fn heed_interrupts() {
    #[expect(clippy::exit, reason = "an interrupt ends the tests, as it does without a handler")]
    ctrlc::set_handler(|| std::process::exit(130)).unwrap();
}
