//! The bench of the bundled ports, whole: every fault is caught, where and how `faults.yaml` says. And mistakes in the bench's
//! own file, which must not go unnoticed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mlx_parity::diagnose::{FactKind, Kind};
use rstest::rstest;
use serde_json::{Value, json};

/// A project with faults, and a Cargo that has built them already.
struct Bench {
    home: tempfile::TempDir,
    root: PathBuf,
}

/// A program of that name that does `body`.
fn script(folder: &Path, name: &str, body: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// This repository, where it is now: what was compiled may have been copied together with its checkout.
fn repository() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("Cargo runs this");
    Path::new(&package).parent().unwrap().to_owned()
}

/// A binary of this package, where it is now.
fn binary(name: &str, compiled: &str) -> PathBuf {
    let now =
        ["CARGO_BIN_EXE_", "NEXTEST_BIN_EXE_"].map(|prefix| std::env::var_os(format!("{prefix}{name}")));
    now.into_iter().flatten().next().map_or_else(|| compiled.into(), PathBuf::from)
}

fn mistaken() -> PathBuf {
    binary("mistaken", env!("CARGO_BIN_EXE_mistaken"))
}

impl Bench {
    fn of(root: Option<PathBuf>) -> Self {
        let home = tempfile::tempdir().unwrap();
        // Not the command once more, but the suite.
        let suite = format!("unset MISTAKEN_XTASK\nexec '{}' \"$@\"", mistaken().display());
        let suite = script(home.path(), "suite", &suite);
        let root = root.unwrap_or_else(|| home.path().join("project"));
        let artifact = json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///somewhere/tests#parity-tests@0.1.0",
            "target": {"name": "mistaken", "kind": ["bin"]},
            "executable": suite,
            "manifest_path": root.join("tests/Cargo.toml"),
        });
        script(home.path(), "cargo", &format!("echo '{artifact}'"));
        Self { home, root }
    }

    /// A project with the gated MLP alone, and with this row; everything is demanded of it.
    fn with_row(row: &str) -> Self {
        let bench = Self::of(None);
        for file in [
            "parity-specs/policies.yaml",
            "parity-specs/gated_mlp/block.yaml",
            "exporter/references/gated_mlp_block.py",
            "fixtures/gated_mlp/block/manifest.json",
            "fixtures/gated_mlp/block/goldens.safetensors",
            "fixtures/gated_mlp/block/inputs.safetensors",
            "fixtures/gated_mlp/block/weights.safetensors",
        ] {
            let copy = bench.root.join(file);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(repository().join(file), copy).unwrap();
        }
        let head = "at_least: {caught: 1, placed: 1, cause: 1, facts: 0}\nat_most: {wrong_causes: 0, false_alarms: 0}\n";
        fs::create_dir(bench.root.join("tests")).unwrap();
        let file = bench.root.join("tests/faults.yaml");
        fs::write(file, format!("{head}faults:\n  gated_mlp/block:\n    - {row}\n")).unwrap();
        bench
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(mistaken());
        command.arg("fault-bench").args(arguments).env("CARGO_MANIFEST_DIR", self.root.join("xtask"));
        command.env("MISTAKEN_XTASK", "1").env("MISTAKEN_ROOT", &self.root);
        command.env("CARGO", self.home.path().join("cargo")).env_remove("PARITY_FIXTURES");
        command.env("PARITY_OUT", self.home.path().join("out"));
        Ran::of(command.output().unwrap())
    }
}

struct Ran {
    code: Option<i32>,
    /// The last line, which has the counts.
    score: String,
    said: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let said = String::from_utf8(output.stdout).unwrap();
        let score = said.lines().last().unwrap_or_default().to_owned();
        Self { code: output.status.code(), score, said: said + &String::from_utf8(output.stderr).unwrap() }
    }

    #[track_caller]
    fn ends(&self, code: i32, score: &str, words: &[&str]) {
        assert_eq!((self.code, &*self.score), (Some(code), score), "{}", self.said);
        self.says(words);
    }

    #[track_caller]
    fn says(&self, words: &[&str]) {
        for word in words {
            assert!(self.said.contains(word), "does not say `{word}`:\n{}", self.said);
        }
    }
}

