//! Statistics: a port whose statistics move turns `<spec>::stats` red, and only a green port is offered as a snapshot.

use std::fs;

use crate::project::{Project, Ran, SPEC};
use rstest::rstest;

const SNAPSHOT: &str = "tests/snapshots/gated_mlp__block.snap";
const PENDING: &str = "tests/snapshots/gated_mlp__block.snap.new";
/// What a wrong port's statistics print: they are no news.
const CONSEQUENCE: &str =
    "statistics differ from the snapshot, a consequence: run `cargo parity diagnose gated_mlp/block`";
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
    let project = drifted();
    let accepted = read(&project, SNAPSHOT);
    let ran = project.run(ONLY_STATS);
    ran.is_red(&[
        "gated_mlp/block::stats: statistics differ from the snapshot",
        "gated  min: accepted -4.897505e0, now -4.94648",
        "off by 4.90e-2, tolerance 4.90e-3",
        "if it is right, accept it with `cargo parity accept gated_mlp/block` or `cargo insta review`",
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
#[ignore = "slow: `.ci/run` runs it"]
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
fn a_snapshot_that_is_not_there_is_new_and_offered() {
    let project = Project::with_port("right");
    let accepted = read(&project, SNAPSHOT);
    fs::remove_file(project.path(SNAPSHOT)).unwrap();
    let ran = project.run(&[]);
    ran.is_green();
    ran.prints(&[
        "no snapshot yet; if it is right, accept it with `cargo parity accept gated_mlp/block`",
        "parity: 1 new snapshot; next: `cargo parity accept`",
        "8 declared = 7 passed + 0 failed + 0 ignored + 0 not gated + 1 new snapshot\n",
    ]);
    assert_eq!(ran.stats(), Some("ok"));
    assert!(project.trials().contains(r#""trial":"stats","status":"new""#), "{}", project.trials());
    let report = project.report(&[]);
    report.is_green();
    report.prints(&["7 passed, 0 failed, 0 ignored, 1 new snapshot, 1 spec"]);
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
        let why = match port {
            "right" => ["CI accepts no snapshot", "`cargo parity accept gated_mlp/block`"],
            _ => ["stats  a consequence of the failures above", "the first faulty stage is `gated`"],
        };
        run_with(&project, "CI", "true").is_red(&why);
        assert!(!project.path(PENDING).exists());
        assert_eq!(project.path(SNAPSHOT).exists(), port == "scaled");
    }
}

#[test]
fn insta_update_always_accepts_at_once() {
    let project = drifted();
    run_with(&project, "INSTA_UPDATE", "always").is_green();
    assert!(read(&project, SNAPSHOT).contains("min -4.94648"));
    assert!(!project.path(PENDING).exists());
    project.run(ONLY_STATS).is_green();
}

/// A red port is never accepted, however insta is told to.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn the_statistics_of_a_red_port_are_never_accepted() {
    for (name, value) in [
        ("INSTA_UPDATE", "always"),
        ("INSTA_UPDATE", "new"),
        ("INSTA_FORCE_UPDATE", "1"),
        ("INSTA_UPDATE", "force"),
    ] {
        let project = Project::with_port("scaled");
        let before = read(&project, SNAPSHOT);
        run_with(&project, name, value).is_red(&[CONSEQUENCE]);
        assert_eq!((read(&project, SNAPSHOT), project.path(PENDING).exists()), (before, false));
        // Without a snapshot it is new, but not offered.
        fs::remove_file(project.path(SNAPSHOT)).unwrap();
        run_with(&project, name, value).is_green();
        assert!(!project.path("tests/snapshots").read_dir().unwrap().any(|_| true));
        let ran = accept(&project, &[]);
        assert_eq!(ran.code, Some(1), "{}", ran.text);
        ran.prints(&["gated_mlp/block  refused: the port is red at `gated`; make it green first"]);
        assert!(!project.path(SNAPSHOT).exists());
    }
}

fn accept(project: &Project, arguments: &[&str]) -> Ran {
    Ran::of(project.xtask(&[&["accept"], arguments].concat()).output().unwrap())
}

/// A port that differs from its snapshot by a percent, and whose gates allow that.
fn drifted() -> Project {
    let project = Project::with_port("scaled");
    let text = fs::read_to_string(project.path(SPEC)).unwrap();
    let loose =
        text.lines().map(|line| match line.find(", noise: 8").or_else(|| line.find(", policy: fp32")) {
            Some(gate) if line.contains("{name: ") => {
                format!("{}, rtol: 0.1, atol: 0.1, why: a test}}", &line[..gate])
            }
            _ => line.to_owned(),
        });
    let loose: Vec<String> = loose
        .map(|line| match line.contains("rtol: 1e-5, atol: 1e-6}") {
            true => line.replace("rtol: 1e-5, atol: 1e-6}", "rtol: 0.1, atol: 0.1, why: a test}"),
            false => line,
        })
        .collect();
    fs::write(project.path(SPEC), loose.join("\n")).unwrap();
    project
}

#[test]
fn accept_writes_what_the_run_measured_and_removes_the_offer() {
    let project = Project::with_port("right");
    let accepted = read(&project, SNAPSHOT);
    accept(&project, &[]).prints(&["nothing has been run yet"]);
    project.run(&[]).is_green();
    accept(&project, &[]).prints(&["nothing to accept: no snapshot of this run is new or changed"]);
    fs::remove_file(project.path(SNAPSHOT)).unwrap();
    project.run(&[]).is_green();
    assert!(project.path(PENDING).exists());
    let ran = accept(&project, &["gated_mlp/block"]);
    ran.is_green();
    ran.prints(&["gated_mlp/block  accepted: tests/snapshots/gated_mlp__block.snap", "1 snapshot accepted"]);
    assert!(!project.path(PENDING).exists());
    let body = |text: &str| text.split_once("\n---\n").unwrap().1.to_owned();
    assert_eq!(body(&read(&project, SNAPSHOT)), body(&accepted));
    let ran = project.run(&[]);
    ran.is_green();
    assert!(!ran.text.contains("new snapshot"), "{}", ran.text);
    let ran = accept(&project, &["gated_mlp/blok"]);
    assert_eq!(ran.code, Some(1));
    ran.prints(&["the run has no spec `gated_mlp/blok`, did you mean `gated_mlp/block`?"]);
}

#[test]
fn a_changed_snapshot_is_red_until_it_is_accepted() {
    let project = drifted();
    project.run(&[]).is_red(&["statistics changed since the snapshot was accepted"]);
    accept(&project, &[]).is_green();
    assert!(read(&project, SNAPSHOT).contains("min -4.94648"));
    project.run(&[]).is_green();
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn accept_refuses_partial_injected_and_outdated_runs() {
    let project = Project::with_port("right");
    fs::remove_file(project.path(SNAPSHOT)).unwrap();
    let refused = |words: &str| {
        let ran = accept(&project, &["gated_mlp/block"]);
        assert_eq!(ran.code, Some(1), "{}", ran.text);
        ran.prints(&[words]);
        assert!(!project.path(SNAPSHOT).exists());
    };
    Ran::of(project.command(&[]).env("PARITY_LOCALISE", "1").output().unwrap()).is_green();
    refused("the run injected goldens");
    project.run(&["::norm"]).is_green();
    refused("the port was stopped early");
    project.run(&[]).is_green();
    project.edit(SPEC, "about: ", "about: another ");
    refused("the spec changed after the run");
    let task = project.path("target/parity/runs/latest/gated_mlp/block/snapshot.json");
    project.edit(SPEC, "about: another ", "about: ");
    let text = fs::read_to_string(&task).unwrap();
    let outside = tempfile::tempdir().unwrap();
    let inside = project.path("tests/snapshots").display().to_string();
    fs::write(&task, text.replace(&inside, outside.path().to_str().unwrap())).unwrap();
    refused("is not from this project");
    assert_eq!(outside.path().read_dir().unwrap().count(), 0);
}

#[rstest]
#[case::panicked(
    "panic",
    "the port failed after checkpoint `gated`: panicked at tests/bad_ports/misbehaving.rs:"
)]
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
#[ignore = "slow: `.ci/run` runs it"]
fn in_ci_nothing_is_accepted_and_nothing_forced() {
    for (name, value) in [("INSTA_UPDATE", "always"), ("INSTA_FORCE_PASS", "1")] {
        let project = Project::with_port("scaled");
        let before = read(&project, SNAPSHOT);
        let ran = Ran::of(project.command(ONLY_STATS).env(name, value).env("CI", "true").output().unwrap());
        ran.is_red(&[CONSEQUENCE]);
        assert_eq!(read(&project, SNAPSHOT), before);
    }
    let project = Project::with_port("scaled");
    run_with(&project, "INSTA_FORCE_PASS", "1").is_red(&[CONSEQUENCE]);
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
    run_with(&project, "BAD_PORTS_SNAPSHOTS", "kept/here").is_green();
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
