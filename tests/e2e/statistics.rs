//! Statistics: a port whose statistics move turns `<spec>::stats` red, and only a complete run is offered as a snapshot.

use std::fs;

use crate::project::{Project, Ran, SPEC};
use rstest::rstest;

const SNAPSHOT: &str = "tests/snapshots/gated_mlp__block.snap";
const PENDING: &str = "tests/snapshots/gated_mlp__block.snap.new";
const ONLY_STATS: &[&str] = &["--exact", "gated_mlp/block::stats"];

fn read(project: &Project, file: &str) -> String {
    fs::read_to_string(project.path(file)).unwrap()
}

fn run_with(project: &Project, variable: &str, value: &str) -> Ran {
    Ran::of(project.command(ONLY_STATS).env(variable, value).output().unwrap())
}

#[test]
fn a_port_that_computes_what_it_did_is_green() {
    let project = Project::with_port("right");
    let ran = project.run(&[]);
    ran.is_green();
    assert_eq!(ran.stats(), Some("ok"));
    assert!(!project.path(PENDING).exists());
}

#[test]
fn a_port_that_drifts_is_red_with_both_numbers_and_the_tolerance() {
    let project = Project::with_port("scaled");
    let accepted = read(&project, SNAPSHOT);
    let ran = project.run(ONLY_STATS);
    ran.is_red(&[
        "gated_mlp/block::stats: statistics differ from the snapshot",
        "gated  min: accepted -4.897505e0, now -4.94648",
        "off by 4.90e-2, tolerance 4.90e-3",
        "if intended, review and accept the new snapshot with `cargo insta review`",
    ]);
    // The text of insta is not printed. The mean hardly moves and is within its tolerance.
    assert!(!ran.text.contains("Snapshot Summary") && !ran.text.contains("gated  mean"), "{}", ran.text);
    assert_eq!(read(&project, SNAPSHOT), accepted);
    assert!(read(&project, PENDING).contains("gated: float32 [1, 6, 48] min -4.94648"));
}

#[test]
fn a_port_within_the_tolerance_is_green_and_the_snapshot_stays_as_it_was() {
    let project = Project::with_port("scaled_little");
    let accepted = read(&project, SNAPSHOT);
    for update in ["auto", "always"] {
        run_with(&project, "INSTA_UPDATE", update).is_green();
        assert_eq!(read(&project, SNAPSHOT), accepted);
        assert!(!project.path(PENDING).exists());
    }
}

