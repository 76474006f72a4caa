//! Hostile names, paths, headers and run files neither control the terminal nor forge a line.

use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;

use mlx_parity_core::results::SpecFile;
use mlx_parity_core::run_folder::{BrokenSpec, FORMAT, Plan, PlannedSpec, Selection, SuiteFolder};
use mlx_parity_core::settings::Settings;
use mlx_parity_core::spec::{Inject, Specs};
use mlx_parity_core::tensor::{Dtype, TensorView, write_npy};
use serde_json::{Value, json};

use crate::command::{EMPTY_WORKSPACE, cargo_parity, repository};

/// Escapes and a bell, a line that looks like ours, marks of direction, and characters that XML refuses.
const HOSTILE: &str =
    "x\u{1b}[2J\u{7}\r\n9 agree, 0 differ, 0 only in A, 0 only in B\n\u{202e}\u{9b}31m\u{fffe}\u{ffff}";

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        home.write("Cargo.toml", EMPTY_WORKSPACE);
        home
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn write(&self, file: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Writes one float32 in an npy file.
    fn npy(&self, file: &str, value: f32) {
        fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        let bytes = value.to_le_bytes();
        write_npy(self.path(file), &TensorView::new(Dtype::Float32, &[1], &bytes).unwrap()).unwrap();
    }

    /// Writes a safetensors file of single float32.
    fn safetensors(&self, file: &str, tensors: &[(&str, f32)]) {
        let entry = |(at, (name, _)): (usize, &(&str, f32))| {
            let entry = json!({"dtype": "F32", "shape": [1], "data_offsets": [4 * at, 4 * at + 4]});
            ((*name).to_owned(), entry)
        };
        let header = Value::Object(tensors.iter().enumerate().map(entry).collect()).to_string();
        let data: Vec<u8> = tensors.iter().flat_map(|(_, value)| value.to_le_bytes()).collect();
        self.write(file, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat());
    }

    /// Runs a command in this folder, expects the exit code, and returns standard output and standard error.
    #[track_caller]
    fn run(&self, arguments: &[&str], code: i32) -> (String, String) {
        let Output { status, stdout, stderr } = cargo_parity(self.0.path(), arguments).output().unwrap();
        let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        assert_eq!(status.code(), Some(code), "{out}{err}");
        harmless(&out);
        harmless(&err);
        (out, err)
    }
}

/// Expects text and line ends only, and no line that a name has forged.
#[track_caller]
fn harmless(text: &str) {
    let bad = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{fffe}' | '\u{ffff}')
    };
    assert!(!text.contains(bad), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("9 agree")), "{text}");
}

#[test]
fn tensor_names_forge_nothing_in_a_diff() {
    let home = Home::new();
    home.safetensors("a.safetensors", &[(HOSTILE, 1.0), ("same", 1.0), ("only\n9 agree, 0 differ", 1.0)]);
    home.safetensors("b.safetensors", &[(HOSTILE, 2.0), ("same", 1.0), ("other\u{1b}]0;title\u{7}", 1.0)]);
    let (out, _) = home.run(&["diff", "a.safetensors", "b.safetensors", "--exact-names"], 1);
    assert!(out.contains("x\\u{1b}[2J\\u{7}\\r\\n9 agree, 0 differ"), "{out}");
    assert!(out.ends_with("\n1 agree, 1 differ, 1 only in A, 1 only in B\n"), "{out}");
    // A renamed tensor and one found by a near name are printed with both names.
    home.run(&["diff", "a.safetensors", "b.safetensors"], 1);
}

