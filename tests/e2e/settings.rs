//! A setting that cannot be followed is red under any filter, and so is a request that an earlier command left in the shell.

use std::fs;

use rstest::rstest;

use crate::project::{Project, Ran, SPEC};

const NORM: &str = "gated_mlp/block::norm";
const ALL: [&str; 5] = ["fixture", "gated", "norm", "out", "weights"];

/// Runs the suite with these variables.
fn run(project: &Project, arguments: &[&str], set: &[(&str, &str)]) -> Ran {
    Ran::of(project.command(arguments).envs(set.iter().copied()).output().unwrap())
}

#[rstest]
#[case::level(&[("PARITY_LEVEL", "abc")], "PARITY_LEVEL is `abc`, expected a number from 0 to 255")]
#[case::times(&[("PARITY_TIMES", "often")], "PARITY_TIMES is `often`, expected a number from 0 to 1000")]
#[case::require(&[("PARITY_REQUIRE", "yes")], "PARITY_REQUIRE is `yes`, expected `declared` or `all`")]
#[case::localise(&[("PARITY_LOCALISE", "yes")], "PARITY_LOCALISE is `yes`, expected `0` or `1`")]
#[case::inject(&[("PARITY_INJECT", "nrom")], "PARITY_INJECT is `nrom`, expected checkpoints that have goldens")]
#[case::localise_in_ci(&[("PARITY_LOCALISE", "1"), ("CI", "true")], "PARITY_LOCALISE is `1`, expected it to be unset in CI")]
#[case::inject_in_ci(&[("PARITY_INJECT", "norm"), ("CI", "true")], "PARITY_INJECT is `norm`, expected it to be unset in CI")]
#[case::out(&[("PARITY_OUT", "")], "PARITY_OUT is ``, expected a folder")]
#[case::fixtures(&[("PARITY_FIXTURES", "")], "PARITY_FIXTURES is ``, expected a folder")]
#[case::no_fixtures(&[("PARITY_FIXTURES", "nowhere")], "expected an existing folder")]
#[case::size(&[("PARITY_SIZE_LIMIT", "plenty")], "PARITY_SIZE_LIMIT is `plenty`, expected a size such as")]
#[case::slip(&[("PARITY_LEVL", "2")], "PARITY_LEVL is set, but nothing reads it, did you mean `PARITY_LEVEL`?")]
#[case::unknown(&[("PARITY_MINE", "")], "PARITY_MINE is set, but nothing reads it")]
#[case::mutate(&[("PARITY_MUTATE", "gated_mlp/block")], "PARITY_MUTATE is `gated_mlp/block`, expected it to be unset")]
#[case::mutate_in_ci(&[("PARITY_MUTATE", "gated_mlp/block"), ("CI", "true")], "PARITY_MUTATE is `gated_mlp/block`, expected it to be unset")]
#[case::worker(&[("PARITY_WORKER", "/nowhere/job.json")], "PARITY_WORKER is `/nowhere/job.json`, but the process that set it has ended")]
#[case::snapshot(&[("PARITY_SNAPSHOT", "/nowhere")], "PARITY_SNAPSHOT is `/nowhere`, but the process that set it has ended")]
#[case::bench(&[("PARITY_BENCH_SPECS", "/nowhere")], "PARITY_BENCH_SPECS is `/nowhere`, but the process that set it has ended")]
fn a_refused_setting_is_red_under_any_filter(#[case] set: &[(&str, &str)], #[case] text: &str) {
    let project = Project::with_port("right");
    let listed = run(&project, &["--list"], set);
    listed.is_green();
    listed.prints(&["parity::settings: test", "parity::discovery: test"]);
    ALL.iter().for_each(|name| listed.prints(&[&format!("gated_mlp/block::{name}: test")]));

    let ran = run(&project, &[], set);
    ran.is_red(&[text]);
    assert_eq!(ran.ended("FAILED"), ALL, "{}", ran.text);
    assert!(ran.text.contains(" 0 passed;"), "{}", ran.text);
    let filters: [&[&str]; 6] = [
        &["gated_mlp"],
        &["--exact", NORM],
        &["--exact", "gated_mlp/block::gone"],
        &["nothing like it"],
        &["--skip", ":"],
        &["--ignored"],
    ];
    for filter in filters {
        run(&project, filter, set).is_red(&[text]);
    }
    let in_nextest = [set, &[("NEXTEST_RUN_ID", "one"), ("NEXTEST_ATTEMPT", "1")]].concat();
    run(&project, &["--exact", NORM, "--nocapture"], &in_nextest).is_red(&[text]);

    for command in [&["parity", "gated_mlp"][..], &["parity"], &["parity", "nothing like it"]] {
        let ran = Ran::of(project.xtask(command).envs(set.iter().copied()).output().unwrap());
        assert_eq!(ran.code, Some(1), "{}", ran.text);
        ran.prints(&[text]);
    }
    assert_eq!(project.forwards(), 0);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn every_command_refuses_what_it_could_not_follow() {
    let project = Project::with_port("right");
    project.run(&[]).is_green();
    let refused = |arguments: &[&str], variable: &str, value: &str, text: &str| {
        let ran = Ran::of(project.xtask(arguments).env(variable, value).output().unwrap());
        assert_eq!(ran.code, Some(1), "{}", ran.text);
        ran.prints(&[text]);
    };
    refused(&["report"], "PARITY_LEVEL", "abc", "error: PARITY_LEVEL is `abc`");
    refused(&["list"], "PARITY_LEVL", "2", "did you mean `PARITY_LEVEL`?");
    refused(&["bisect", "gated_mlp/block"], "PARITY_WORKER", "x", "error: PARITY_WORKER is `x`");
    refused(
        &["regenerate-fixtures"],
        "PARITY_SIZE_LIMIT",
        "plenty",
        "PARITY_SIZE_LIMIT is `plenty`, expected a size",
    );
    refused(&["doctor"], "PARITY_LEVEL", "abc", "PARITY_LEVEL is `abc`, expected a number");
    refused(&["doctor"], "PARITY_LEVL", "2", "nothing reads it, did you mean `PARITY_LEVEL`?");
    for size in ["20GB", "512 MiB", "1000000000"] {
        let output = project.xtask(&["list"]).env("PARITY_SIZE_LIMIT", size).output().unwrap();
        assert!(output.status.success(), "{size}");
    }
}

#[test]
fn a_variable_that_a_spec_requires_is_its_own() {
    let project = Project::with_port("right");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\nrequires: [\"env:PARITY_MINE\"]");
    run(&project, &[], &[("PARITY_MINE", "1")]).is_green();
    run(&project, &["--exact", NORM], &[("PARITY_MINE", "1")]).is_green();
    run(&project, &["--exact", NORM], &[("PARITY_OURS", "1")])
        .is_red(&["PARITY_OURS is set, but nothing reads it"]);
}

#[test]
fn what_a_killed_process_asked_for_is_not_done() {
    let project = Project::with_port("right");
    project.run(&[]).is_green();
    assert_eq!(project.forwards(), 1);
    let folder = project.path("target/parity/runs/latest/gated_mlp/block");
    let job = folder.join("job.json");
    let asked = project.path("asked");
    for (variable, value) in [
        ("PARITY_WORKER", &job),
        ("PARITY_SNAPSHOT", &folder),
        ("PARITY_SMOKE", &folder),
        ("PARITY_MUTATE", &job),
    ] {
        let value = value.to_str().unwrap();
        // The file repeats the request, but nobody holds its lock.
        fs::write(&asked, format!("{variable}={value}")).unwrap();
        let set = [(variable, value), ("PARITY_ASKED", asked.to_str().unwrap())];
        run(&project, &[], &set).is_red(&[variable]);
        run(&project, &["--list"], &set).is_green();
    }
    assert_eq!(project.forwards(), 1);
}

#[test]
fn a_suite_without_threads_ends() {
    let ran = Project::with_port("right").run(&["--test-threads", "0"]);
    ran.is_red(&["error: argument for --test-threads must not be 0"]);
}
