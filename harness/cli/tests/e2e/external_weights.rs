//! Commands on a spec with external weights: `weights` reads headers only, and `regenerate-fixtures` copies nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::command::{
    EMPTY_WORKSPACE, GATED_MLP, WITH_EXPORTER, bounded, cargo_parity, check, copy_from_repository, prints,
    repository,
};
use mlx_parity_core::files::hash::sha256;

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";
const SET: &str = "fixtures/gated_mlp/block";
const SCRIPT: &str = "exporter/references/gated_mlp_block.py";

/// The gated MLP with weights in a cache outside its set.
struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        copy_from_repository(&GATED_MLP, project.0.path());
        fs::write(project.path("Cargo.toml"), EMPTY_WORKSPACE).unwrap();
        fs::create_dir(project.path("cache")).unwrap();
        project
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn declare(&self, weights: &str) {
        let text = fs::read_to_string(self.path(SPEC)).unwrap();
        let declared = text.lines().map(|line| match line.starts_with("weights:") {
            true => format!("weights: {weights}\n"),
            false => format!("{line}\n"),
        });
        fs::write(self.path(SPEC), declared.collect::<String>()).unwrap();
    }

    /// Moves the set's weights to the cache.
    fn move_weights(&self) -> PathBuf {
        let moved = self.path("cache/model.safetensors");
        fs::rename(self.path(SET).join("weights.safetensors"), &moved).unwrap();
        let path = self.path(SET).join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        manifest["tensors"].as_array_mut().unwrap().retain(|entry| entry["role"] != "weight");
        fs::write(path, manifest.to_string()).unwrap();
        moved
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = cargo_parity(self.0.path(), arguments);
        command.env("MODEL_CACHE", self.path("cache"));
        command
    }

    #[track_caller]
    fn prints(&self, arguments: &[&str], code: i32, words: &[&str]) -> String {
        check(self.command(arguments).output().unwrap(), code, words)
    }
}

