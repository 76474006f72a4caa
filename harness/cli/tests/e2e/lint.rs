//! What `cargo xtask lint` reports about gates, from runs that the tests write themselves.

use std::fs;
use std::process::Output;

use mlx_parity_core::compare::compare;
use mlx_parity_core::gate::{Floor, Gate, Rule};
use mlx_parity_core::record::Record;
use mlx_parity_core::tensor::{Dtype, TensorView};

use crate::command::{CARGO_TOML, GATED_MLP, cargo_parity, check, copy_from_repository};
use crate::fixtures::make_local;

/// A project with the gated MLP: `norm` has a tolerance, `gated` noise and `out` a policy.
struct Project(tempfile::TempDir);

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";
const RUN: &str = "target/parity/runs/one/gated_mlp/block";

impl Project {
    fn new() -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        copy_from_repository(&GATED_MLP, project.0.path());
        project.write("Cargo.toml", CARGO_TOML.as_bytes());
        project.write("tests/parity.rs", b"fn main() {}\n");
        project
    }

    fn write(&self, file: &str, bytes: &[u8]) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Replaces the checkpoints of the spec by these, one per line.
    fn declare(&self, checkpoints: &[&str]) {
        let text = fs::read_to_string(self.0.path().join(SPEC)).unwrap();
        let (head, _) = text.split_once("\ncheckpoints:").unwrap();
        let lines: Vec<String> = checkpoints.iter().map(|one| format!("  - {{{one}}}\n")).collect();
        self.write(SPEC, format!("{head}\ncheckpoints:\n{}", lines.concat()).as_bytes());
    }

    /// Writes a run with these records.
    fn ran(&self, records: &[Record]) {
        self.write(&format!("{RUN}/exit.json"), b"\"done\"");
        let lines: Vec<String> = records
            .iter()
            .map(|record| {
                let line = serde_json::to_string(record).unwrap();
                line.replacen('{', "{\"kind\":\"checkpoint\",", 1) + "\n"
            })
            .collect();
        self.write(&format!("{RUN}/records.jsonl"), lines.concat().as_bytes());
        let latest = self.0.path().join("target/parity/runs/latest");
        let _ = fs::remove_file(&latest);
        std::os::unix::fs::symlink("one", latest).unwrap();
    }

    fn lint(&self, arguments: &[&str]) -> Output {
        cargo_parity(self.0.path(), &[&["lint"], arguments].concat()).output().unwrap()
    }
}

/// A record of `[1, 2, 3]` in which every element is off by `off`.
fn record(checkpoint: &str, gate: Gate, off: f32, floor: f64) -> Record {
    let bytes =
        |off: f32| -> Vec<u8> { [1f32, 2., 3.].iter().flat_map(|x| (x + off).to_le_bytes()).collect() };
    let (expected, actual) = (bytes(0.0), bytes(off));
    let expected = TensorView::new(Dtype::Float32, &[3], &expected).unwrap();
    let actual = TensorView::new(Dtype::Float32, &[3], &actual).unwrap();
    let floor = Floor { max: floor, rms: floor };
    let rule = Rule { gate: Some(gate.clone()), floor: Some(floor), ..Rule::default() };
    let outcome = compare(&expected, &actual, &rule);
    Record {
        expected: Some((&expected).into()),
        actual: Some((&actual).into()),
        gate: Some(gate),
        floor: Some(floor),
        ..Record::new("gated_mlp/block", checkpoint, outcome, true)
    }
}

fn tolerance(number: f64, policy: Option<&str>) -> Gate {
    Gate::Tolerance { rtol: number, atol: number, policy: policy.map(str::to_owned) }
}

const GOLDENS: [&str; 2] =
    ["name: gated, dtype: float32, noise: 8", "name: out, dtype: float32, policy: fp32"];

#[test]
fn without_a_run_one_line_says_so() {
    let project = Project::new();
    check(
        project.lint(&["--strict"]),
        0,
        &["0 errors\n", "note: there is no run to compare gates with", "run `cargo parity run` first"],
    );
}

#[test]
fn a_tolerance_far_beyond_its_use_is_a_warning_with_the_one_to_write() {
    let project = Project::new();
    project.declare(&[
        "name: norm, dtype: float32, rtol: 1e-2, atol: 1e-2, why: tried",
        GOLDENS[0],
        GOLDENS[1],
    ]);
    project.ran(&[
        record("norm", tolerance(1e-2, None), 1e-6, 5e-7),
        record("gated", Gate::Noise { k: 8.0 }, 0.0, 1e-7),
        record("out", tolerance(1e-5, Some("fp32")), 0.0, 1e-7),
    ]);
    let words = [
        "warning: `norm`: atol 1e-2, rtol 1e-2 allows",
        "what the run needed: ",
        "block.yaml:",
        "- {name: norm, ",
        "= help: `rtol: 2e-6, atol: 2e-6` would still allow 4x what is needed, and `noise: 8` would pass",
        "0 errors, 1 warning\n",
        "note: the gates of 3 lines were compared with run `one`",
    ];
    let text = check(project.lint(&[]), 0, &words);
    assert!(!text.contains("`gated`:") && !text.contains("`out`:"), "{text}");
    check(project.lint(&["--strict"]), 1, &words);
}