#[test]
fn every_fault_is_caught_and_placed() {
    let bench = Bench::of(Some(repository()));
    let json = bench.home.path().join("bench.json");
    let ran = bench.run(&["--json", json.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.said);
    let told: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let rows = told["rows"].as_array().unwrap();
    let start = format!("caught {0}/{0}, placed {0}/{0}, cause ", rows.len());
    assert!(ran.score.starts_with(&start), "{}", ran.said);
    assert!(ran.score.ends_with(", wrong causes 0, false alarms 0"), "{}", ran.said);
    for row in rows {
        assert_eq!(row["found"]["culprit"], row["expected"]["culprit"], "{row}");
        assert_eq!(row["found"]["first"]["checkpoint"], row["expected"]["first"], "{row}");
    }

    // A bench that leaves a kind out, or a dtype, would not notice when it can no longer be told.
    let causes: BTreeSet<&str> = rows.iter().filter_map(|row| row["expected"]["cause"].as_str()).collect();
    assert_eq!(causes, Kind::ALL.iter().map(|kind| kind.name()).collect());
    let facts: BTreeSet<&str> = rows.iter().filter_map(|row| row["expected"]["fact"].as_str()).collect();
    assert_eq!(facts, FactKind::ALL.iter().map(|kind| kind.name()).collect());
    let in_bfloat16 = rows.iter().filter(|row| row["spec"].as_str().unwrap().ends_with("_bf16"));
    assert!(in_bfloat16.count() >= 12);
}

const EPS: &str = "{fault: eps, culprit: norm, class: value, cause: none, or: [norm_eps, token_factor]}";

#[rstest]
#[case::place("eps, culprit: gated, class: value", 1, 0, "culprit norm (value)")]
#[case::class("eps, culprit: norm, class: shape", 1, 0, "culprit norm (value)")]
#[case::first("eps, culprit: norm, first: out, class: value", 1, 0, "first red norm (value), expected out")]
#[case::no_fault("nothing, culprit: out, class: value", 0, 0, "missed   nothing")]
fn an_expectation_that_does_not_hold_is_told(
    #[case] row: &str,
    #[case] caught: usize,
    #[case] placed: usize,
    #[case] says: &str,
) {
    let bench = Bench::with_row(&format!("{{fault: {row}, cause: none, or: [norm_eps, token_factor]}}"));
    let score =
        format!("caught {caught}/1, placed {placed}/1, cause 0/0, facts 0/0, wrong causes 0, false alarms 0");
    bench.run(&[]).ends(1, &score, &[says, "placed is 0, at least 1 demanded"]);
}

#[test]
fn a_cause_that_is_not_found_is_told() {
    let ran = Bench::with_row("{fault: eps, culprit: norm, class: value, cause: sign}").run(&["--missed"]);
    assert_eq!(ran.code, Some(1), "{}", ran.said);
    assert!(ran.score.starts_with("caught 1/1, placed 1/1, cause 0/1, "), "{}", ran.said);
    ran.says(&["cause is 0, at least 1 demanded", "norm (value)  sign"]);
}

#[test]
fn of_a_selection_only_what_must_not_rise_is_demanded() {
    let bench = Bench::with_row(EPS);
    let score = "caught 1/1, placed 1/1, cause 0/0, facts 0/0, wrong causes 0, false alarms 0";
    bench.run(&["block/eps", "--missed"]).ends(0, score, &["1 fault in 1 spec\n"]);
    let ran = bench.run(&["nobody"]);
    assert_eq!(ran.code, Some(1));
    ran.says(&["no fault has `nobody` in its name"]);
}

#[test]
fn a_right_port_that_is_red_is_a_false_alarm() {
    let bench = Bench::with_row(EPS);
    let spec = bench.root.join("parity-specs/gated_mlp/block.yaml");
    let text = fs::read_to_string(&spec).unwrap();
    let strict = text.replace("mlp, rtol: 1e-5, atol: 1e-6", "mlp, rtol: 0, atol: 0");
    assert_ne!(strict, text);
    fs::write(spec, strict).unwrap();
    let ran = bench.run(&["eps"]);
    assert_eq!(ran.code, Some(1), "{}", ran.said);
    ran.says(&["false alarm: gated_mlp/block: gated (value) of the port as it is", "at most 0 allowed"]);
}

#[rstest]
#[case("{fault: nobody, culprit: norm, class: value, cause: none}", &["`fault/gated_mlp/block/nobody` was not run: "])]
#[case(
    "{fault: eps, culprit: norm, class: value, cause: facter}",
    &["faults.yaml`, line 5: unknown cause `facter`, did you mean `factor`?", "expected `none` or one of axes_permuted"]
)]
#[case("{fault: eps, culprit: norm, clas: value, cause: none}", &["faults.yaml`, line 5: ", "clas", "class"])]
#[case("{fault: eps, culprit: nrm, class: value, cause: none}", &["has no checkpoint `nrm`, which `eps` names, did you mean `norm`?"])]
#[case("{fault: ../eps, culprit: norm, class: value, cause: none}", &["is no name for a fault"])]
#[case("{fault: eps, culprit: norm, class: value, cause: none}\n  gated_mlp/blok: []", &["the spec `gated_mlp/blok`, which there is not, did you mean `gated_mlp/block`?"])]
fn a_file_that_cannot_be_used_is_told(#[case] row: &str, #[case] says: &[&str]) {
    let ran = Bench::with_row(row).run(&[]);
    assert_eq!(ran.code, Some(1), "{}", ran.said);
    ran.says(says);
}

#[test]
fn the_suite_of_a_bench_does_nothing_by_itself() {
    let ran = Ran::of(Command::new(mistaken()).output().unwrap());
    assert_eq!(ran.code, Some(1));
    ran.says(&["these ports are wrong on purpose; run `cargo xtask fault-bench`"]);
}

#[test]
fn a_project_without_faults_is_told_what_to_add() {
    let bench = Bench::with_row(EPS);
    let mut command = Command::new(binary("faulty", env!("CARGO_BIN_EXE_faulty")));
    command.arg("fault-bench").env("FAULTY_XTASK", "1");
    command.env("FAULTY_ROOT", ".").env("CARGO_MANIFEST_DIR", &bench.root);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, Some(1));
    ran.says(&["this project has no faults to run", "fault_bench(\"tests/faults.yaml\""]);
}
