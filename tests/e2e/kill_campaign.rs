//! Kills the suite at random moments. After each kill the report must not blame the port, every run folder must be whole,
//! and the next run must be right. `CONTRIBUTING.md` has the command.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::processes::{is_alive, until};
use crate::project::{Project, Ran, SPEC};

/// How far the killed runs had come.
#[derive(Debug, Default)]
struct Tally {
    /// Killed before the run had a folder.
    not_started: usize,
    /// Killed before the spec had ended.
    interrupted: usize,
    /// Killed after the verdicts were known.
    complete: usize,
}

#[test]
#[ignore = "takes minutes; CONTRIBUTING.md says how to run it"]
fn kill_campaign() {
    let number =
        |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
    let kills = number("KILLS", 200).min(100_000);
    let mut random = Random(number("SEED", 1).max(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let project = Project::with_port("right");
    let time = || {
        let started = Instant::now();
        project.run(&[]).is_green();
        started.elapsed()
    };
    // A little longer than a run takes, so that some kills come just after its end.
    let longest = (0..5).map(|_| time()).min().unwrap_or_default() * 11 / 10;
    let mut tally = Tally::default();
    for kill in 0..kills {
        let is_red = kill % 2 == 1;
        let (from, to) = if is_red { ("right", "scaled") } else { ("scaled", "right") };
        if kill > 0 {
            project.edit(SPEC, &format!("port: {from}"), &format!("port: {to}"));
        }
        let name = if kill % 3 == 0 { "campaign" } else { "" };
        kill_one(&project, name, longest.mul_f64(random.fraction()), is_red, &mut tally);
        let next = Ran::of(project.command(&[]).env("PARITY_RUN", name).output().unwrap());
        match is_red {
            true => next.is_red(&["gated: value differs", "`gated`"]),
            false => next.is_green(),
        }
        let failed: &[&str] = if is_red { &["gated", "out"] } else { &[] };
        assert_eq!(next.ended("FAILED"), failed, "{}", next.text);
        assert_eq!(project.report(&[]).code, Some(i32::from(is_red)));
        nothing_mixed(&project.path("target/parity/runs"));
    }
    println!("{kills} kills: {tally:?}; every next run was right, nothing mixed was left");
    assert!(kills < 20 || tally.interrupted > 0, "no kill met a run: {tally:?}");
}

/// Starts a suite, kills it, and checks its report.
fn kill_one(project: &Project, name: &str, after: Duration, is_red: bool, tally: &mut Tally) {
    let latest = project.path("target/parity/runs/latest");
    let marker = || fs::read_to_string(latest.join(".parity-run.json")).unwrap_or_default();
    let before = marker();
    let mut suite = project.command(&[]);
    suite.env("PARITY_RUN", name).stdout(Stdio::null()).stderr(Stdio::null());
    let mut suite = suite.spawn().unwrap();
    std::thread::sleep(after);
    let _ = suite.kill();
    suite.wait().unwrap();
    until(|| project.workers().last().is_none_or(|worker| !is_alive(worker)));
    if marker() == before {
        tally.not_started += 1;
        return;
    }
    let ran = project.report(&[]);
    // A suite that was killed before its only spec started has nothing to report.
    if ran.text.contains("has no results") || ran.text.contains("was not run") {
        assert_eq!(ran.code, Some(1), "{}", ran.text);
        tally.interrupted += 1;
        return;
    }
    let trials = fs::read_to_string(latest.join("trials.jsonl")).unwrap();
    let (mut pending, mut failed) = (0, 0);
    for line in trials.lines() {
        let trial: serde_json::Value = serde_json::from_str(line).unwrap();
        let (name, status) = (trial["trial"].as_str().unwrap(), trial["status"].as_str().unwrap());
        match status {
            "pass" => {}
            "pending" => pending += 1,
            "fail" => {
                let is_true =
                    is_red && ["gated", "out", "stats"].contains(&name) && trial["class"] != "crash";
                assert!(is_true, "{line}\n{}", ran.text);
                failed += 1;
            }
            _ => unreachable!("{line}"),
        }
    }
    assert_eq!(ran.code, Some(i32::from(pending + failed > 0)), "{}", ran.text);
    match pending {
        0 => tally.complete += 1,
        _ => {
            ran.prints(&["the run was interrupted "]);
            tally.interrupted += 1;
        }
    }
}

/// Expects that every folder is a whole run, and that no half-removed one is left.
fn nothing_mixed(runs: &Path) {
    for entry in fs::read_dir(runs).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(!name.starts_with(".aside"), "`{name}` is left");
        if entry.file_type().unwrap().is_dir() {
            assert!(entry.path().join(".parity-run.json").is_file(), "`{name}` has no marker");
        }
    }
}

/// Marsaglia's xorshift: the same moments for the same seed.
struct Random(u64);

impl Random {
    /// A number from 0 to 1.
    fn fraction(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}
