//! Weights that are wrong in the files or in the port, and random numbers that a port draws, turn the suite red.

use std::fs;

use crate::project::{Project, Ran, SPEC};
use mlx_parity_core::tensor::{Dtype, TensorFile};
use rstest::rstest;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const FIXTURES: &str = "fixtures/gated_mlp/block";

/// A weight of a fixture set that a test writes.
#[derive(Clone)]
struct Weight {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Weight {
    fn floats(name: &str, shape: &[usize], value: f32) -> Self {
        let count: usize = shape.iter().product();
        let bytes = value.to_le_bytes().repeat(count);
        Self { name: name.to_owned(), dtype: Dtype::Float32, shape: shape.to_vec(), bytes }
    }

    fn words(name: &str, shape: &[usize], value: u32) -> Self {
        Self { dtype: Dtype::Uint32, ..Self::floats(name, shape, f32::from_bits(value)) }
    }
}

/// The weights of the gated MLP.
fn gated_mlp(project: &Project) -> Vec<Weight> {
    let file = TensorFile::open(project.path(&format!("{FIXTURES}/weights.safetensors"))).unwrap();
    let weight = |name: &str| {
        let tensor = file.get(name).unwrap();
        let bytes = tensor.view().row_major_bytes().unwrap().to_vec();
        Weight { name: name.to_owned(), dtype: tensor.dtype(), shape: tensor.shape().to_vec(), bytes }
    };
    file.names().map(weight).collect()
}

/// Replaces the project's weights by these files, as an exporter would.
fn export(project: &Project, files: &[(&str, &[Weight])]) {
    let path = project.path(&format!("{FIXTURES}/manifest.json"));
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let tensors = manifest["tensors"].as_array_mut().unwrap();
    tensors.retain(|entry| entry["role"] != "weight");
    fs::remove_file(project.path(&format!("{FIXTURES}/weights.safetensors"))).unwrap();
    for (file, weights) in files {
        let mut header = json!({});
        let mut data = Vec::new();
        for Weight { name, dtype, shape, bytes } in *weights {
            let word = match dtype {
                Dtype::Float32 => "F32",
                Dtype::Int32 => "I32",
                _ => "U32",
            };
            let offsets = [data.len(), data.len() + bytes.len()];
            header[name] = json!({"dtype": word, "shape": shape, "data_offsets": offsets});
            data.extend(bytes);
            let sha256: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            tensors.push(json!({
                "name": name, "role": "weight", "file": file, "dtype": dtype, "shape": shape, "sha256": sha256
            }));
        }
        let header = header.to_string();
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
        fs::write(project.path(&format!("{FIXTURES}/{file}")), bytes).unwrap();
    }
    fs::write(path, manifest.to_string()).unwrap();
}

fn declare_weights(project: &Project, weights: &str) {
    project.edit(SPEC, "weights: {file: weights.safetensors}", &format!("weights: {weights}"));
}

#[test]
fn floats_of_another_dtype_than_the_spec_declares_are_red() {
    let project = Project::with_port("module");
    declare_weights(&project, "{file: weights.safetensors, dtype: float32}");
    project.run(&[]).is_green();
    project.edit(SPEC, "dtype: float32}\n", "dtype: bfloat16}\n");
    let ran = project.run(&[]);
    ran.is_red(&[
        "5 weights taken, 0 missing, 0 never used, 0 of another shape, 5 of another dtype",
        "DTYPE    gate.weight: the file has float32, but the spec declares bfloat16",
    ]);
    assert_eq!(ran.ended("FAILED"), ["weights"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_value_that_differs_points_at_a_failed_audit() {
    let project = Project::with_port("scaled");
    declare_weights(&project, "{file: weights.safetensors, dtype: bfloat16}");
    project
        .run(&["gated"])
        .is_red(&["gated: value differs", "weights  the audit failed: see gated_mlp/block::weights"]);
    let project = Project::with_port("scaled");
    assert!(!project.run(&[]).text.contains("the audit failed"));
}

#[test]
fn a_parameter_of_floats_takes_no_integers() {
    let project = Project::with_port("module");
    let mut weights = gated_mlp(&project);
    weights.iter_mut().find(|weight| weight.name == "down.bias").unwrap().dtype = Dtype::Int32;
    export(&project, &[("weights.safetensors", &weights)]);
    let ran = project.run(&[]);
    ran.is_red(&[
        "the port failed before any checkpoint: module parameter `down.bias` is float32, but the weight is int32",
        "DTYPE    down.bias: the module parameter is float32, but the weight is int32",
    ]);
    assert_eq!(ran.ended("FAILED"), ["fixture", "gated", "norm", "out", "weights"]);
}

#[test]
fn a_set_in_two_files_is_loaded_and_audited_as_one() {
    let project = Project::with_port("module");
    let weights = gated_mlp(&project);
    let (first, second) = weights.split_at(2);
    declare_weights(&project, "{shards: [a.safetensors, b.safetensors]}");
    export(&project, &[("a.safetensors", first), ("b.safetensors", second)]);
    let ran = project.run(&[]);
    ran.is_green();
    assert_eq!(ran.ended("ok"), ["fixture", "gated", "norm", "out", "weights"]);

    // The module misses the weights of a shard that the spec does not name.
    project.edit(SPEC, "[a.safetensors, b.safetensors]", "[a.safetensors]");
    let missing = format!("MISSING  {}", second[0].name);
    project.run(&[]).is_red(&["2 weights taken, 3 missing", &missing]);
}

#[test]
fn a_shard_that_is_not_there_is_red() {
    let project = Project::with_port("module");
    let weights = gated_mlp(&project);
    let (first, second) = weights.split_at(2);
    declare_weights(&project, "{shards: [a.safetensors, b.safetensors]}");
    export(&project, &[("a.safetensors", first), ("b.safetensors", second)]);
    fs::remove_file(project.path(&format!("{FIXTURES}/b.safetensors"))).unwrap();
    let ran = project.run(&[]);
    ran.is_red(&["the golden is missing", "b.safetensors"]);
    assert_eq!(ran.ended("ok"), [""; 0]);

    let project = Project::with_port("module");
    declare_weights(&project, "{shards: [weights.safetensors, b.safetensors]}");
    let ran = project.run(&[]);
    ran.is_red(&["the spec's weight file `b.safetensors` has no weights in the manifest"]);
    assert_eq!(ran.ended("ok"), [""; 0]);
}

/// A layer with 64 weights per row, all of them 1 x 0.5 + 0.25, under the names that Python uses.
fn quantized() -> Vec<Weight> {
    vec![
        Weight::words("q.weight", &[8, 8], 0x1111_1111),
        Weight::floats("q.scales", &[8, 1], 0.5),
        Weight::floats("q.biases", &[8, 1], 0.25),
        Weight::floats("q.bias", &[8], 2.0),
    ]
}

/// A spec of that layer alone, whose input is 64 ones: the output is 64 x 0.75 + 2.
fn quantized_project(weights: &[Weight], declared: &str) -> Project {
    let project = Project::with_port("module");
    let spec = format!(
        "version: 1\nport: quantized\nweights: {{file: w.safetensors{declared}}}\n\
         checkpoints: [{{name: out, dtype: float32, shape: [1, 8], range: [49.99, 50.01]}}]\n"
    );
    fs::write(project.path(SPEC), spec).unwrap();
    let stats =
        "min 5.000000e1 max 5.000000e1 mean 5.000000e1 std 0.000000e0 absmax 5.000000e1 nan 0 inf 0 -inf 0";
    let snapshot = format!("---\nsource: weights.rs\n---\nout: float32 [1, 8] {stats}\n");
    fs::write(project.path("tests/snapshots/gated_mlp__block.snap"), snapshot).unwrap();
    export(&project, &[("w.safetensors", weights)]);
    // Goldens that no checkpoint declares would be red.
    let path = project.path(&format!("{FIXTURES}/manifest.json"));
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["tensors"].as_array_mut().unwrap().retain(|entry| entry["role"] != "golden");
    // Nor may there be recipes of such goldens.
    manifest.as_object_mut().unwrap().remove("recipes");
    fs::write(path, manifest.to_string()).unwrap();
    for file in ["goldens.safetensors", "recipes.json"] {
        fs::remove_file(project.path(&format!("{FIXTURES}/{file}"))).unwrap();
    }
    project
}

#[rstest]
#[case::undeclared("")]
#[case::declared(", quantized: {bits: 4, group_size: 64}")]
fn a_quantised_layer_takes_the_names_that_python_gives_it(#[case] declared: &str) {
    let ran = quantized_project(&quantized(), declared).run(&[]);
    ran.is_green();
    assert_eq!(ran.ended("ok"), ["fixture", "out", "weights"]);
}

#[test]
fn a_quantised_layer_takes_its_own_names_too() {
    let mut weights = quantized();
    weights[0].name = "q.inner.weight".into();
    weights[3].name = "q.inner.bias".into();
    quantized_project(&weights, "").run(&[]).is_green();
}

#[rstest]
#[case::no_biases(
    vec![0, 1, 3], "",
    &["SIBLING  q.biases: not in the files, but `q.weight` is quantised", "MISSING  q.biases"]
)]
#[case::no_weight(
    vec![1, 2, 3], "",
    &[
        "weight `q.weight` does not exist", "MISSING  q.weight",
        "the weights did not load; see gated_mlp/block::weights",
    ]
)]
#[case::other_bits(
    vec![0, 1, 2, 3], ", quantized: {bits: 8, group_size: 64}",
    &["PACKING  q.weight: the spec declares 8 bits in groups of 64, but rows of 8 words with 1 group allow 2 bits \
       in groups of 128, or 4 bits in groups of 64, or 8 bits in groups of 32"]
)]
fn a_quantised_layer_that_is_not_whole_is_red(
    #[case] kept: Vec<usize>,
    #[case] declared: &str,
    #[case] words: &[&str],
) {
    let weights: Vec<Weight> = kept.into_iter().map(|index| quantized()[index].clone()).collect();
    let ran = quantized_project(&weights, declared).run(&[]);
    ran.is_red(words);
    assert!(ran.ended("FAILED").contains(&"weights"), "{}", ran.text);
}

