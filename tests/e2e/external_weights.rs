//! Weights outside the project: a port reads the shards in place, and every fault of the files has its own words.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::project::{Project, Ran, SPEC};
use mlx_parity_core::files::hash::sha256;
use mlx_parity_core::tensor::TensorFile;
use rstest::rstest;
use serde_json::{Value, json};

const SET: &str = "fixtures/gated_mlp/block";
const TRIALS: [&str; 5] = ["fixture", "gated", "norm", "out", "weights"];
const SHARDS: [&str; 2] = ["model-1.safetensors", "model-2.safetensors"];

/// The gated MLP whose weights are in two shards of a cache, and no longer in its fixture set.
struct Moved {
    project: Project,
    weights: Vec<(String, Vec<usize>, Vec<u8>)>,
}

impl Moved {
    fn with_port(port: &str) -> Self {
        let project = Project::with_port(port);
        let file = project.path(&format!("{SET}/weights.safetensors"));
        let open = TensorFile::open(&file).unwrap();
        let weight = |name: &str| {
            let tensor = open.get(name).unwrap();
            (name.to_owned(), tensor.shape().to_vec(), tensor.view().row_major_bytes().unwrap().to_vec())
        };
        let weights: Vec<_> = open.names().map(weight).collect();
        fs::remove_file(file).unwrap();
        let moved = Self { project, weights };
        fs::create_dir_all(moved.path("")).unwrap();
        moved.shard(SHARDS[0], 0..2);
        moved.shard(SHARDS[1], 2..5);
        moved.change_manifest(|manifest| {
            manifest["tensors"].as_array_mut().unwrap().retain(|entry| entry["role"] != "weight");
        });
        moved.declare("*.safetensors", &moved.hashes());
        moved
    }

    fn path(&self, file: &str) -> PathBuf {
        self.project.path("cache/snapshots/1").join(file)
    }

    /// Writes weights of this range into a shard.
    fn shard(&self, file: &str, range: std::ops::Range<usize>) {
        let (mut header, mut data) = (json!({}), Vec::new());
        for (name, shape, bytes) in &self.weights[range] {
            header[name] = json!({"dtype": "F32", "shape": shape, "data_offsets": [data.len(), data.len() + bytes.len()]});
            data.extend(bytes);
        }
        let header = header.to_string();
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
        fs::write(self.path(file), bytes).unwrap();
    }

    fn hash(&self, file: &str) -> String {
        sha256(&[&fs::read(self.path(file)).unwrap()])
    }

    fn hashes(&self) -> String {
        let one = |file: &str| format!("{file}: \"{}\"", self.hash(file));
        format!("sha256: {{{}, {}}}", one(SHARDS[0]), one(SHARDS[1]))
    }

    /// Declares these files of the cache as the weights.
    fn declare(&self, files: &str, more: &str) {
        let text = fs::read_to_string(self.project.path(SPEC)).unwrap();
        let comma = if more.is_empty() { "" } else { ", " };
        let line = format!("weights: {{external: \"${{MODEL_CACHE}}/snapshots/*/{files}\"{comma}{more}}}");
        let is_weights = |line: &&str| line.starts_with("weights:");
        let lines: Vec<&str> = text.lines().map(|old| if is_weights(&old) { &*line } else { old }).collect();
        fs::write(self.project.path(SPEC), lines.join("\n") + "\n").unwrap();
    }

    fn change_manifest(&self, change: impl FnOnce(&mut Value)) {
        let path = self.project.path(&format!("{SET}/manifest.json"));
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut manifest);
        fs::write(path, manifest.to_string()).unwrap();
    }

    /// Writes an index that names `second` as the second shard.
    fn index(&self, second: &str) {
        let place = |at: usize| if at < 2 { SHARDS[0] } else { second };
        let map: Value = self
            .weights
            .iter()
            .enumerate()
            .map(|(at, (name, ..))| (name.clone(), Value::from(place(at))))
            .collect();
        fs::write(self.path("model.safetensors.index.json"), json!({"weight_map": map}).to_string()).unwrap();
    }

    fn run_with(&self, variables: &[(&str, &str)]) -> Ran {
        let mut command = self.project.command(&[]);
        Ran::of(command.envs(variables.iter().copied()).output().unwrap())
    }

    fn run(&self) -> Ran {
        let cache = self.project.path("cache");
        self.run_with(&[("MODEL_CACHE", cache.to_str().unwrap())])
    }

    /// Expects that no checkpoint was compared, for this reason.
    #[track_caller]
    fn is_refused(&self, words: &[&str]) {
        let ran = self.run();
        ran.is_red(words);
        assert_eq!(ran.ended("ok"), [""; 0], "{}", ran.text);
    }
}

#[test]
fn a_port_reads_shards_outside_the_project_by_name() {
    let moved = Moved::with_port("module");
    let ran = moved.run();
    ran.is_green();
    assert_eq!(ran.ended("ok"), TRIALS);
    // An index names the same shards.
    moved.index(SHARDS[1]);
    moved.declare("*.index.json", &moved.hashes());
    moved.run().is_green();
    // Nothing was copied into the set.
    let mut names = fs::read_dir(moved.project.path(SET)).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.any(|name| name.to_string_lossy().contains("weights")));
}

#[test]
fn a_cause_is_found_from_external_weights_too() {
    let inside = Project::with_port("scaled").run(&[]);
    let outside = Moved::with_port("scaled").run();
    let causes = |ran: &Ran| -> Vec<String> {
        ran.text.lines().filter(|line| line.contains("cause")).map(|line| line.trim().to_owned()).collect()
    };
    assert!(!causes(&inside).is_empty(), "{}", inside.text);
    assert_eq!(causes(&outside), causes(&inside));
}

