//! What `cargo xtask weights` lists, of this repository's own specs in a copy of their own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod said;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use said::check;

/// A project with the gated MLP in it.
struct Project(tempfile::TempDir);

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";
const RUN: &str = "target/parity/runs/one/gated_mlp/block";

impl Project {
    fn new() -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for file in [
            "parity-specs/policies.yaml",
            SPEC,
            "fixtures/gated_mlp/block/manifest.json",
            "fixtures/gated_mlp/block/weights.safetensors",
        ] {
            project.write(file, &fs::read(repository.join(file)).unwrap());
        }
        fs::create_dir(project.0.path().join("xtask")).unwrap();
        project
    }

    fn write(&self, file: &str, bytes: &[u8]) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Puts other words into the spec.
    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.0.path().join(SPEC)).unwrap();
        assert!(text.contains(from));
        self.write(SPEC, text.replacen(from, to, 1).as_bytes());
    }

    /// Leaves a run whose audit is this one.
    fn ran(&self, audit: &str) {
        self.write(&format!("{RUN}/exit.json"), b"\"done\"");
        let end = format!(
            r#"{{"kind":"end","error":null,"stopped":false,"unused_inputs":[],"weights":{audit},"random":null}}"#
        );
        self.write(&format!("{RUN}/records.jsonl"), format!("{end}\n").as_bytes());
        std::os::unix::fs::symlink("one", self.0.path().join("target/parity/runs/latest")).unwrap();
    }

    fn weights(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("weights").args(arguments).env("CARGO_MANIFEST_DIR", self.0.path().join("xtask"));
        command.env_remove("PARITY_FIXTURES").env_remove("PARITY_OUT").output().unwrap()
    }
}

#[test]
fn every_weight_is_listed_without_a_run_and_without_data() {
    let project = Project::new();
    // Nothing but the header is needed, so the data may be wrong.
    let path = project.0.path().join("fixtures/gated_mlp/block/weights.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let said = check(
        project.weights(&["gated_mlp/block"]),
        0,
        &[
            "gated_mlp/block  5 weights in 1 file\n",
            "the last run does not say",
            "cargo xtask parity gated_mlp/block",
        ],
    );
    assert!(said.contains("  down.bias    float32  [32]      weights.safetensors  -\n"), "{said}");
}

#[test]
fn renames_and_what_the_last_run_did_are_shown() {
    let project = Project::new();
    project.edit("{file: weights.safetensors}", "{file: weights.safetensors, rename: {down: proj}}");
    project.ran(
        r#"{"taken":["gate.weight","norm.weight","proj.weight"],"missing":["proj.scale"],
            "unused":["proj.bias"],"misshapen":["parameter `up.weight` is off"],"mistyped":[],"siblings":[],"packing":[]}"#
            .replace('\n', " ")
            .as_str(),
    );
    let said = check(
        project.weights(&["gated_mlp/block"]),
        1,
        &["last run: one", "SHAPE    parameter `up.weight` is off"],
    );
    let row = |name: &str| said.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(row("proj.bias").ends_with("weights.safetensors as down.bias    unused"), "{said}");
    assert!(row("proj.weight").ends_with("taken") && row("proj.scale").ends_with("missing"), "{said}");
    assert!(row("up.weight").ends_with(" -"), "{said}");

    let json = check(project.weights(&["gated_mlp/block", "--json"]), 1, &[]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["spec"], &json["run"]), (&"gated_mlp/block".into(), &"one".into()));
    assert_eq!(json["missing"], serde_json::json!(["proj.scale"]));
    let bias = json["weights"].as_array().unwrap().iter().find(|row| row["name"] == "proj.bias").unwrap();
    assert_eq!(
        *bias,
        serde_json::json!({"name": "proj.bias", "stored": "down.bias", "dtype": "float32", "shape": [32],
                           "file": "weights.safetensors", "audit": "unused"})
    );
}

#[test]
fn what_is_wrong_with_the_files_needs_no_run() {
    let project = Project::new();
    project.edit(
        "{file: weights.safetensors}",
        "{file: weights.safetensors, dtype: bfloat16, expect: [head.weight]}",
    );
    let said = check(
        project.weights(&["gated_mlp/block"]),
        1,
        &["DTYPE    up.weight: the file has float32, but the spec declares bfloat16"],
    );
    assert!(
        said.lines().any(|line| line.trim_start().starts_with("head.weight") && line.ends_with("missing"))
    );
}

#[test]
fn a_spec_that_cannot_be_listed_is_one_clear_error() {
    let project = Project::new();
    check(
        project.weights(&["gated_mlp/blok"]),
        1,
        &["there is no spec `gated_mlp/blok`, did you mean `gated_mlp/block`?", "cargo xtask list"],
    );
    project.edit("{file: weights.safetensors}", "{shards: [weights.safetensors, b.safetensors]}");
    check(project.weights(&["gated_mlp/block"]), 1, &["`b.safetensors` has no weights in the manifest"]);
    project.edit("weights: {shards: [weights.safetensors, b.safetensors]}\n", "");
    check(project.weights(&["gated_mlp/block"]), 1, &["spec `gated_mlp/block` has no `weights`"]);
    project.edit("port:", "prt:");
    check(project.weights(&["gated_mlp/block"]), 1, &["unknown key `prt`", "block.yaml"]);
    fs::remove_dir_all(project.0.path().join("fixtures")).unwrap();
}