#[test]
fn shapes_that_no_packing_of_mlx_has_are_red() {
    let mut weights = quantized();
    weights[0] = Weight::words("q.weight", &[8, 7], 0);
    quantized_project(&weights, "").run(&[]).is_red(&[
        "PACKING  q.weight: rows of 7 words with 1 group allow no packing that MLX has",
        "SHAPE    module parameter `q.inner.weight` has shape [8, 8], but the weight has [8, 7]",
    ]);
}

#[test]
fn a_set_that_is_declared_quantised_and_is_not_is_red() {
    let project = Project::with_port("module");
    declare_weights(&project, "{file: weights.safetensors, quantized: {bits: 4, group_size: 64}}");
    let ran = project.run(&[]);
    ran.is_red(&["PACKING  the spec declares 4 bits in groups of 64, but no weight is quantised"]);
    assert_eq!(ran.ended("FAILED"), ["weights"]);
}

#[rstest]
#[case::draws("draws", "the port drew 2 times from MLX's global random state")]
#[case::seeds("seeds", "the port drew from, or seeded, MLX's global random state")]
#[ignore = "slow: `.ci/run` runs it"]
fn a_port_that_draws_at_random_is_red(#[case] port: &str, #[case] words: &str) {
    let project = Project::with_port(port);
    let ran = project.run(&[]);
    ran.is_red(&["fixture: random numbers were drawn", words, "take noise as an input"]);
    assert_eq!(ran.ended("FAILED"), ["fixture"]);
    // A filtered run stops before the end of the port, so it cannot know.
    assert_eq!(project.run(&["gated_mlp/block::out"]).code, Some(0));
}