#[test]
fn weights_that_are_not_on_this_machine_are_ignored_with_the_reason() {
    let moved = Moved::with_port("module");
    let check = |variables: &[(&str, &str)], words: &str| {
        let ran = moved.run_with(variables);
        // Nothing else runs in this project, which proves nothing.
        ran.is_red(&["every spec is ignored here", "needs its external weights", words]);
        assert_eq!(ran.ended("ignored"), TRIALS, "{}", ran.text);
        let all = moved.run_with(&[variables, &[("PARITY_REQUIRE", "all")]].concat());
        all.is_red(&[words]);
        assert_eq!(all.ended("FAILED"), TRIALS, "{}", all.text);
    };
    check(&[], "the variable MODEL_CACHE is not set; set it");
    check(&[("MODEL_CACHE", "")], "the variable MODEL_CACHE is not set; set it");
    check(&[("MODEL_CACHE", "/nonexistent")], "no file matches `/nonexistent/snapshots/*/*.safetensors`");
}

#[rstest]
#[case::relative("models", "expected an absolute path")]
#[case::dots("/tmp/../etc", "expected no part `.` or `..`")]
fn a_variable_cannot_lead_elsewhere(#[case] value: &str, #[case] words: &str) {
    let moved = Moved::with_port("module");
    let ran = moved.run_with(&[("MODEL_CACHE", value)]);
    ran.is_red(&[words]);
    assert_eq!(ran.ended("ok"), [""; 0]);
}

#[test]
fn another_file_than_the_declared_one_is_red_each_time() {
    let moved = Moved::with_port("module");
    let declared = moved.hash(SHARDS[1]);
    let mut bytes = fs::read(moved.path(SHARDS[1])).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(moved.path(SHARDS[1]), bytes).unwrap();
    let found = format!("have SHA-256 {}, but the spec declares {declared}", moved.hash(SHARDS[1]));
    moved.is_refused(&["model-2.safetensors", &found, "download the file again"]);
    moved.is_refused(&[&found]);
}

#[test]
fn a_truncated_shard_is_red() {
    let moved = Moved::with_port("module");
    let bytes = fs::read(moved.path(SHARDS[1])).unwrap();
    fs::write(moved.path(SHARDS[1]), &bytes[..bytes.len() - 4]).unwrap();
    moved.is_refused(&["model-2.safetensors` cannot be used; download the file again", "is truncated"]);
}

#[test]
fn two_shards_with_one_weight_are_red() {
    let moved = Moved::with_port("module");
    moved.shard(SHARDS[1], 1..5);
    let name = &moved.weights[1].0;
    let words = format!("`model-1.safetensors` and `model-2.safetensors` both have the weight `{name}`");
    moved.is_refused(&[&words]);
}

#[test]
fn an_index_names_its_own_shards_only() {
    let moved = Moved::with_port("module");
    moved.declare("*.index.json", &moved.hashes());
    moved.index("model-3.safetensors");
    moved.is_refused(&["names `model-3.safetensors`, which is not there: the download is incomplete"]);
    for escaping in ["../1/model-2.safetensors", "/etc/x.safetensors"] {
        moved.index(escaping);
        moved.is_refused(&[&format!("names the file `{escaping}`, expected the plain name")]);
    }
    // The index and the shard disagree about one weight.
    moved.index(SHARDS[1]);
    moved.shard(SHARDS[1], 3..5);
    moved.is_refused(&[&format!("says that `model-2.safetensors` has the weight `{}`", moved.weights[2].0)]);
}

#[test]
fn links_lead_to_files_and_two_snapshots_are_not_one_model() {
    let moved = Moved::with_port("module");
    // As in the cache of Hugging Face: the names are links to blobs elsewhere.
    let blob = moved.project.path("cache/blob");
    fs::rename(moved.path(SHARDS[1]), &blob).unwrap();
    symlink(&blob, moved.path(SHARDS[1])).unwrap();
    moved.run().is_green();
    fs::remove_file(&blob).unwrap();
    moved.is_refused(&["model-2.safetensors` is a link to a file that does not exist"]);

    let moved = Moved::with_port("module");
    fs::create_dir(moved.project.path("cache/snapshots/2")).unwrap();
    fs::copy(moved.path(SHARDS[0]), moved.project.path("cache/snapshots/2").join(SHARDS[0])).unwrap();
    moved.is_refused(&["two files are called `model-1.safetensors`", "name one folder"]);
}

#[test]
fn a_file_without_a_checksum_is_red_until_one_is_known() {
    let moved = Moved::with_port("module");
    moved.declare("*.safetensors", "");
    let first = format!("sha256: {{\"{}\": {}}}", SHARDS[0], moved.hash(SHARDS[0]));
    moved.is_refused(&["no checksum is known for", &first]);
    moved.declare("*.safetensors", &format!("sha256: \"{}\"", moved.hash(SHARDS[0])));
    moved.is_refused(&["`weights.sha256` is one checksum, but 2 files match"]);

    // The manifest's record is enough, and goldens of other weights are stale.
    let record = |file: &str| {
        let size = fs::metadata(moved.path(file)).unwrap().len();
        json!({"name": file, "size": size, "sha256": moved.hash(file)})
    };
    moved.change_manifest(|manifest| manifest["external_weights"] = SHARDS.map(record).into());
    moved.declare("*.safetensors", "");
    moved.run().is_green();
    let mut bytes = fs::read(moved.path(SHARDS[1])).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(moved.path(SHARDS[1]), bytes).unwrap();
    moved.is_refused(&["were made with other external weights: `model-2.safetensors` had SHA-256"]);
}