#[test]
fn file_names_forge_nothing_in_a_diff() {
    let home = Home::new();
    let name = "d\u{1b}[2J\n9 agree, 0 differ";
    home.npy(&format!("a{name}/t{name}.npy"), 1.0);
    home.npy(&format!("b{name}/t{name}.npy"), 2.0);
    let (out, _) = home.run(&["diff", &format!("a{name}"), &format!("b{name}")], 1);
    assert!(out.starts_with("A      ad\\u{1b}[2J\\n9 agree, 0 differ  1 tensor\n"), "{out}");
    let (_, err) = home.run(&["diff", &format!("missing{name}"), &format!("b{name}")], 2);
    assert!(err.starts_with("error: `missingd\\u{1b}[2J\n       9 agree"), "{err}");
}

#[test]
fn headers_forge_nothing_in_an_error() {
    let home = Home::new();
    home.npy("right.npy", 1.0);
    for header in [
        format!("{{'descr': '<f4{HOSTILE}', 'fortran_order': False, 'shape': (1,), }}\n"),
        format!("{{'{HOSTILE}': '<f4', 'fortran_order': False, 'shape': (1,), }}\n"),
        format!("{{'descr': [('{HOSTILE}', '<f4')], 'fortran_order': False, 'shape': (1,), }}\n"),
    ] {
        let length = (header.len() as u32).to_le_bytes();
        home.write("wrong.npy", [b"\x93NUMPY\x03\x00", &length[..], header.as_bytes(), &[0; 4]].concat());
        home.run(&["diff", "wrong.npy", "right.npy"], 2);
    }
    let header = json!({ HOSTILE: {"dtype": HOSTILE, "shape": [1], "data_offsets": [0, 4]} }).to_string();
    home.write(
        "wrong.safetensors",
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat(),
    );
    home.run(&["diff", "wrong.safetensors", "right.npy"], 2);
}

#[test]
fn specs_and_manifests_forge_nothing() {
    let home = Home::new();
    home.write(&format!("parity-specs/a/b{}.yaml", "\u{1b}[2J\n9 agree"), "version: 1\n");
    home.write(
        "parity-specs/a/c.yaml",
        "version: 1\nport: \"p\\e[2J\\n9 agree\"\nabout: \"x\\e[2J\\n9 agree\"\n\"k\\e\\n9 agree\": 1\ncheckpoints: []\n",
    );
    home.write(
        "parity-specs/a/d.yaml",
        "version: 1\nport: p\nabout: \"x\\e[2J\\n9 agree\"\nreference: {script: \"s\\e[2J\\n9 agree\"}\n\
         checkpoints: [{name: x, dtype: float32, rtol: 0, atol: 0, why: \"w\\e\\n9 agree\"}]\n",
    );
    home.write("s\u{1b}[2J\n9 agree", "");
    for manifest in [
        json!({"format": 1, "made_by": {"key": HOSTILE, "script": HOSTILE}, "tensors": []}),
        json!({"format": HOSTILE}),
        json!({"format": 1, "made_by": {"key": "0", "script": "s"}, "tensors": [{"name": HOSTILE, "role": "golden",
            "file": "x.npy", "dtype": HOSTILE, "shape": [1], "sha256": "0"}]}),
        json!({"format": 1, "made_by": {"key": "0", "script": "s"}, "tensors": [{"name": "x", "role": "golden",
            "file": HOSTILE, "dtype": "float32", "shape": [1], "sha256": HOSTILE, "sequence": 0}]}),
    ] {
        home.write("fixtures/a/d/manifest.json", manifest.to_string());
        home.run(&["lint"], 1);
    }
    home.run(&["list"], 1);
    home.run(&["list", "--names"], 1);
}