#[test]
fn what_is_only_moved_should_be_exact() {
    let project = Project::new();
    project.declare(&["name: norm, dtype: float32, rtol: 1e-5, atol: 1e-5", GOLDENS[0], GOLDENS[1]]);
    project.ran(&[record("norm", tolerance(1e-5, None), 0.0, 0.0)]);
    check(
        project.lint(&[]),
        0,
        &[
            "warning: `norm`: bit-equal to the golden, under atol 1e-5, rtol 1e-5",
            "`policy: exact` would pass",
        ],
    );
}

#[test]
fn a_run_under_another_gate_is_not_used() {
    let project = Project::new();
    project.declare(&[
        "name: norm, dtype: float32, rtol: 1e-2, atol: 1e-2, why: tried",
        GOLDENS[0],
        GOLDENS[1],
    ]);
    project.ran(&[record("norm", tolerance(1e-3, None), 1e-6, 1e-7)]);
    let text = check(
        project.lint(&["--strict"]),
        0,
        &["note: run `one` has no checkpoint that matches the current specs"],
    );
    assert!(!text.contains("warning"), "{text}");
}

#[test]
fn a_loop_is_slack_only_if_all_of_it_is() {
    let project = Project::new();
    // The set has no such goldens, which is reported too.
    project.declare(&["name: \"x.{i}\", for: {i: 0..3}, dtype: float32, rtol: 1e-2, atol: 1e-2, why: tried"]);
    let one = |at: usize, off: f32| record(&format!("x.{at}"), tolerance(1e-2, None), off, 1e-7);
    project.ran(&[one(0, 1e-6), one(1, 1e-6), one(2, 1e-5)]);
    let text = check(
        project.lint(&[]),
        1,
        &["warning: `x.0` and 2 others on its line: ", "`rtol: 5e-5, atol: 5e-5`"],
    );
    assert_eq!(text.matches("warning:").count(), 1, "{text}");
    project.ran(&[one(0, 1e-6), one(1, 1e-6), one(2, 1e-3)]);
    assert!(!check(project.lint(&[]), 1, &[]).contains("warning:"));
    project.ran(&[one(0, 1e-6), one(1, 1e-6)]);
    assert!(!check(project.lint(&[]), 1, &[]).contains("warning:"), "a part of a loop proves nothing");
}

#[test]
fn a_checkpoint_that_the_reference_computes_earlier_is_shown_with_its_line() {
    let project = Project::new();
    let gate = "dtype: float32, noise: 8";
    let [norm, gated, out] = ["norm", "gated", "out"].map(|name| format!("name: {name}, {gate}"));
    project.declare(&[&norm, &gated, &out]);
    check(project.lint(&["--strict"]), 0, &[": 0 errors\n"]);
    project.declare(&[&gated, &norm, &out]);
    let text = check(
        project.lint(&["--strict"]),
        1,
        &[
            "warning: `norm` is declared after `gated`, but the reference computes it before\n",
            "block.yaml:13:",
            "note: the reference computes it at exporter/references/gated_mlp_block.py:reference:26",
            "help: declare checkpoints in the order of execution",
        ],
    );
    assert_eq!(text.matches("is declared after").count(), 1, "{text}");
}

#[test]
fn a_local_floor_in_a_free_run_is_a_warning() {
    let project = Project::new();
    let gate = "dtype: float32, noise: 8";
    let [norm, gated, out] = ["norm", "gated", "out"].map(|name| format!("name: {name}, {gate}"));
    project.declare(&[&norm, &gated, &out]);
    make_local(project.0.path());
    let text = check(
        project.lint(&["--strict"]),
        1,
        &[
            "warning: the floor of `gated` leaves out the errors of earlier blocks\n",
            "block.yaml:13:",
            "note: it was measured in block `mlp` alone",
            "help: name the checkpoints before the block under `inject`, or export floors of the whole reference",
        ],
    );
    assert_eq!(text.matches("warning:").count(), 1, "{text}");
    let inject = |name: &str| {
        let text = fs::read_to_string(project.0.path().join(SPEC)).unwrap();
        let (head, tail) = text.split_once("\ncheckpoints:").unwrap();
        let head = head.lines().filter(|line| !line.starts_with("inject:")).collect::<Vec<_>>().join("\n");
        project.write(SPEC, format!("{head}\ninject: [{name}]\ncheckpoints:{tail}").as_bytes());
    };
    // What is injected after the block does not help it.
    inject("out");
    check(project.lint(&["--strict"]), 1, &["warning: the floor of `gated`"]);
    inject("norm");
    check(project.lint(&["--strict"]), 0, &[": 0 errors\n"]);
}
