//! A project whose references are shell scripts, and so is the Python that runs them. What the commands do around a
//! reference does not depend on what it computes, and needs no NumPy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mlx_parity_core::golden::{ChecksumMemory, FixtureSet, made_by_key};
use mlx_parity_core::tensor::{Dtype, Tensor, write_npy};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::command::{WITH_EXPORTER, cargo_parity, ended, prints};

pub(crate) const SET: &str = "model/part";
/// Copies the prepared set with the number `MARK`.
pub(crate) const SCRIPT: &str = "cp -r \"made/${MARK:-1}\" \"$1\"\n";
const SPEC: &str = "version: 1\nport: p\nreference: {script: reference.sh, env: [MARK]}\ninputs: [x]\ncheckpoints:\n  \
    - {name: a, dtype: float32, policy: fp32}\n  - {name: b, dtype: float32, policy: fp32}\n";
const POLICIES: &str = "version: 1\npolicies: {fp32: {rtol: 1e-5, atol: 1e-5, dtypes: [float32]}}\n";

pub(crate) struct Project {
    home: tempfile::TempDir,
}

impl Project {
    /// A project with one spec and no fixtures, whose script makes a set in which every element is `MARK`.
    pub(crate) fn new() -> Self {
        let project = Self { home: tempfile::tempdir().unwrap() };
        project.write("parity-specs/model/part.yaml", SPEC);
        project.write("parity-specs/policies.yaml", POLICIES);
        project.write("python", concat!(
            "#!/bin/sh\nif [ \"$1\" = -c ]; then\n",
            "  echo '{\"version\": [3, 11], \"libc\": [\"glibc\", \"2.36\"], \"pip\": \"23.2\"}'\n  exit 0\nfi\n",
            "exec /bin/sh \"$@\"\n"
        ));
        fs::set_permissions(project.path("python"), fs::Permissions::from_mode(0o755)).unwrap();
        project.write("reference.sh", SCRIPT);
        project.write("Cargo.toml", WITH_EXPORTER);
        for mark in 1..=2 {
            project.prepare(mark);
        }
        project
    }

    /// Prepares the set with this mark, for the script as it is now.
    pub(crate) fn prepare(&self, mark: u8) {
        self.nudge(mark, 0.0);
    }

    /// Prepares the set with one element of golden `a` off by `by`.
    pub(crate) fn nudge(&self, mark: u8, by: f32) {
        self.make(&format!("made/{mark}"), mark, by, 1e-6);
    }

    /// Writes a set with correct checksums into a folder: one element of golden `a` is off by `by`, and both goldens
    /// have this floor.
    pub(crate) fn make(&self, folder: &str, mark: u8, by: f32, floor: f64) {
        let folder = self.path(folder);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let entry = |index: u32, name: &str, role: &str| {
            let file = format!("{role}-{name}.npy");
            let mut values = [f32::from(mark); 64];
            values[7] += if name == "a" { by } else { 0.0 };
            let values: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let tensor = Tensor::from_vec(Dtype::Float32, vec![64], values.clone()).unwrap();
            write_npy(folder.join(&file), &tensor.view()).unwrap();
            let sha256: String = Sha256::digest(&values).iter().map(|byte| format!("{byte:02x}")).collect();
            let mut entry = json!({"name": name, "role": role, "file": file, "dtype": "float32", "shape": [64],
                                   "sha256": sha256});
            if role == "golden" {
                entry["sequence"] = index.into();
                entry["floor"] = json!({"max": floor, "rms": floor / 10.0});
            }
            entry
        };
        let script = fs::read(self.path("reference.sh")).unwrap();
        let key = made_by_key(&json!({"script": "reference.sh"}), &script);
        let manifest = json!({
            "format": 1,
            "made_by": {"key": key, "script": "reference.sh"},
            "tensors": [entry(0, "a", "golden"), entry(1, "b", "golden"), entry(2, "x", "input")],
        });
        fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    }

    /// Adds recipes to a set that was written, with one constant, whose elements are all `number`.
    pub(crate) fn add_recipes(&self, folder: &str, number: f32) {
        let folder = self.path(folder);
        let values: Vec<u8> = [number; 2].iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = Tensor::from_vec(Dtype::Float32, vec![2], values.clone()).unwrap();
        write_npy(folder.join("constant.npy"), &tensor.view()).unwrap();
        let recipes = json!({"format": 1, "sources": [], "nodes": [["constant", [], {"name": "c"}]],
                             "goldens": {"a": 0}, "missing": {"b": format!("of {number}")}});
        fs::write(folder.join("recipes.json"), recipes.to_string()).unwrap();
        let sha256 = |bytes: &[u8]| -> String {
            Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let path = folder.join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        manifest["recipes"] =
            json!({"file": "recipes.json", "sha256": sha256(recipes.to_string().as_bytes())});
        manifest["tensors"].as_array_mut().unwrap().push(json!({"name": "c", "role": "constant",
            "file": "constant.npy", "dtype": "float32", "shape": [2], "sha256": sha256(&values)}));
        fs::write(path, manifest.to_string()).unwrap();
    }

    /// Replaces the script, and prepares the sets for it.
    pub(crate) fn script(&self, text: &str) {
        self.write("reference.sh", text);
        for mark in 1..=2 {
            self.prepare(mark);
        }
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.home.path().join(file)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = cargo_parity(self.home.path(), arguments);
        command.env("PARITY_PYTHON", self.path("python"));
        command
    }

    /// Runs `regenerate-fixtures` with a mark, and returns its exit code and what it printed.
    pub(crate) fn regenerate(&self, mark: u8, arguments: &[&str]) -> (i32, String) {
        let mut command = self.command(&["regenerate-fixtures"]);
        ended(command.args(arguments).env("MARK", mark.to_string()).output().unwrap())
    }

    /// Runs [`Project::regenerate`], and expects the exit code and these words.
    #[track_caller]
    pub(crate) fn prints(&self, mark: u8, arguments: &[&str], code: i32, words: &[&str]) -> String {
        let (found, text) = self.regenerate(mark, arguments);
        assert_eq!(found, code, "{text}");
        prints(&text, words);
        text
    }

    /// The mark of the committed set, if there is one. Every tensor must be sound and have the same mark.
    #[track_caller]
    pub(crate) fn mark(&self) -> Option<u8> {
        let root = self.path("fixtures");
        if !root.join(SET).exists() {
            return None;
        }
        let set = FixtureSet::open(&root, SET).unwrap();
        let problems = set.verify(&mut ChecksumMemory::default());
        assert!(problems.is_empty(), "{problems:?}");
        let hashes: Vec<&String> = set.manifest().tensors.iter().map(|entry| &entry.sha256).collect();
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "a mixed set");
        let first = set.golden("a").unwrap().tensor;
        let bytes = first.view().row_major_bytes().unwrap()[..4].try_into().unwrap();
        Some(f32::from_le_bytes(bytes) as u8)
    }

    /// The names of all entries in the fixture root, hidden ones too.
    pub(crate) fn entries(&self) -> Vec<String> {
        names(&self.path("fixtures"))
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