#[test]
fn layers_that_draw_when_they_are_made_and_draws_with_a_key_are_fine() {
    for port in ["module", "draws_with_a_key"] {
        Project::with_port(port).run(&[]).is_green();
    }
}

#[test]
fn an_unused_input_is_reported_beside_random_draws() {
    let project = Project::with_port("draws");
    project.edit(SPEC, "inputs: [x]", "inputs: [x, gate]");
    let ran: Ran = project.run(&[]);
    ran.is_red(&["2 problems with the fixtures", "never asked for: gate", "the port drew 2 times"]);
}

#[test]
fn a_frozen_parameter_must_not_be_trained() {
    let project = Project::with_port("trains");
    project.run(&[]).is_green();
    let frozen = "weights: {file: weights.safetensors, frozen: [\"gate.*\", norm.weight]}";
    project.edit(SPEC, "weights: {file: weights.safetensors}", frozen);
    let ran = project.run(&[]);
    ran.is_red(&[
        "2 trained, but frozen",
        "TRAINED  gate.weight: it is frozen, but has a gradient",
        "TRAINED  norm.weight: it is frozen, but changed",
    ]);
    assert_eq!(ran.ended("FAILED"), ["weights"], "{}", ran.text);
}

#[test]
fn frozen_parameters_that_nothing_compares_are_reported() {
    let project = Project::with_port("right");
    let frozen = "weights: {file: weights.safetensors, frozen: [\"gate.*\", \"gaet.*\"]}";
    project.edit(SPEC, "weights: {file: weights.safetensors}", frozen);
    project.run(&[]).is_red(&["MISSING  gaet.*", "the port never called `Run::parameters_after`"]);
}
