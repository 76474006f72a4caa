//! A spec or a golden that changes after it was verified is red.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rstest::rstest;

use crate::project::{Project, Ran, SPEC};

const GOLDENS: &str = "fixtures/gated_mlp/block/goldens.safetensors";

#[rstest]
#[case::replaced("replaces_golden", "goldens.safetensors` changed while it was in use")]
#[case::rewritten("rewrites_golden", "goldens.safetensors` changed while it was in use: ")]
#[case::spec("replaces_spec", "block.yaml` changed during the test")]
fn a_file_that_a_port_changes_while_it_runs_is_red_everywhere(#[case] port: &str, #[case] words: &str) {
    let project = Project::with_port(port);
    let ran = project.run(&[]);
    ran.is_red(&[words]);
    assert_eq!(ran.ended("ok"), [""; 0], "{}", ran.text);
    assert_eq!(ran.stats(), Some("FAILED"));
    let ran = project.report(&[]);
    assert_eq!(ran.code, Some(1));
    assert!(!ran.text.contains("faulty stage"), "{}", ran.text);
}

#[rstest]
#[case::golden(GOLDENS, "goldens.safetensors` changed while it was in use")]
#[case::manifest("fixtures/gated_mlp/block/manifest.json", "it is not the file that was verified")]
#[case::spec(SPEC, "block.yaml` changed during the test")]
#[ignore = "slow: `.ci/run` runs it"]
fn a_file_that_changes_between_verifying_and_running_is_red(#[case] file: &str, #[case] words: &str) {
    let project = Project::with_port("right");
    fs::create_dir_all(project.path("target/parity")).unwrap();
    let device = project.path("target/parity/device.lock");
    fs::write(&device, r#"{"process":7,"spec":"other/spec"}"#).unwrap();
    let held = File::open(&device).unwrap();
    held.lock().unwrap();
    let mut suite = project.command(&["--skip", "::stats", "--skip", "parity::smoke"]);
    let mut suite = suite.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(suite.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let waits = "parity: `gated_mlp/block`: waiting for the device, held by pid 7, which runs `other/spec`";
    assert!(line.starts_with(waits), "{line}");
    // Everything is verified now, and the worker has not started.
    let (path, copy) = (project.path(file), project.path("copy"));
    let bytes = fs::read_to_string(&path).map(|text| text.replace("policy: fp32", "rtol: 1.0, atol: 1.0"));
    match bytes {
        Ok(text) => fs::write(&copy, text).unwrap(),
        Err(_) => fs::copy(&path, &copy).map(drop).unwrap(),
    }
    fs::rename(copy, path).unwrap();
    held.unlock().unwrap();
    let ran = Ran::of(suite.wait_with_output().unwrap());
    ran.is_red(&[words]);
    assert_ne!(ran.ended("ok"), ["fixture", "gated", "norm", "out", "weights"]);
    assert!(ran.ended("FAILED").contains(&"gated"), "{}", ran.text);
}

#[test]
fn a_spec_that_changes_between_processes_of_one_nextest_run_is_red() {
    let project = Project::with_port("right");
    project.as_nextest("norm", "one", "1").is_green();
    project.edit(SPEC, "port: right", "port: scaled");
    project.as_nextest("gated", "one", "1").is_red(&["block.yaml` changed during the test"]);
}
