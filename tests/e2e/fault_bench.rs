//! The whole fault bench: every fault is caught where `faults.yaml` expects it. Mistakes in `faults.yaml` itself are
//! reported.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use mlx_parity_core::diagnose::{CauseKind, FactKind};
use rstest::rstest;
use serde_json::{Value, json};

use crate::project::{FILES, Ran, bad_ports, copy_from_repository, repository, write_script};

/// A project with faults, and a script in place of Cargo that names the built suite.
struct Bench {
    home: tempfile::TempDir,
    root: PathBuf,
}

impl Bench {
    fn of(root: Option<PathBuf>) -> Self {
        let home = tempfile::tempdir().unwrap();
        // Here the binary is the suite, not the command.
        let suite = format!("unset BAD_PORTS_MODE\nexec '{}' \"$@\"", bad_ports().display());
        let suite = write_script(&home.path().join("suite"), &suite);
        let root = root.unwrap_or_else(|| home.path().join("project"));
        let artifact = json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///somewhere/tests#parity-tests@0.1.0",
            "target": {"name": "bad_ports", "kind": ["bin"]},
            "executable": suite,
            "manifest_path": root.join("tests/Cargo.toml"),
        });
        write_script(&home.path().join("cargo"), &format!("echo '{artifact}'"));
        Self { home, root }
    }

    /// A project with the gated MLP and this one fault, which must be caught, placed and explained.
    fn with_row(row: &str) -> Self {
        let bench = Self::of(None);
        copy_from_repository(&FILES, &bench.root);
        let head = "at_least: {caught: 1, placed: 1, cause: 1, facts: 0}\nat_most: {wrong_causes: 0, false_alarms: 0}\n";
        fs::create_dir(bench.root.join("tests")).unwrap();
        let file = bench.root.join("tests/faults.yaml");
        fs::write(file, format!("{head}faults:\n  gated_mlp/block:\n    - {row}\n")).unwrap();
        bench
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(bad_ports());
        command.arg("fault-bench").args(arguments).env("CARGO_MANIFEST_DIR", self.root.join("xtask"));
        command.env("BAD_PORTS_MODE", "xtask_with_faults").env("BAD_PORTS_ROOT", &self.root);
        command.env("CARGO", self.home.path().join("cargo")).env_remove("PARITY_FIXTURES");
        command.env("PARITY_OUT", self.home.path().join("out"));
        Ran::of(command.output().unwrap())
    }
}

/// The last line of standard output, which has the counts.
fn score(ran: &Ran) -> &str {
    ran.stdout.lines().last().unwrap_or_default()
}

