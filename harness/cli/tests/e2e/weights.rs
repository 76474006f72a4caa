//! What `cargo xtask weights` lists, for a copy of the gated MLP.

use std::fs;
use std::process::Output;

use crate::command::{EMPTY_WORKSPACE, cargo_parity, check, copy_from_repository};

/// A project with the gated MLP.
struct Project(tempfile::TempDir);

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";
const RUN: &str = "target/parity/runs/one/gated_mlp/block";

impl Project {
    fn new() -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        let files = [
            "parity-specs/policies.yaml",
            SPEC,
            "fixtures/gated_mlp/block/manifest.json",
            "fixtures/gated_mlp/block/weights.safetensors",
        ];
        copy_from_repository(&files, project.0.path());
        project.write("Cargo.toml", EMPTY_WORKSPACE.as_bytes());
        project
    }

    fn write(&self, file: &str, bytes: &[u8]) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Replaces `from` in the spec by `to`.
    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.0.path().join(SPEC)).unwrap();
        assert!(text.contains(from));
        self.write(SPEC, text.replacen(from, to, 1).as_bytes());
    }

    /// Writes a run with this weight audit.
    fn ran(&self, audit: &str) {
        self.write(&format!("{RUN}/exit.json"), b"\"done\"");
        let end = format!(
            r#"{{"kind":"end","error":null,"stopped":false,"unused_inputs":[],"weights":{audit},"random":null}}"#
        );
        self.write(&format!("{RUN}/records.jsonl"), format!("{end}\n").as_bytes());
        std::os::unix::fs::symlink("one", self.0.path().join("target/parity/runs/latest")).unwrap();
    }

    fn weights(&self, arguments: &[&str]) -> Output {
        cargo_parity(self.0.path(), &[&["weights"], arguments].concat()).output().unwrap()
    }
}

#[test]
fn every_weight_is_listed_without_a_run_and_without_data() {
    let project = Project::new();
    // Only the header is read, so the data may be wrong.
    let path = project.0.path().join("fixtures/gated_mlp/block/weights.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let text = check(
        project.weights(&["gated_mlp/block"]),
        0,
        &[
            "gated_mlp/block  5 weights in 1 file\n",
            "the last run did not audit these weights",
            "cargo parity run gated_mlp/block",
        ],
    );
    assert!(text.contains("  down.bias    float32  [32]      weights.safetensors  -\n"), "{text}");
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
    let text = check(
        project.weights(&["gated_mlp/block"]),
        1,
        &["last run: one", "SHAPE    parameter `up.weight` is off"],
    );
    let row = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(row("proj.bias").ends_with("weights.safetensors as down.bias    unused"), "{text}");
    assert!(row("proj.weight").ends_with("taken") && row("proj.scale").ends_with("missing"), "{text}");
    assert!(row("up.weight").ends_with(" -"), "{text}");

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
    let text = check(
        project.weights(&["gated_mlp/block"]),
        1,
        &["DTYPE    up.weight: the file has float32, but the spec declares bfloat16"],
    );
    assert!(
        text.lines().any(|line| line.trim_start().starts_with("head.weight") && line.ends_with("missing"))
    );
}

#[test]
fn a_spec_that_cannot_be_listed_is_one_clear_error() {
    let project = Project::new();
    check(
        project.weights(&["gated_mlp/blok"]),
        1,
        &["spec `gated_mlp/blok` does not exist, did you mean `gated_mlp/block`?", "cargo parity list"],
    );
    project.edit("{file: weights.safetensors}", "{shards: [weights.safetensors, b.safetensors]}");
    check(project.weights(&["gated_mlp/block"]), 1, &["`b.safetensors` has no weights in the manifest"]);
    project.edit("weights: {shards: [weights.safetensors, b.safetensors]}\n", "");
    check(project.weights(&["gated_mlp/block"]), 1, &["spec `gated_mlp/block` has no `weights`"]);
    project.edit("port:", "prt:");
    check(project.weights(&["gated_mlp/block"]), 1, &["unknown key `prt`", "block.yaml"]);
    fs::remove_dir_all(project.0.path().join("fixtures")).unwrap();
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_plain_file_is_compared_with_a_spec() {
    let project = Project::new();
    let own = "fixtures/gated_mlp/block/weights.safetensors";
    let against = ["--against", "gated_mlp/block"];
    let run = |file: &str, more: &[&str]| project.weights(&[&[file], &against[..], more].concat());
    check(run(own, &[]), 0, &["5 weights, the spec has 5", "every name, shape and dtype agrees"]);
    check(project.weights(&[own, "--against", SPEC]), 0, &["against gated_mlp/block"]);

    let header = |tensors: &str| {
        let mut bytes = (tensors.len() as u64).to_le_bytes().to_vec();
        bytes.extend(tensors.as_bytes());
        // The data is never read, but must exist.
        bytes.extend(vec![0; 64]);
        bytes
    };
    let tensor = |dtype: &str, shape: &str, from: usize, to: usize| {
        format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    };
    let tensors = format!(
        r#"{{"norm.weight":{},"down.bias":{},"extra.0.w":{},"extra.1.w":{}}}"#,
        tensor("F32", "[4]", 0, 16),
        tensor("F16", "[8]", 16, 32),
        tensor("F32", "[4]", 32, 48),
        tensor("F32", "[4]", 48, 64)
    );
    project.write("model.safetensors", &header(&tensors));
    let text = check(run("model.safetensors", &[]), 1, &["weights.rename", "UNUSED   extra.*.w (2 weights)"]);
    for line in [
        "  MISSING  up.weight",
        "  SHAPE    norm.weight: the file has [4], the spec [32]",
        "  DTYPE    down.bias: the file has float16, the spec float32",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let names = check(run("model.safetensors", &["--names"]), 1, &["MISSING"]);
    assert!(!names.contains("SHAPE") && !names.contains("DTYPE"), "{names}");
    let json: serde_json::Value =
        serde_json::from_str(&check(run("model.safetensors", &["--json"]), 1, &[])).unwrap();
    assert_eq!(json["unused"], serde_json::json!(["extra.0.w", "extra.1.w"]));

    // A pickle can run code, so it is never read.
    project.write("model.pt", b"");
    for more in [&against[..], &[]] {
        let output = project.weights(&[&["model.pt"], more].concat());
        check(output, 1, &["convert it with `python -c", "torch.load('model.pt'", "weights_only=True"]);
    }
    check(
        project.weights(&["model.safetensors"]),
        1,
        &["is a file, and a spec is expected", "--against <SPEC>"],
    );
    check(project.weights(&["a/b", "c/d"]), 1, &["one spec is expected, found 2 names"]);
    project.write("empty/a.txt", b"");
    check(run("empty", &[]), 1, &["`empty` holds no npy, npz or safetensors file"]);
    check(run("fixtures/gated_mlp/block", &[]), 0, &["every name, shape and dtype agrees"]);
}
