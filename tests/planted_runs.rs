//! Runs that are cut short, that meet each other, that are told later: nothing reached is lost, nothing is told twice.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod changed_inputs;
mod kill_campaign;
mod project;
mod run_names;
mod workers;

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use project::{Project, Ran};

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";

/// A suite whose port has met `gated` and hangs before `out`.
fn hanging(project: &Project, variables: &[(&str, &str)]) -> Child {
    let mut suite = project.command(&[]);
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

/// Waits for something that happens soon, or never.
#[track_caller]
fn until(happens: impl Fn() -> bool) {
    let happened = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        happens()
    });
    assert!(happened, "waited for 30 s");
}

fn signal(signal: &str, process: &str) {
    assert!(Command::new("kill").args([signal, "--", process]).status().unwrap().success());
}

fn is_alive(process: &str) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", process]).output().unwrap();
    let state = String::from_utf8(output.stdout).unwrap();
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

/// What `cargo xtask report` says of the newest run.
fn report(project: &Project, arguments: &[&str]) -> Ran {
    Ran::of(project.xtask(&[&["report"], arguments].concat()).output().unwrap())
}

#[test]
fn a_suite_that_is_killed_leaves_a_readable_run_and_no_worker() {
    let project = Project::with_port("hang");
    let mut suite = hanging(&project, &[]);
    suite.kill().unwrap();
    suite.wait().unwrap();
    let worker = project.workers().remove(0);
    until(|| !is_alive(&worker));
    let ran = report(&project, &["--failures"]);
    assert_eq!(ran.code, Some(1));
    ran.says(&[
        "ok        norm",
        "ok        gated",
        "pending   out",
        "the run was interrupted after checkpoint `gated`: the process that ran this spec was killed",
        "3 passed, 0 failed, 0 ignored, 3 pending, 1 spec",
    ]);
    // Whoever killed the suite, it was not the port.
    assert!(!ran.said.contains("crash") && !ran.said.contains("faulty stage"), "{}", ran.said);
    let trials = fs::read_to_string(project.path("target/parity/runs/latest/trials.jsonl")).unwrap();
    assert!(trials.contains(r#""trial":"out","status":"pending""#), "{trials}");
    assert!(project.path("target/parity/runs/latest/junit.xml").is_file());
    let diagnosed = Ran::of(project.xtask(&["diagnose"]).output().unwrap());
    assert_eq!(diagnosed.code, Some(1), "what is not known is not green");
    assert!(!diagnosed.said.contains("culprit"), "{}", diagnosed.said);
}

#[test]
fn a_suite_that_is_interrupted_leaves_a_readable_run_too() {
    let project = Project::with_port("hang");
    let mut suite = hanging(&project, &[]);
    // As a terminal does it: to all of the group.
    signal("-INT", &format!("-{}", suite.id()));
    assert_eq!(suite.wait().unwrap().signal(), Some(2));
    until(|| !is_alive(&project.workers()[0]));
    report(&project, &[]).says(&["ok        gated", "pending   out"]);
}

#[test]
fn a_run_that_goes_on_is_not_called_dead() {
    let project = Project::with_port("hang");
    let mut suite = hanging(&project, &[]);
    let ran = report(&project, &[]);
    assert_eq!(ran.code, Some(1), "it is not complete");
    ran.says(&[
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
    ran.is_red(&["out: crash", "killed by SIGKILL (out of memory, perhaps) after checkpoint `gated`"]);
    assert_eq!(ran.ended("ok"), ["gated", "norm"]);
}

#[test]
fn every_trial_that_was_not_reached_says_why_and_the_cause_is_told_once() {
    let project = Project::with_port("weight_invented");
    let ran = project.run(&[]);
    ran.is_red(&["not reached: the port failed before any checkpoint: there is no weight `down.scale`"]);
    // With a process a test, the one that tells more may be far away.
    project.as_nextest("out", "one", "1").is_red(&["there is no weight `down.scale`"]);
}

#[test]
fn a_worker_that_dies_once_its_port_is_back_is_noted_and_changes_no_verdict() {
    let ran = Project::with_port("dies_late").xtask(&["parity"]).output().unwrap();
    let ran = Ran::of(ran);
    ran.is_green();
    ran.says(&["the worker was killed by SIGABRT after the port had come back"]);
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
fn a_hundred_runs_give_the_same_verdicts() {
    let project = Project::with_port("scaled");
    let told = || {
        let ran = project.run(&[]);
        assert_eq!(ran.code, Some(101), "{}", ran.said);
        let path = project.path("target/parity/runs/latest/trials.jsonl");
        fs::read_to_string(path).unwrap()
    };
    let first = told();
    assert_eq!(first.lines().count(), 7);
    for _ in 1..100 {
        assert_eq!(told(), first);
    }
}

#[test]
fn what_nextest_ran_is_told_by_report() {
    let project = Project::with_port("scaled");
    for name in ["norm", "gated", "out", "fixture", "weights"] {
        project.as_nextest(name, "one", "1");
    }
    // Once as it is, and since that was red, once on golden inputs.
    assert_eq!(project.forwards(), 2);
    let ran = report(&project, &["--failures"]);
    assert_eq!(ran.code, Some(1));
    ran.says(&[
        "value     gated",
        "first divergence, last green: norm",
        "gated_mlp/block::gated: value differs",
        "4 passed, 2 failed, 0 ignored, 1 spec",
    ]);
    let junit = fs::read_to_string(project.path("target/parity/runs/latest/junit.xml")).unwrap();
    assert!(junit.contains("failures=\"2\""), "{junit}");
}

#[test]
fn report_of_a_run_that_is_not_there_says_what_to_do() {
    let project = Project::with_port("right");
    let ran = report(&project, &[]);
    assert_eq!(ran.code, Some(1));
    ran.says(&["nothing has been run yet", "cargo xtask parity"]);
    project.run(&[]).is_green();
    report(&project, &["../../x"]).says(&["there is no run `../../x`"]);
}

#[test]
fn every_trial_is_accounted_for() {
    let project = Project::with_port("scaled");
    project.declare("  - {name: gated, dtype: float32, policy: fp32, gate: false, why: planted}");
    project.run(&[]).says(&["parity: 7 declared = 4 passed + 2 failed + 0 ignored + 1 not gated\n"]);
    project.run(&["::norm"]).says(&["parity: 1 declared = 1 passed + 0 failed + 0 ignored + 0 not gated\n"]);
}

#[test]
fn what_a_removed_spec_leaves_behind_is_red() {
    let project = Project::with_port("right");
    let (from, to) = (project.path("fixtures/gated_mlp/block"), project.path("fixtures/gated_mlp/gone"));
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    let ran = project.run(&[]);
    ran.is_red(&["parity::discovery", "no spec uses the fixtures `gated_mlp/gone`"]);
    assert_eq!(ran.ended("FAILED"), [""; 0], "the others are as they were");
}

#[test]
fn a_golden_that_nobody_declares_is_red() {
    let project = Project::with_port("right");
    project.declare("");
    project.run(&[]).is_red(&["parity::discovery", "have goldens that no spec declares: `gated`"]);
}

#[test]
fn taps_in_another_order_are_told_in_the_order_of_the_run() {
    let ran = Ran::of(Project::with_port("reordered").xtask(&["parity"]).output().unwrap());
    ran.is_green();
    ran.says(&["order: the port came to `norm` after `out`, the reference before it"]);
    let place = |name: &str| ran.said.find(&format!("ok        {name}")).unwrap();
    assert!(place("out") < place("norm") && place("norm") < place("gated"), "{}", ran.said);
}

#[test]
fn warm_runs_are_timed_apart_from_the_first() {
    let project = Project::with_port("right");
    let ran = Ran::of(project.xtask(&["parity"]).env("PARITY_TIMES", "3").output().unwrap());
    ran.is_green();
    ran.says(&["first ms", "warm ms"]);
    assert_eq!(project.forwards(), 4);
    let times = fs::read_to_string(project.path("target/parity/runs/latest/gated_mlp/block/times.json"));
    let times: serde_json::Value = serde_json::from_str(&times.unwrap()).unwrap();
    assert!(["norm", "gated", "out"].iter().all(|name| times[name].as_f64().unwrap() > 0.0), "{times}");
}

#[test]
fn a_timed_run_may_be_filtered_and_is_then_not_timed() {
    let project = Project::with_port("right");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ntimeout: 60s");
    let output = project.command(&["::norm"]).env("PARITY_TIMES", "3").output().unwrap();
    Ran::of(output).is_green();
    assert_eq!(project.forwards(), 1);
}