#[track_caller]
fn ends(ran: &Ran, code: i32, expected: &str, words: &[&str]) {
    assert_eq!((ran.code, score(ran)), (Some(code), expected), "{}", ran.text);
    ran.prints(words);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn every_fault_is_caught_and_placed() {
    let bench = Bench::of(Some(repository()));
    let json = bench.home.path().join("bench.json");
    let ran = bench.run(&["--json", json.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    let found: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let [known, unseen] = &found["lists"].as_array().unwrap()[..] else { panic!("{found}") };
    let rows = known["rows"].as_array().unwrap();
    let count = |list: &Value| list["rows"].as_array().unwrap().len();
    for (list, score) in [(known, "known   "), (unseen, "unseen  ")] {
        let start = format!("{score}caught {0}/{0}, placed {0}/{0}, cause ", count(list));
        assert!(ran.stdout.lines().any(|line| line.starts_with(&start)), "{}", ran.text);
        assert_eq!(list["score"]["false_alarms"], 0, "{}", ran.text);
    }
    assert_eq!(known["score"]["wrong_causes"], 0, "{}", ran.text);
    for row in rows.iter().chain(unseen["rows"].as_array().unwrap()) {
        assert_eq!(row["found"]["culprit"], row["expected"]["culprit"], "{row}");
        assert_eq!(row["found"]["first"]["checkpoint"], row["expected"]["first"], "{row}");
    }

    // Every kind of cause and of fact, and both dtypes, must occur: the bench cannot notice the loss of one that does not.
    let expected = |row: &Value| -> Vec<String> {
        let kinds = row["expected"]["or"].as_array().into_iter().flatten().chain([&row["expected"]["cause"]]);
        kinds.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let causes: BTreeSet<String> = rows.iter().flat_map(expected).collect();
    assert_eq!(causes, CauseKind::ALL.iter().map(|kind| kind.name().to_owned()).collect());
    let facts: BTreeSet<&str> = rows.iter().filter_map(|row| row["expected"]["fact"].as_str()).collect();
    assert_eq!(facts, FactKind::ALL.iter().map(|kind| kind.name()).collect());
    let in_bfloat16 = rows.iter().filter(|row| row["spec"].as_str().unwrap().ends_with("_bf16"));
    assert!(in_bfloat16.count() >= 12);
    the_guide_has_these_counts(&ran, &found);
}

/// The guide shows the last two lines, and has the same counts in a text.
fn the_guide_has_these_counts(ran: &Ran, found: &Value) {
    let sample = crate::readme::sample("cargo xtask fault-bench");
    let printed: Vec<&str> = ran.stdout.lines().filter(|line| line.contains("  caught ")).collect();
    assert_eq!(&sample[sample.len() - 2..], printed, "update docs/src/fault-bench.md");

    let page = fs::read_to_string(repository().join("docs/src/reading-a-failure.md")).unwrap();
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let [known, unseen] = [0_usize, 1].map(|list| &found["lists"][list]["score"]);
    for words in [
        format!("lists {} *known* faults", known["faults"]),
        format!("lists {} *unseen* faults", unseen["faults"]),
        format!("expected for {} known and {} unseen faults", known["explicable"], unseen["explicable"]),
        format!("finds {} and {} of these causes", known["cause"], unseen["cause"]),
    ] {
        assert!(page.contains(&words), "docs/src/reading-a-failure.md has no `{words}`");
    }
}

const EPS: &str =
    "{fault: eps, culprit: norm, class: value, cause: none, or: [norm_eps, token_factor, constant]}";

#[rstest]
#[case::place("eps, culprit: gated, class: value", 1, 0, "first faulty stage norm (value)")]
#[case::class("eps, culprit: norm, class: shape", 1, 0, "first faulty stage norm (value)")]
#[case::first("eps, culprit: norm, first: out, class: value", 1, 0, "first red norm (value), expected out")]
#[case::no_fault("nothing, culprit: out, class: value", 0, 0, "missed   nothing")]
#[ignore = "slow: `.ci/run` runs it"]
fn an_expectation_that_does_not_hold_is_reported(
    #[case] row: &str,
    #[case] caught: usize,
    #[case] placed: usize,
    #[case] says: &str,
) {
    let bench =
        Bench::with_row(&format!("{{fault: {row}, cause: none, or: [norm_eps, token_factor, constant]}}"));
    let score =
        format!("caught {caught}/1, placed {placed}/1, cause 0/0, facts 0/0, wrong causes 0, false alarms 0");
    ends(&bench.run(&[]), 1, &score, &[says, "placed is 0, expected at least 1"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_cause_that_is_not_found_is_reported() {
    let ran = Bench::with_row("{fault: eps, culprit: norm, class: value, cause: sign}").run(&["--missed"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    assert!(score(&ran).starts_with("caught 1/1, placed 1/1, cause 0/1, "), "{}", ran.text);
    ran.prints(&["cause is 0, expected at least 1", "norm (value)        sign"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_selection_is_held_to_upper_limits_only() {
    let bench = Bench::with_row(EPS);
    let score = "caught 1/1, placed 1/1, cause 0/0, facts 0/0, wrong causes 0, false alarms 0";
    ends(&bench.run(&["block/eps", "--missed"]), 0, score, &["1 fault in 1 spec\n"]);
    let ran = bench.run(&["nobody"]);
    assert_eq!(ran.code, Some(1));
    ran.prints(&["no fault has `nobody` in its name"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_right_port_that_is_red_is_a_false_alarm() {
    let bench = Bench::with_row(EPS);
    let spec = bench.root.join("parity-specs/gated_mlp/block.yaml");
    let text = fs::read_to_string(&spec).unwrap();
    let strict = text.replace("mlp, rtol: 1e-5, atol: 1e-6", "mlp, rtol: 0, atol: 0");
    assert_ne!(strict, text);
    fs::write(spec, strict).unwrap();
    let ran = bench.run(&["eps"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&[
        "false alarm: gated_mlp/block: gated (value) in the port without a fault",
        "expected at most 0",
    ]);
}

#[rstest]
#[case("{fault: nobody, culprit: norm, class: value, cause: none}", &["`fault/gated_mlp/block/nobody` was not run: "])]
#[case(
    "{fault: eps, culprit: norm, class: value, cause: facter}",
    &["faults.yaml`, line 5: unknown cause `facter`, did you mean `factor`?", "expected `none` or one of axes_permuted"]
)]
#[case("{fault: eps, culprit: norm, clas: value, cause: none}", &["faults.yaml`, line 5: ", "clas", "class"])]
#[case("{fault: eps, culprit: nrm, class: value, cause: none}", &["fault `eps` names checkpoint `nrm`, which spec `gated_mlp/block` does not have, did you mean `norm`?"])]
#[case("{fault: ../eps, culprit: norm, class: value, cause: none}", &["is not a valid name for a fault"])]
#[case("{fault: eps, culprit: norm, class: value, cause: none}\n  gated_mlp/blok: []", &["spec `gated_mlp/blok`, which does not exist, did you mean `gated_mlp/block`?"])]
fn a_file_that_cannot_be_used_is_reported(#[case] row: &str, #[case] says: &[&str]) {
    let ran = Bench::with_row(row).run(&[]);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(says);
}

#[test]
fn the_suite_of_a_bench_does_nothing_by_itself() {
    let ran = Ran::of(Command::new(bad_ports()).output().unwrap());
    assert_eq!(ran.code, Some(1));
    ran.prints(&["the ports of this suite have faults; run `cargo xtask fault-bench`"]);
}

#[test]
fn a_project_without_faults_gets_the_line_to_add() {
    let bench = Bench::with_row(EPS);
    let mut command = Command::new(bad_ports());
    command.arg("fault-bench").env("BAD_PORTS_MODE", "xtask");
    command.env("BAD_PORTS_ROOT", ".").env("CARGO_MANIFEST_DIR", &bench.root);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, Some(1));
    ran.prints(&["this project has no faults to run", "fault_bench(\"tests/faults.yaml\""]);
}
