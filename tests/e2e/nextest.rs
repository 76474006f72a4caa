//! The suite under nextest, which starts one process per test.

use crate::project::{Project, SPEC};

#[test]
fn a_process_that_was_killed_is_not_followed_by_another() {
    let project = Project::with_port("kills_its_suite");
    assert_eq!(project.as_nextest("norm", "one", "1").code, None, "it was killed");
    project.as_nextest("out", "one", "1").is_red(&[
        "out: pending",
        "the run was interrupted after checkpoint `gated`: the process that ran this spec was killed",
    ]);
    assert_eq!(project.forwards(), 1);
}

#[test]
fn processes_of_one_nextest_run_share_one_worker() {
    let project = Project::with_port("right");
    std::thread::scope(|scope| {
        for name in ["out", "norm", "gated", "fixture", "weights", "stats"] {
            let project = &project;
            scope.spawn(move || project.as_nextest(name, "one", "1").is_green());
        }
    });
    assert_eq!(project.forwards(), 1);
    project.as_nextest("out", "two", "1").is_green();
    assert_eq!(project.forwards(), 2);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_crash_is_repeated_by_a_retry_only() {
    let project = Project::with_port("crash_once");
    project.as_nextest("out", "one", "1").is_red(&["SIGABRT"]);
    project.as_nextest("norm", "one", "1").is_green();
    assert_eq!(project.forwards(), 1);
    project.as_nextest("out", "one", "2").is_green();
    assert_eq!(project.forwards(), 2);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_crash_is_repeated_once_per_attempt() {
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
fn a_new_attempt_keeps_nothing_of_the_last() {
    let project = Project::with_port("abort");
    project.as_nextest("out", "one", "1").is_red(&["after checkpoint `gated`"]);
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ndevice: gpu");
    if cfg!(target_os = "linux") {
        project.as_nextest("out", "one", "2").is_red(&["before any checkpoint"]);
        project.as_nextest("norm", "one", "2").is_red(&["norm: crash"]);
    }
}