/// insta would wait for a pipe for ever, and read a device until no memory is left.
#[test]
fn a_snapshot_that_is_no_regular_file_is_red_at_once() {
    for (file, kind) in [(SNAPSHOT, "a named pipe"), (PENDING, "a named pipe"), (SNAPSHOT, "a device")] {
        let project = Project::with_port("right");
        let path = project.path(file);
        let _ = fs::remove_file(&path);
        match kind {
            "a device" => std::os::unix::fs::symlink("/dev/zero", &path).unwrap(),
            _ => assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success()),
        }
        let mut command = project.command(ONLY_STATS);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let started = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() {
            if started.elapsed() > std::time::Duration::from_secs(60) {
                child.kill().unwrap();
                panic!("it hangs with {kind} as `{file}`");
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let ran = Ran::of(child.wait_with_output().unwrap());
        ran.is_red(&[
            "could not be compared: ",
            &format!("it is {kind}, expected a regular file; remove it"),
        ]);
    }
}

#[test]
fn a_snapshot_that_is_not_there_is_red_and_offered() {
    let project = Project::with_port("right");
    let accepted = read(&project, SNAPSHOT);
    fs::remove_file(project.path(SNAPSHOT)).unwrap();
    let ran = project.run(&[]);
    ran.is_red(&[
        "snapshot `",
        "gated_mlp__block.snap` does not exist yet; review and accept the new snapshot with `cargo insta review`",
    ]);
    assert_eq!((ran.stats(), ran.ended("FAILED").len()), (Some("FAILED"), 0));
    let lines = |text: &str| {
        text.lines().filter(|line| line.contains(" min ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&read(&project, PENDING)), lines(&accepted));
    assert!(!project.path(SNAPSHOT).exists());
}

#[test]
fn nothing_is_written_in_ci() {
    for port in ["right", "scaled"] {
        let project = Project::with_port(port);
        if port == "right" {
            fs::remove_file(project.path(SNAPSHOT)).unwrap();
        }
        run_with(&project, "CI", "true").is_red(&[
            "no new snapshot was written, because CI or INSTA_UPDATE forbids it",
            "cargo insta review",
        ]);
        assert!(!project.path(PENDING).exists());
        assert_eq!(project.path(SNAPSHOT).exists(), port == "scaled");
    }
}

#[test]
fn insta_update_always_accepts_at_once() {
    let project = Project::with_port("scaled");
    run_with(&project, "INSTA_UPDATE", "always").is_green();
    assert!(read(&project, SNAPSHOT).contains("min -4.94648"));
    assert!(!project.path(PENDING).exists());
    project.run(ONLY_STATS).is_green();
}

#[rstest]
#[case::panicked("panic", "the port failed after checkpoint `gated`: panicked: ")]
#[case::aborted("abort", "the worker was killed by SIGABRT after checkpoint `gated`")]
#[case::twice("twice", "`gated` was reached 2 times, but the spec declares 1")]
#[case::shape("shape", "`gated` was not measured: ")]
#[case::not_registered("rigth", "not run; see `gated_mlp/block::spec`")]
fn a_partial_run_is_never_offered_as_a_snapshot(#[case] port: &str, #[case] why: &str) {
    let project = Project::with_port(port);
    fs::remove_file(project.path(SNAPSHOT)).unwrap();
    let ran = run_with(&project, "INSTA_UPDATE", "always");
    ran.is_red(&[&format!("not compared with the snapshot: {why}")]);
    assert!(!project.path("tests/snapshots").read_dir().unwrap().any(|_| true));
}

#[test]
fn a_tap_that_is_never_reached_and_fixtures_that_are_gone_are_reported() {
    let project = Project::with_port("renamed");
    run_with(&project, "BAD_PORTS_UNTAPPED", "gated")
        .is_red(&["not compared with the snapshot: `gated` was never reached"]);
    let project = Project::with_port("right");
    fs::remove_dir_all(project.path("fixtures")).unwrap();
    project
        .run(ONLY_STATS)
        .is_red(&["not compared with the snapshot: not run; see `gated_mlp/block::fixture`"]);
    assert!(!project.path(PENDING).exists());
}

#[test]
fn inner_checkpoints_are_no_part_of_it() {
    let project = Project::with_port("right");
    project.edit(SPEC, "{name: gated,", "{name: gated, level: 1,");
    project.run(ONLY_STATS).is_red(&["gated  is no longer a checkpoint at this level"]);
    run_with(&project, "INSTA_UPDATE", "always").is_green();
    assert!(!read(&project, SNAPSHOT).contains("gated:"));
    // A higher level tests more checkpoints against the same snapshot.
    let ran = Ran::of(project.command(&[]).env("PARITY_LEVEL", "1").output().unwrap());
    ran.is_green();
    assert_eq!((ran.stats(), ran.ended("ok").len()), (Some("ok"), 5));
}

#[test]
fn in_ci_nothing_is_accepted_and_nothing_forced() {
    for (name, value) in [("INSTA_UPDATE", "always"), ("INSTA_FORCE_PASS", "1")] {
        let project = Project::with_port("scaled");
        let before = read(&project, SNAPSHOT);
        let ran = Ran::of(project.command(ONLY_STATS).env(name, value).env("CI", "true").output().unwrap());
        ran.is_red(&["changed since the snapshot was accepted"]);
        assert_eq!(read(&project, SNAPSHOT), before);
    }
    let project = Project::with_port("scaled");
    run_with(&project, "INSTA_FORCE_PASS", "1").is_red(&["changed since the snapshot was accepted"]);
}

#[test]
fn a_run_on_injected_goldens_has_no_statistics_of_its_own() {
    let project = Project::with_port("right");
    for (name, value) in [("PARITY_LOCALISE", "1"), ("PARITY_INJECT", "gated")] {
        let ran = Ran::of(project.command(&["--list"]).env(name, value).output().unwrap());
        assert!(!ran.text.contains("::stats: test") && ran.text.contains("::norm: test"), "{}", ran.text);
    }
}

#[test]
fn a_snapshot_that_cannot_be_read_is_red() {
    let project = Project::with_port("right");
    project.edit(SNAPSHOT, "std ", "sdt ");
    project.run(ONLY_STATS).is_red(&["1 statistic changed", "not a line of statistics: `norm: float32"]);
}

#[test]
fn a_suite_may_keep_its_snapshots_elsewhere() {
    let project = Project::with_port("right");
    run_with(&project, "BAD_PORTS_SNAPSHOTS", "kept/here")
        .is_red(&["kept/here/gated_mlp__block.snap` does not exist yet"]);
    assert!(project.path("kept/here/gated_mlp__block.snap.new").exists());
}

#[test]
fn json_stays_json_when_it_is_red() {
    let project = Project::with_port("scaled");
    let output = project.command(&["--format", "json", "-Z", "unstable-options"]).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("gated_mlp/block::stats"), "{stdout}");
    for line in stdout.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}
