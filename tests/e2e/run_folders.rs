//! Run folders and their names: a name that is used again starts a new run, and folders of other people are never removed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::interrupted_runs::hanging;
use crate::processes::until;
use crate::project::{Project, Ran, SPEC, bad_ports, write_script};

/// A second spec over the same fixtures.
fn add_twin(project: &Project) {
    let spec = fs::read_to_string(project.path(SPEC)).unwrap();
    let twin = spec.replacen("version: 1", "version: 1\nfixtures: gated_mlp/block", 1);
    fs::write(project.path("parity-specs/gated_mlp/twin.yaml"), twin).unwrap();
}

fn named(project: &Project, name: &str, arguments: &[&str]) -> Ran {
    Ran::of(project.command(arguments).env("PARITY_RUN", name).output().unwrap())
}

fn latest(project: &Project) -> String {
    let link = fs::read_link(project.path("target/parity/runs/latest")).unwrap();
    link.to_string_lossy().into_owned()
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_name_used_again_is_a_new_run_for_report_too() {
    let project = Project::with_port("right");
    add_twin(&project);
    named(&project, "ci", &["--skip", "::stats"]).is_green();
    project.run(&["::norm"]).is_green();
    assert_ne!(latest(&project), "ci");
    named(&project, "ci", &["gated_mlp/block::", "--skip", "::stats"]).is_green();
    assert_eq!(latest(&project), "ci", "`report` shows the newest run");
    let ran = project.report(&[]);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&["not run: gated_mlp/twin", "1 spec not run"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_second_run_at_once_takes_another_name_and_prints_it() {
    let project = Project::with_port("hang");
    let mut first = hanging(&project, &[("PARITY_RUN", "ci")]);
    project.edit(SPEC, "port: hang", "port: right");
    let mut second = project.command(&[]);
    second.env("PARITY_RUN", "ci").stdout(Stdio::piped()).stderr(Stdio::piped());
    let second = second.spawn().unwrap();
    until(|| project.path("target/parity/runs/ci-2").is_dir());
    // The first run holds the device, and the second waits for it.
    first.kill().unwrap();
    first.wait().unwrap();
    let second = Ran::of(second.wait_with_output().unwrap());
    second.is_green();
    second.prints(&["a run called `ci` is still running, so this run is called `ci-2`"]);
    assert_eq!(latest(&project), "ci-2");
    project.report(&["ci"]).prints(&["the run was interrupted after checkpoint `gated`"]);
    named(&project, "ci", &[]).is_green();
    assert_eq!(latest(&project), "ci", "the name is free again");
}

#[test]
fn an_id_of_nextest_that_is_used_twice_does_not_serve_the_old_verdict() {
    // One shell per test stands in for one nextest.
    let run = |project: &Project, name: &str| {
        let arguments = ["--exact", &format!("gated_mlp/block::{name}")];
        let suite = project.command(&arguments);
        let mut shell = Command::new("sh");
        shell.args(["-c", "\"$0\" \"$@\"; exit $?"]).arg(suite.get_program()).args(suite.get_args());
        for (name, value) in suite.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        Ran::of(shell.env("NEXTEST_RUN_ID", "exported").output().unwrap())
    };
    let project = Project::with_port("right");
    run(&project, "norm").is_green();
    project.edit(SPEC, "port: right", "port: scaled");
    run(&project, "gated").is_red(&["gated: value differs"]);
    assert_eq!(project.forwards(), 3, "once right, and once more on golden inputs since it is red");
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_trial_that_is_asked_for_twice_is_run_twice() {
    let project = Project::with_port("right");
    project.as_nextest("norm", "exported", "1").is_green();
    project.as_nextest("gated", "exported", "1").is_green();
    assert_eq!(project.forwards(), 1);
    project.edit(SPEC, "port: right", "port: scaled");
    project.as_nextest("gated", "exported", "1").is_red(&["gated: value differs"]);
    // A whole suite belongs to no nextest, even if the variable is set.
    let forwards = project.forwards();
    for _ in 0..2 {
        let output = project.command(&[]).env("NEXTEST_RUN_ID", "exported").output().unwrap();
        Ran::of(output).is_red(&["gated: value differs"]);
    }
    assert_eq!(project.forwards(), forwards + 4);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn suites_of_one_command_share_its_run() {
    let project = Project::with_port("right");
    add_twin(&project);
    let command = |project: &Project| {
        let mut command = project.xtask(&["parity"]);
        // Cargo runs two suites as one process after the other.
        let script = format!(
            "export BAD_PORTS_MODE=misbehaving CARGO_MANIFEST_DIR='{}'\n\
             for spec in block twin; do\n'{}' gated_mlp/$spec:: --skip ::stats\ndone",
            project.path("").display(),
            bad_ports().display()
        );
        let cargo = write_script(&project.path("cargo"), &script);
        command.env("CARGO", cargo);
        command
    };
    let ran = Ran::of(command(&project).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    ran.prints(&["10 passed, 0 failed, 0 ignored, 2 specs"]);
    let ran = Ran::of(command(&project).env("PARITY_RUN", "mine").output().unwrap());
    ran.prints(&["10 passed, 0 failed, 0 ignored, 2 specs"]);
    assert_eq!(latest(&project), "mine");
    // An invocation that has ended owns no run, even if its variable was exported.
    let marker = fs::read_to_string(project.path("target/parity/runs/mine/.parity-run.json")).unwrap();
    let marker: serde_json::Value = serde_json::from_str(&marker).unwrap();
    let mut stale = project.command(&["gated_mlp/block::", "--skip", "::stats"]);
    stale.env("PARITY_RUN", "mine").env("PARITY_INVOCATION", marker["owner"].as_str().unwrap());
    Ran::of(stale.output().unwrap()).is_green();
    project.report(&[]).prints(&["not run: gated_mlp/twin"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn folders_of_other_people_survive_any_number_of_runs() {
    let project = Project::with_port("right");
    let runs = project.path("runs");
    for theirs in ["experiment-1", "20200101T000000000Z-1", "ci", "deep/er"] {
        fs::create_dir_all(runs.join(theirs)).unwrap();
        fs::write(runs.join(theirs).join("weights.bin"), "a year of work").unwrap();
    }
    fs::create_dir_all(project.path("mutations/gated_mlp")).unwrap();
    let run = |name: &str| {
        let mut command = project.command(&["::norm"]);
        Ran::of(command.env("PARITY_OUT", ".").env("PARITY_RUN", name).output().unwrap())
    };
    run("").is_green();
    run("kept").is_green();
    for _ in 0..12 {
        run("").is_green();
    }
    run("ci").prints(&["runs/ci` is not a run of mlx-parity, so this run is called `ci-2`"]);
    for theirs in ["experiment-1", "20200101T000000000Z-1", "ci", "deep/er"] {
        let kept = fs::read_to_string(runs.join(theirs).join("weights.bin"));
        assert_eq!(kept.unwrap(), "a year of work", "{theirs}");
    }
    assert!(runs.join("kept").is_dir(), "a named run makes no room");
    let own = |entry: &fs::DirEntry| entry.path().join(".parity-run.json").is_file();
    let count = fs::read_dir(&runs).unwrap().flatten().filter(own).filter(|e| !e.path().is_symlink()).count();
    assert_eq!(count, 10 + 2, "ten without a name, and two with one");
    // `mutate` empties its folder, too.
    let mutated = project.xtask(&["mutate", "gated_mlp/block"]).env("PARITY_OUT", ".").output();
    let mutated = Ran::of(mutated.unwrap());
    mutated.prints(&["mutations` holds files, but no marker of mlx-parity"]);
    assert_eq!(mutated.code, Some(1));
    assert!(Path::new(&project.path("mutations/gated_mlp")).is_dir());
}

#[test]
fn a_run_under_an_old_name_is_a_new_run() {
    let project = Project::with_port("right");
    for _ in 0..2 {
        let output = project.command(&[]).env("PARITY_RUN", "again").output().unwrap();
        Ran::of(output).is_green();
    }
    assert_eq!(project.forwards(), 2);
}
