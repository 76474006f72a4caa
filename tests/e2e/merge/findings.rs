//! Everything that makes a merged run prove less than one whole run, planted one by one.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{TWO, is_found, merge, nextest, part, part_with, three_parts, two_specs};
use crate::interrupted_runs::hanging;
use crate::project::{Project, Ran, SPEC};

fn git(project: &Project, arguments: &[&str]) {
    let name = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"];
    let mut command = Command::new("git");
    command.arg("-C").arg(project.path("")).args(name).args(arguments);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.text);
}

#[test]
fn trials_that_no_part_judged_are_holes() {
    let project = two_specs("right");
    part(&project, "job-1-of-3", &["gated_mlp/block::"]).is_green();
    part(&project, "job-3-of-3", &["parity::smoke"]).is_green();
    let ran = merge(&project, &["job-1-of-3", "job-3-of-3"]);
    is_found(
        &ran,
        &[
            "merge: by the names of the runs, `job-2-of-3` is missing",
            "merge: no run judged `gated_mlp/two` (6 trials)",
            "merge: no run judged `parity::discovery`; give one job the filter `parity::`",
            "not run: gated_mlp/two",
            "1 spec not run",
        ],
    );
    // A spec of which only some trials are missing. The worker measured them, but nobody judged them.
    let first = nextest(&project, "a", &["parity::smoke", "parity::discovery", "norm", "weights"]);
    let second = nextest(&project, "b", &["gated", "fixture"]);
    let ran = merge(&project, &[first.to_str().unwrap(), second.to_str().unwrap()]);
    is_found(
        &ran,
        &["merge: no run judged 2 of 6 trials of `gated_mlp/block` (`out` and `stats`)", "2 pending"],
    );
    let trials = project.trials();
    assert!(trials.contains(r#""trial":"out","status":"pending""#), "{trials}");
    assert!(trials.contains(r#""trial":"norm","status":"pass""#), "{trials}");
}

#[test]
fn trials_that_two_parts_judged_are_duplicates() {
    let project = two_specs("right");
    three_parts(&project);
    part(&project, "again", &["::norm"]).is_green();
    is_found(
        &merge(&project, &["one", "two", "whole", "again"]),
        &[
            "merge: `one` and `again` judged 1 of 6 trials of `gated_mlp/block` (`norm`); they agree",
            "merge: `two` and `again` judged 1 of 6 trials of `gated_mlp/two` (`norm`); they agree",
            "13 passed, 2 failed, 0 ignored, 1 new snapshot, 2 specs",
        ],
    );
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn parts_that_disagree_name_the_trial_and_both_runs() {
    let project = Project::with_port("crash_once");
    let all = ["parity::smoke", "parity::discovery", "norm", "gated", "fixture", "weights", "stats"];
    let first = nextest(&project, "a", &all);
    // The port of this attempt does not crash.
    for trial in ["out", "norm"] {
        let mut command = project.command(&["--exact", &format!("gated_mlp/block::{trial}")]);
        command.env("NEXTEST_RUN_ID", "b").env("NEXTEST_ATTEMPT", "2").env("PARITY_RUN", "b");
        Ran::of(command.output().unwrap()).is_green();
    }
    let parts = [first.to_str().unwrap(), "b-"];
    let ran = merge(&project, &parts);
    is_found(
        &ran,
        &[
            "merge: `a-` and `b-` judged 1 of 6 trials of `gated_mlp/block` (`norm`); they agree",
            "merge: the runs of `gated_mlp/block` disagree: ",
            "`out` failed (crash) in `a-`, passed in `b-`",
        ],
    );
    assert!(
        project.trials().contains(r#""trial":"out","status":"fail","class":"crash""#),
        "the worse counts"
    );
    // The same trial, judged twice with two results.
    nextest(&project, "a", &["out"]);
    is_found(
        &merge(&project, &parts),
        &["judged 2 of 6 trials", "they disagree: `out` failed (crash) in `a-`, passed in `b-`"],
    );
}

#[test]
fn parts_that_do_not_belong_together_are_findings() {
    let project = two_specs("right");
    fs::write(project.path(".gitignore"), "target\ncount\ncargo\n").unwrap();
    git(&project, &["init", "--quiet"]);
    git(&project, &["add", "."]);
    git(&project, &["commit", "--quiet", "--message=a"]);
    part(&project, "one", &["gated_mlp/block::"]).is_green();
    project.edit(SPEC, "noise: 8", "noise: 7");
    let level = [
        ("PARITY_LEVEL", "1"),
        ("PARITY_REQUIRE", "all"),
        ("PARITY_DEVICE", "cpu"),
        ("PARITY_INJECT", "norm"),
    ];
    part_with(&project, "two", &["gated_mlp/two::"], &level);
    git(&project, &["commit", "--quiet", "--all", "--message=b"]);
    part(&project, "whole", &["parity::"]).is_green();
    let plan = project.path("target/parity/runs/whole/suites");
    let plan = walkdir::WalkDir::new(plan).into_iter().map(Result::unwrap);
    let plan = plan.into_iter().find(|entry| entry.file_name() == "plan.json").unwrap().into_path();
    let text = fs::read_to_string(&plan).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    json["mlx_parity"] = "9.9.9".into();
    fs::write(&plan, json.to_string()).unwrap();
    is_found(
        &merge(&project, &["one", "two", "whole"]),
        &[
            &format!(
                "merge: the version of mlx-parity differs: {} in `one` and `two`; 9.9.9 in `whole`",
                env!("CARGO_PKG_VERSION")
            ),
            "merge: the commit differs: ",
            "merge: tracked files differed from the commit in `two`, so the runs may not have tested the same code",
            "merge: PARITY_LEVEL differs: not set in `one` and `whole`; 1 in `two`",
            "merge: the injection of goldens differs: not set in `one` and `whole`; PARITY_INJECT=norm in `two`",
            "merge: PARITY_DEVICE differs: not set in `one` and `whole`; cpu in `two`",
            "merge: PARITY_REQUIRE differs: declared in `one` and `whole`; all in `two`",
            // The device is a part of a spec: `two` ran another text of both.
            "is not the same in `one` and in `two` and in `whole`",
        ],
    );
}

#[test]
fn a_job_that_was_killed_is_a_finding() {
    let project = Project::with_port("kills_its_suite");
    assert_eq!(part(&project, "killed", &[]).code, None);
    project.edit(SPEC, "port: kills_its_suite", "port: right");
    part(&project, "whole", &["parity::"]).is_green();
    is_found(
        &merge(&project, &["killed", "whole"]),
        &[
            "merge: `killed` did not end: its suite `",
            "merge: no run judged ",
            "merge: `gated_mlp/block` is not the same in",
        ],
    );
}

#[test]
fn a_part_that_still_runs_or_ran_nothing_is_a_finding() {
    let project = Project::with_port("hang");
    part(&project, "whole", &["parity::"]).is_green();
    let mut running = hanging(&project, &[("PARITY_RUN", "going")]);
    let ran = merge(&project, &["whole", "going"]);
    running.kill().unwrap();
    running.wait().unwrap();
    is_found(&ran, &["merge: `going` is still running; merge it after its end"]);
    // A suite that refuses its settings fails every trial for this reason.
    let mut command = project.command(&["--exact", "gated_mlp/block::norm"]);
    command.env("NEXTEST_RUN_ID", "refused").env("PARITY_RUN", "refused").env("PARITY_LEVEL", "high");
    Ran::of(command.output().unwrap()).is_red(&["PARITY_LEVEL is `high`"]);
    let ran = merge(&project, &["whole", "refused-"]);
    is_found(&ran, &["merge: `refused-` cannot be trusted: PARITY_LEVEL is `high`"]);
}

#[test]
fn what_is_no_part_is_a_finding_and_the_others_are_merged() {
    let project = two_specs("right");
    three_parts(&project);
    let file = |name: &str| project.path(name).to_str().unwrap().to_owned();
    let (damaged, zip, copied) = (file("damaged.zip"), file("packed.zip"), file("copied"));
    fs::write(&damaged, "rubbish").unwrap();
    assert!(project.report(&["one", "--pack", &zip]).text.contains("packed: "));
    fs::create_dir_all(project.path("target/parity/debug/session")).unwrap();
    fs::write(project.path("target/parity/debug/session/debug.json"), "{}").unwrap();
    fs::create_dir_all(&copied).unwrap();
    let ran = merge(&project, &["one", &zip, "one", "two", "whole", &damaged, "gone", "session", &copied]);
    is_found(
        &ran,
        &[
            "merge: `packed.zip` is the same run as `one`; it counts once",
            "merge: `one` is the same run as `one`; it counts once",
            "merge: `damaged.zip` cannot be read: ",
            "damaged.zip` is not a readable zip file",
            "merge: `gone` cannot be read: there is no run `gone`",
            "merge: `session` is a debug session, which judges nothing",
            "merge: `copied` cannot be read: it has no folder `suites`",
            "merged from 3 runs:",
            "13 passed, 6 failed, 0 ignored, 1 new snapshot, 2 specs",
        ],
    );
    // A merged run has the findings of its parts, and is no part.
    let merged = fs::read_link(project.path("target/parity/runs/latest")).unwrap();
    let ran = merge(&project, &["one", "two", "whole", merged.to_str().unwrap()]);
    is_found(&ran, &["is a merged run; give the runs that it was made from"]);
    is_found(
        &merge(&project, &["one"]),
        &["merge: only one run was given, `one`", "no run judged `gated_mlp/two`"],
    );
}

#[test]
fn a_run_without_trials_is_a_finding() {
    let project = two_specs("right");
    project.edit(TWO, "inputs: [x]", "inputs: [x]\nrequires: [\"env:MERGE_HAS_IT\"]");
    part(&project, "one", &["gated_mlp/block::"]).is_green();
    part(&project, "whole", &["parity::"]).is_green();
    // A command starts the run folder, also if every selected trial is ignored.
    let ran = Ran::of(project.xtask(&["parity", "gated_mlp/two::"]).output().unwrap());
    ran.prints(&["nothing is proven"]);
    let empty = fs::read_link(project.path("target/parity/runs/latest")).unwrap();
    is_found(
        &merge(&project, &["one", "whole", empty.to_str().unwrap()]),
        &[
            "judged no trial (filter `gated_mlp/two::`)",
            "gated_mlp/two  ignored: it needs the environment variable MERGE_HAS_IT",
        ],
    );
}