/// Writes a shard of `tensors` weights of `[8192, 8192]` in bfloat16 whose data is a hole in the file.
fn sparse_shard(path: &Path, shard: usize, tensors: usize) {
    let size = 8192 * 8192 * 2;
    let mut header = json!({"__metadata__": {"format": "pt"}});
    for at in 0..tensors {
        let name = format!("layers.{shard}.{at}.weight");
        header[name] =
            json!({"dtype": "BF16", "shape": [8192, 8192], "data_offsets": [at * size, (at + 1) * size]});
    }
    let header = header.to_string();
    fs::write(path, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len((8 + header.len() + tensors * size) as u64).unwrap();
}

#[test]
fn the_headers_of_24_gb_are_audited_without_reading_them() {
    let project = Project::new();
    project.move_weights();
    for shard in 0..12 {
        sparse_shard(&project.path(&format!("cache/shard-{shard:02}.safetensors")), shard, 15);
    }
    project.declare("{external: \"${MODEL_CACHE}/shard-*.safetensors\", rename: {layers: blocks}}");
    // Hashing or reading them would take longer than the limit of the helper on most machines.
    let (code, text) = bounded(&mut project.command(&["weights", "gated_mlp/block"]));
    assert_eq!(code, 0, "{text}");
    prints(
        &text,
        &[
            "gated_mlp/block  180 weights in 12 files\n",
            "  blocks.11.14.weight  bfloat16  [8192, 8192]  external:shard-11.safetensors as layers.11.14.weight  -\n",
            "12079595520 parameters, 24",
        ],
    );

    // Against a plain file too; this one lacks every weight.
    let plain = project.path("plain.safetensors");
    sparse_shard(&plain, 0, 14);
    project.prints(
        &["weights", plain.to_str().unwrap(), "--against", "gated_mlp/block"],
        1,
        &["14 weights, the spec has 180", "MISSING  blocks.*.*.weight (166 weights)"],
    );
}

#[test]
fn what_is_wrong_with_external_files_is_an_error_of_the_command() {
    let project = Project::new();
    let moved = project.move_weights();
    project.declare("{external: \"${MODEL_CACHE}/*.safetensors\"}");
    project.prints(
        &["weights", "gated_mlp/block"],
        0,
        &["5 weights in 1 file", "external:model.safetensors"],
    );
    let unset =
        cargo_parity(project.0.path(), &["weights", "gated_mlp/block"]).env_remove("MODEL_CACHE").output();
    check(
        unset.unwrap(),
        1,
        &["the variable MODEL_CACHE is not set; set it, or write a default in the spec"],
    );
    fs::copy(&moved, project.path("cache/other.safetensors")).unwrap();
    project.prints(
        &["weights", "gated_mlp/block"],
        1,
        &["`model.safetensors` and `other.safetensors` both have the weight"],
    );
    fs::remove_file(project.path("cache/other.safetensors")).unwrap();
    let bytes = fs::read(&moved).unwrap();
    fs::write(&moved, &bytes[..bytes.len() - 1]).unwrap();
    project.prints(
        &["weights", "gated_mlp/block"],
        1,
        &["model.safetensors` cannot be used", "is truncated"],
    );
}

#[test]
fn wrong_keys_are_found_by_lint() {
    let project = Project::new();
    project.move_weights();
    let zeros = "0".repeat(64);
    for (weights, words) in [
        ("{external: \"models/*.safetensors\"}".to_owned(), "the path is relative"),
        ("{external: \"${MODEL_CACHE}/../*.safetensors\"}".to_owned(), "`..`"),
        ("{external: \"${MODEL_CACHE/*.safetensors\"}".to_owned(), "without its `}`"),
        ("{external: \"/m/pytorch_model.bin\"}".to_owned(), "names no file that can be read"),
        ("{external: \"/m/*.safetensors\", sha256: abc}".to_owned(), "expected a SHA-256"),
        ("{external: \"/m/*.safetensors\", sha256: {../a.safetensors: x}}".to_owned(), "name of a shard"),
        ("{external: \"/m/*.safetensors\", file: a.npz}".to_owned(), "both `file` and `external`"),
        (format!("{{file: a.npz, sha256: \"{zeros}\"}}"), "`sha256` without `external`"),
    ] {
        project.declare(&weights);
        project.prints(&["lint"], 1, &[words]);
    }
    let one = format!("{{external: \"/m/a.safetensors\", sha256: \"{}\"}}", "aB".repeat(32));
    project.declare(&one);
    project.prints(&["list", "gated_mlp/block"], 0, &["1 spec, 3 checkpoints"]);
}

/// The script, which reads the external weights and saves none.
fn reading_script() -> String {
    let text = fs::read_to_string(repository().join(SCRIPT)).unwrap();
    let (before, after) = text.split_once("    w = rec.weights(").unwrap();
    let after = after.split_once('\n').unwrap().1;
    let reads = "    w = rec.external_weights(rec.external_tensors())\n";
    format!("{before}{reads}{after}")
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn regenerating_copies_no_weight_and_records_the_files() {
    let project = Project::new();
    copy_from_repository(&["exporter/requirements-test.txt"], project.0.path());
    let packages = repository().join(".parity/python");
    fs::create_dir_all(&packages).unwrap();
    fs::create_dir_all(project.path(".parity")).unwrap();
    std::os::unix::fs::symlink(packages, project.path(".parity/python")).unwrap();
    let exporter = repository().join("exporter/parity_export");
    std::os::unix::fs::symlink(exporter, project.path("exporter/parity_export")).unwrap();
    fs::write(project.path("Cargo.toml"), WITH_EXPORTER).unwrap();
    let model = project.move_weights();
    fs::write(project.path(SCRIPT), reading_script()).unwrap();
    let regenerate = |arguments: &[&str], code: i32, words: &[&str]| {
        let mut command = project.command(&["regenerate-fixtures"]);
        command.envs(std::env::var_os("PARITY_PYTHON").map(|python| ("PARITY_PYTHON", python)));
        check(command.args(arguments).output().unwrap(), code, words)
    };

    // A wrong file is refused before the script runs.
    let wrong = "0".repeat(64);
    project.declare(&format!("{{external: \"${{MODEL_CACHE}}/*.safetensors\", sha256: \"{wrong}\"}}"));
    regenerate(
        &["--yes"],
        1,
        &["external weights of `gated_mlp/block` cannot be used", "but the spec declares"],
    );

    let hash = sha256(&[&fs::read(&model).unwrap()]);
    project.declare("{external: \"${MODEL_CACHE}/*.safetensors\"}");
    regenerate(&["--yes"], 0, &["1 replaced"]);
    let recipes = fs::read_to_string(project.path(SET).join("recipes.json")).unwrap();
    prints(&recipes, &[r#"["weight",[],{"name":"down.weight"}]"#, r#"["weight",[],{"name":"norm.weight"}]"#]);
    assert!(!project.path(SET).join("weights.safetensors").exists());
    let manifest: Value =
        serde_json::from_slice(&fs::read(project.path(SET).join("manifest.json")).unwrap()).unwrap();
    let size = fs::metadata(&model).unwrap().len();
    assert_eq!(
        manifest["external_weights"],
        json!([{"name": "model.safetensors", "size": size, "sha256": hash}])
    );
    regenerate(&["--check"], 0, &["1 current, 0 not"]);
    regenerate(&["--yes", "--force"], 0, &["reproduced byte for byte"]);
    project.prints(
        &["fixtures", "info", "gated_mlp/block"],
        0,
        &["gated_mlp/block  current", "external  model.safetensors, ", &hash],
    );

    // Another file with the same tensors: the goldens are those of the old one.
    let mut bytes = fs::read(&model).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&model, bytes).unwrap();
    regenerate(&["--check"], 1, &["made with other external weights: `model.safetensors` had SHA-256"]);
    project.prints(&["fixtures", "list"], 1, &["stale"]);
    // Without the weights, everything else is still checked.
    fs::remove_file(&model).unwrap();
    regenerate(&["--check"], 0, &["1 current, 0 not"]);
    regenerate(&["--yes", "--force"], 1, &["no file matches"]);
}