/// The record in docs/src/record.md, with this checkpoint.
fn record(checkpoint: &str) -> Value {
    let page = fs::read_to_string(repository().join("docs/src/record.md")).unwrap();
    let mut record: Value =
        serde_json::from_str(page.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    record["kind"] = "checkpoint".into();
    record["spec"] = "a/b".into();
    record["checkpoint"] = checkpoint.into();
    record
}

/// Writes what the suite would have written beside the folder of `a/b`.
fn write_plan(home: &Home, run: &str) {
    let spec = Arc::new(Specs::load_one(&home.path("parity-specs"), "a/b").unwrap());
    let file = serde_json::to_string(&SpecFile::of(&spec)).unwrap();
    home.write(&format!("{run}/a/b/spec.json"), file);
    let planned = PlannedSpec {
        id: "a/b".into(),
        digest: spec.digest(),
        trials: vec!["x".into(), "y".into()],
        inject: Inject::Declared,
        unmet: None,
    };
    let plan = Plan {
        format: FORMAT,
        mlx_parity: HOSTILE.into(),
        target: "parity".into(),
        started: HOSTILE.into(),
        folder: run.into(),
        checkout: None,
        settings: Settings::default(),
        selections: vec![Selection::default()],
        specs: vec![planned],
        broken: vec![BrokenSpec { id: HOSTILE.into(), text: HOSTILE.into() }],
        refused: None,
    };
    SuiteFolder::create(&home.path(run), "parity").unwrap().plan(|| plan, &Selection::default()).unwrap();
}

#[test]
fn a_run_folder_forges_nothing_and_breaks_no_report() {
    let home = Home::new();
    home.write(
        "parity-specs/a/b.yaml",
        "version: 1\nport: p\ncheckpoints: [{name: x, shape: [2, 2]}, {name: y, shape: [2, 2]}]\n",
    );
    let mut failing = record("x");
    failing["verdict"] = json!({"status": "fail", "class": "range", "detail": HOSTILE});
    failing["location"] = json!({"file": HOSTILE, "line": 7});
    failing["millis"] = json!(1e23);
    failing["causes"] = json!([]);
    let mut passing = record("y");
    passing["millis"] = json!(-1e308);
    let end = json!({"kind": "end", "error": null, "stopped": false, "unused_inputs": [HOSTILE], "weights": null,
        "random": null});
    let undeclared = json!({"kind": "undeclared", "name": HOSTILE});
    let lines: Vec<String> = [failing, passing, undeclared, end].iter().map(Value::to_string).collect();
    let run = "target/parity/runs/one";
    home.write(&format!("{run}/a/b/records.jsonl"), lines.join("\n") + "\n");
    home.write(&format!("{run}/a/b/exit.json"), "\"done\"");
    let environment = json!({"spec": "a/b", "level": 0, "device": HOSTILE, "mlx": HOSTILE, "mlx_parity": HOSTILE,
        "chip": HOSTILE, "cores": 2, "os": HOSTILE, "os_version": HOSTILE, "arch": HOSTILE, "optimised": false,
        "started": HOSTILE, "variables": {HOSTILE: HOSTILE}});
    home.write(&format!("{run}/a/b/run.json"), environment.to_string());
    write_plan(&home, run);
    let (out, _) = home.run(&["report", "one", "--failures"], 1);
    assert!(out.contains("  what     x\\u{1b}[2J\\u{7}\\r\\n9 agree"), "{out}");
    for file in ["report.txt", "junit.xml"] {
        harmless(&fs::read_to_string(home.path(&format!("{run}/{file}"))).unwrap());
    }
    let junit = fs::read_to_string(home.path(&format!("{run}/junit.xml"))).unwrap();
    assert!(junit.contains("<testcase name=\"x\"") && !junit.contains("&#x"), "{junit}");

    // An interrupted run names its last checkpoint in a sentence.
    fs::remove_file(home.path(&format!("{run}/a/b/exit.json"))).unwrap();
    let mut last = record("y");
    last["checkpoint"] = json!(HOSTILE);
    home.write(&format!("{run}/a/b/records.jsonl"), last.to_string() + "\n");
    home.write(&format!("{run}/a/b/started"), r#"{"process": 1, "attempt": 1}"#);
    home.run(&["report", "one", "--failures"], 1);
    for file in ["report.txt", "junit.xml"] {
        harmless(&fs::read_to_string(home.path(&format!("{run}/{file}"))).unwrap());
    }
}
