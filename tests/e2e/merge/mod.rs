//! `report --merge`: a suite that was split over processes or machines ends as one report, and everything that does not add up
//! is a finding.

mod findings;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::project::{Project, Ran, SPEC};

/// The second spec of the projects here, over the same fixtures.
const TWO: &str = "parity-specs/gated_mlp/two.yaml";

/// A project with two specs, whose only snapshot is that of the first.
fn two_specs(port: &str) -> Project {
    let project = Project::with_port(port);
    let spec = fs::read_to_string(project.path(SPEC)).unwrap();
    let two = spec.replacen("version: 1", "version: 1\nfixtures: gated_mlp/block", 1);
    fs::write(project.path(TWO), two).unwrap();
    project
}

/// Runs a part of the suite under this name.
fn part(project: &Project, name: &str, arguments: &[&str]) -> Ran {
    part_with(project, name, arguments, &[])
}

fn part_with(project: &Project, name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = project.command(arguments);
    command.env("PARITY_RUN", name).envs(variables.iter().copied());
    Ran::of(command.output().unwrap())
}

/// The three parts that cover a project of [`two_specs`].
fn three_parts(project: &Project) {
    part(project, "one", &["gated_mlp/block::"]).is_green();
    part(project, "two", &["gated_mlp/two::"]).is_green();
    part(project, "whole", &["parity::"]).is_green();
}

/// Runs trials as one partition of nextest does: a process per trial, all of one run.
fn nextest(project: &Project, run: &str, trials: &[&str]) -> PathBuf {
    for trial in trials {
        let name =
            if trial.contains("::") { (*trial).to_owned() } else { format!("gated_mlp/block::{trial}") };
        let mut command = project.command(&["--exact", &name, "--nocapture"]);
        command.env("NEXTEST_RUN_ID", run).env("NEXTEST_ATTEMPT", "1").env("PARITY_RUN", run);
        command.output().unwrap();
    }
    project.path("target/parity/runs").join(format!("{run}-"))
}

fn merge(project: &Project, parts: &[&str]) -> Ran {
    project.report(&[&["--merge"], parts].concat())
}

/// Expects exit code 1 and these words.
#[track_caller]
fn is_found(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(words);
}

/// Spec, trial, status and class of each line of `trials.jsonl` of the newest run.
fn verdicts(project: &Project) -> BTreeSet<[String; 4]> {
    let of = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        ["spec", "trial", "status", "class"].map(|key| line[key].to_string())
    };
    project.trials().lines().map(of).collect()
}

fn runs(project: &Project) -> Vec<String> {
    let entries = fs::read_dir(project.path("target/parity/runs")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn parts_by_spec_report_as_one_run() {
    let project = two_specs("right");
    project.run(&[]).is_green();
    let whole = verdicts(&project);
    three_parts(&project);
    let before = runs(&project);
    let ran = merge(&project, &["one", "two", "whole"]);
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    ran.prints(&[
        "merged from 3 runs:\n  one  6 trials of 1 spec, filter `gated_mlp/block::`; MLX ",
        "  whole  2 trials of 0 specs, filter `parity::`",
        "13 passed, 0 failed, 0 ignored, 1 new snapshot, 2 specs\n",
    ]);
    assert_eq!(verdicts(&project), whole, "the same verdicts as of one run");
    let merged = project.path("target/parity/runs/latest");
    for file in ["report.html", "report.txt", "junit.xml", "trials.jsonl", "merge.json", ".parity-run.json"] {
        assert!(merged.join(file).is_file(), "{file}");
    }
    assert!(
        fs::read_to_string(merged.join("report.txt"))
            .unwrap()
            .contains("merged from 3 runs:\n  one  6 trials")
    );
    assert!(fs::read_to_string(merged.join("report.html")).unwrap().contains("6 trials of 1 spec"));
    assert_eq!(runs(&project).len(), before.len() + 1, "the parts stay, and nothing else is left");
    // The merged folder is a run as any other.
    let again = project.report(&["--all"]);
    assert_eq!(again.code, Some(0), "{}", again.text);
    again.prints(&["merged from 3 runs:", "ok        norm"]);
}

#[test]
fn partitions_of_nextest_report_as_one_run_also_when_zipped() {
    let project = Project::with_port("scaled");
    let first = nextest(&project, "part-1-of-2", &["parity::smoke", "norm", "out", "weights"]);
    let second = nextest(&project, "part-2-of-2", &["parity::discovery", "gated", "fixture", "stats"]);
    let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
    let zips = [first, second].map(|run| {
        let zip = project.path(&format!("{}.zip", Path::new(run).file_name().unwrap().to_str().unwrap()));
        project.report(&["--pack", zip.to_str().unwrap(), run]);
        fs::remove_dir_all(run).unwrap();
        zip.to_str().unwrap().to_owned()
    });
    let ran = merge(&project, &[&zips[0], &zips[1], "--failures"]);
    // The port is wrong, and nothing else is.
    is_found(
        &ran,
        &[
            "value     gated",
            "first divergence, last green: norm",
            "gated_mlp/block::gated: value differs",
            "  part-1-of-2-.zip  4 trials of 1 spec, nextest; MLX ",
            "  part-2-of-2-.zip  4 trials of 1 spec, nextest; MLX ",
            "5 passed, 3 failed, 0 ignored, 1 spec\n",
        ],
    );
    assert!(!ran.text.contains("merge: "), "{}", ran.text);
    let merged = project.path("target/parity/runs/latest/gated_mlp/block");
    assert!(fs::metadata(merged.join("actual/gated.npy")).unwrap().len() > 1000, "the tensors came along");
    assert!(merged.join("stats.json").is_file(), "so did the statistics, from the part that compared them");
    let junit = fs::read_to_string(project.path("target/parity/runs/latest/junit.xml")).unwrap();
    assert!(junit.contains("failures=\"3\""), "{junit}");
}

#[test]
fn a_spec_that_one_machine_ignores_counts_where_it_was_judged() {
    let project = two_specs("right");
    project.edit(TWO, "inputs: [x]", "inputs: [x]\nrequires: [\"env:MERGE_HAS_IT\"]");
    part(&project, "without", &["--skip", "nothing-has-this-name"]).is_green();
    let here = [("MERGE_HAS_IT", "1")];
    part_with(&project, "with", &["gated_mlp/two::"], &here).is_green();
    let ran = merge(&project, &["without", "with"]);
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    ran.prints(&["13 passed, 0 failed, 0 ignored, 1 new snapshot, 2 specs"]);
    // Ignored everywhere: with its reason.
    part(&project, "block", &["gated_mlp/"]).is_green();
    part(&project, "whole", &["parity::"]).is_green();
    let ran = merge(&project, &["block", "whole"]);
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    ran.prints(&["gated_mlp/two  ignored: it needs the environment variable MERGE_HAS_IT", "6 ignored"]);
    // Ignored by one, and the machine that has it was not asked for it.
    part_with(&project, "other", &["parity::"], &here).is_green();
    is_found(
        &merge(&project, &["block", "other"]),
        &[
            "merge: no run judged `gated_mlp/two` (6 trials); `block` ignored the spec, because it needs the environment variable",
        ],
    );
}

#[test]
fn a_spec_may_be_split_by_checkpoint() {
    let project = Project::with_port("right");
    // Each part stops its port early, so no part has the results of all trials.
    part(&project, "norm", &["::norm"]).is_green();
    part(&project, "gated", &["::gated"]).is_green();
    part(&project, "rest", &["--skip", "::norm", "--skip", "::gated", "--skip", "::out"]).is_green();
    part(&project, "out", &["::out"]).is_green();
    let ran = merge(&project, &["norm", "gated", "out", "rest"]);
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    ran.prints(&["8 passed, 0 failed, 0 ignored, 1 spec"]);
    is_found(&merge(&project, &["norm", "gated"]), &["2 passed, 2 failed, 0 ignored, 4 pending, 1 spec"]);
}

#[test]
fn a_merged_run_is_a_run_for_other_commands() {
    let project = two_specs("right");
    fs::remove_file(project.path("tests/snapshots/gated_mlp__block.snap")).unwrap();
    three_parts(&project);
    let zip = project.path("m.zip");
    let zip = zip.to_str().unwrap();
    let parts = ["--merge", "one", "two", "whole"];
    let ran = project.report(&[&parts[..], &["--keep", "merged", "--html", "--pack", zip]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    assert!(project.path("target/parity/runs/merged/report.html").is_file());
    let unpacked = project.report(&[zip]);
    assert_eq!(unpacked.code, Some(0), "{}", unpacked.text);
    unpacked.prints(&["merged from 3 runs:"]);
    project.report(&["one", "--against", "merged"]).prints(&["merged from 3 runs"]);
    // `--keep` never takes the name of another run.
    let taken = project.report(&[&parts[..], &["--keep", "one"]].concat());
    is_found(&taken, &["there is already a run called `one`"]);
    let accepted = Ran::of(project.xtask(&["accept", "--run", "merged"]).output().unwrap());
    assert_eq!(accepted.code, Some(0), "{}", accepted.text);
    for spec in ["block", "two"] {
        let snapshot = project.path(&format!("tests/snapshots/gated_mlp__{spec}.snap"));
        assert!(snapshot.is_file(), "{}", accepted.text);
    }
    let lint = Ran::of(project.xtask(&["lint"]).output().unwrap());
    lint.prints(&["the gates of 6 lines were compared with run"]);
}

#[test]
fn nothing_remains_of_a_merge_that_fails() {
    let project = two_specs("right");
    three_parts(&project);
    let before = runs(&project);
    is_found(
        &merge(&project, &["gone", "lost"]),
        &["nothing to merge: 2 runs given", "`gone` cannot be read", "--merge parts/*"],
    );
    assert_eq!(runs(&project), before);
    // A run and its parts cannot be reported at once.
    let ran = project.report(&["one", "--merge", "two"]);
    assert_eq!(ran.code, Some(2), "{}", ran.text);
}

#[test]
fn a_hostile_part_writes_nothing_outside_the_merged_run() {
    let project = two_specs("right");
    three_parts(&project);
    let suites = project.path("target/parity/runs/one/suites");
    let plan = walkdir::WalkDir::new(suites).into_iter().map(Result::unwrap);
    let plan = plan.into_iter().find(|entry| entry.file_name() == "plan.json").unwrap().into_path();
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("\"gated_mlp/block\"", "\"../../../outside\"")).unwrap();
    is_found(
        &merge(&project, &["one", "two", "whole"]),
        &[
            "merge: `one` cannot be read: its plan has the spec `../../../outside`, whose folder would not be inside",
        ],
    );
    assert!(!project.path("target/outside").exists());
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_killed_merge_leaves_no_half_of_a_run() {
    let project = two_specs("right");
    three_parts(&project);
    for millis in (0..120).step_by(8) {
        let mut command = project.xtask(&["report", "--merge", "one", "two", "whole"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap();
        let merged: Vec<PathBuf> = runs(&project)
            .into_iter()
            .filter(|name| {
                !name.starts_with('.') && !["one", "two", "whole", "latest"].contains(&name.as_str())
            })
            .map(|name| project.path("target/parity/runs").join(name))
            .collect();
        for run in &merged {
            let files =
                ["merge.json", "report.html", "junit.xml", "gated_mlp/two/records.jsonl", ".parity-run.json"];
            files
                .iter()
                .for_each(|file| assert!(run.join(file).is_file(), "{} has no {file}", run.display()));
        }
    }
    let ran = merge(&project, &["one", "two", "whole"]);
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    let left: Vec<String> = runs(&project).into_iter().filter(|name| name.starts_with(".aside")).collect();
    assert!(left.is_empty(), "the next merge removes what the killed ones left: {left:?}");
}
