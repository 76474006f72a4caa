//! What a sound spec is parsed to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mlx_parity_core::gate::{Gate, Rule};
use mlx_parity_core::spec::{Checkpoint, Device, Dim, Requirement, Spec, Specs, Stage, list};
use mlx_parity_core::tensor::Dtype;
use serde_json::json;

use crate::data;

fn root() -> PathBuf {
    data("spec/root")
}

fn full() -> Spec {
    Specs::load_one(&root(), "dit/full").unwrap_or_else(|error| panic!("{error}"))
}

fn checkpoint(name: &str) -> Checkpoint {
    full().checkpoint(name).cloned().unwrap_or_else(|| panic!("there is {name}"))
}

#[test]
fn keys_of_a_spec_arrive() {
    let spec = full();
    assert_eq!(spec.id, "dit/full");
    assert_eq!(spec.path, root().join("dit/full.yaml"));
    assert_eq!(spec.port, "dit::block");
    assert_eq!(spec.fixtures, "shared/dit");
    assert_eq!(spec.inputs, ["hidden_states", "temb"]);
    let weights = spec.weights.unwrap();
    assert_eq!(weights.files, ["a.safetensors", "b.safetensors"]);
    assert_eq!(weights.rename["to_out.0"], "to_out");
    assert_eq!((weights.allow_missing, weights.expect), (vec!["*.bias".into()], vec!["norm.weight".into()]));
    assert_eq!((spec.device, spec.timeout, spec.level), (Device::Cpu, Duration::from_secs(90), 1));
    let requires = [Requirement::Fixtures, Requirement::Env("PARITY_BIG".into()), Requirement::Linux];
    assert_eq!(spec.requires, requires);
    assert_eq!(spec.inject, ["blocks.0.out", "blocks.30.out", "blocks.59.out", "img_in"]);
    let reference = spec.reference.unwrap().to_json();
    let params = json!({"dim": 64, "flags": [true, 1.5, "text", null]});
    let expected =
        json!({"script": "exporter/references/dit.py", "source": "diffusers:DiTBlock", "params": params});
    assert_eq!(reference, expected);
}

#[test]
fn absent_keys_have_their_defaults() {
    let spec = Specs::load_one(&root(), "vision/block").unwrap();
    assert_eq!(spec.fixtures, "vision/block");
    assert_eq!((spec.device, spec.timeout, spec.level), (Device::Default, Duration::from_secs(600), 0));
    assert!(spec.requires.is_empty() && spec.inject.is_empty());
    let norm1 = spec.checkpoint("norm1").unwrap();
    assert_eq!((norm1.hits, norm1.level, norm1.gated, norm1.nan_equal), (1, 0, true, false));
}

#[test]
fn loops_nest_in_the_order_written_and_when_selects() {
    let names: Vec<String> = full().checkpoints.iter().map(|checkpoint| checkpoint.name.clone()).collect();
    let expected = [
        "img_in",
        "ids",
        "mod",
        "blocks.0.out",
        "blocks.30.out",
        "blocks.59.out",
        "step.1.0",
        "step.1.3",
        "step.2.0",
        "step.2.3",
        "cached",
        "loose",
    ];
    assert_eq!(names, expected);
    let spec = Specs::load_one(&root(), "vision/block").unwrap();
    let steps: Vec<&str> = spec
        .checkpoints
        .iter()
        .map(|checkpoint| checkpoint.name.as_str())
        .filter(|name| name.starts_with("s"))
        .collect();
    assert_eq!(steps, ["step.0.velocity", "step.5.velocity"]);
}

#[test]
fn keys_of_a_checkpoint_arrive() {
    let img_in = checkpoint("img_in");
    let dims = [Dim::Named("n".into()), Dim::Named("seq".into()), Dim::Fixed(64)];
    assert_eq!(img_in.shape.as_deref(), Some(&dims[..]));
    assert_eq!((img_in.line, img_in.stage, img_in.dtype), (22, Some(Stage::Embedding), Some(Dtype::Float32)));
    let gate = Gate::Tolerance { rtol: 1e-5, atol: 1e-5, policy: Some("fp32".into()) };
    let rule = Rule { gate: Some(gate), range: Some((-15.0, 16.0)), ..Rule::default() };
    assert_eq!(img_in.rule(), rule);
    assert!(img_in.needs_golden());

    let mod_ = checkpoint("mod");
    assert_eq!((mod_.range, mod_.gate.clone(), mod_.level), (Some((-30.0, f64::INFINITY)), None, 2));
    assert!(!mod_.needs_golden());

    let out = checkpoint("blocks.30.out");
    assert_eq!((out.squeeze, out.layout, out.cast), (vec![0], Some(vec![1, 2, 0]), Some(Dtype::Bfloat16)));
    assert_eq!((out.gate, out.nan_equal), (Some(Gate::Noise { k: 12.0 }), true));
    assert_eq!(out.why.as_deref(), Some("measured on the GPU at 9.1"));

    assert_eq!(checkpoint("step.2.3").hits, 2);
    let cached = checkpoint("cached");
    assert_eq!(cached.against.as_deref(), Some("img_in"));
    assert!(!cached.needs_golden() && cached.gate.is_some());
    assert!(!checkpoint("loose").gated);
}

#[test]
fn a_layout_turns_goldens_as_it_reads() {
    use mlx_parity_core::tensor::TensorView;
    let bytes = [0u8, 1, 2, 3, 4, 5];
    let golden = TensorView::new(Dtype::Uint8, &[1, 1, 2, 3], &bytes).unwrap();
    let out = checkpoint("blocks.0.out"); // c h w -> h w c, once axis 0 is dropped
    let view = golden.squeeze(&out.squeeze).unwrap().permute(out.layout.as_deref().unwrap()).unwrap();
    assert_eq!(view.shape(), [2, 3, 1]);
}

#[test]
fn the_reference_reads_the_same_however_it_is_written() {
    let policies = mlx_parity_core::spec::Policies::load(&root()).0;
    let read = |reference: &str| {
        let source =
            format!("version: 1\nport: p\ncheckpoints: [{{name: x, shape: []}}]\nreference:{reference}");
        let spec = mlx_parity_core::spec::parse_spec("a/b", Path::new("b.yaml"), &source, &policies).unwrap();
        spec.reference.unwrap().to_json().to_string()
    };
    let flow = read(" {params: {b: 0x10, a: 1.0}, script: s.py}");
    assert_eq!(flow, r#"{"params":{"a":1.0,"b":16},"script":"s.py"}"#);
    assert_eq!(read("\n  script: 's.py' # why\n  params:\n    a: 1.0\n    b: 16"), flow);
    assert_eq!(read(" {script: s.py, params: {}}"), read(" {script: s.py}"));
    assert_ne!(read(" {script: s.py, params: {a: 1}}"), read(" {script: s.py, params: {a: 1.0}}"));
}

#[test]
fn lists_are_a_tree_names_and_json() {
    let specs = Specs::load(&root());
    let mut tree = String::new();
    list::tree(&mut tree, &specs).unwrap();
    assert_eq!(
        tree,
        "\
dit/
  full  12 checkpoints, port dit::block, requires fixtures, env:PARITY_BIG, linux
    img_in  float32  [n, seq, 64]  policy fp32  range [-15, 16]
    ids  int64  policy exact
    mod  float32  range [-30, inf]  level 2
    blocks.0.out … blocks.59.out (3)  bfloat16  noise 12
    step.1.0 … step.2.3 (4)  float32  rtol 1e-5 atol 0e0  2 hits
    cached  float32  policy quantized  against img_in
    loose  float16  noise 8  not gated
vision/
  block  9 checkpoints, port vision_block
    norm1  float32  rtol 1e-5 atol 1e-5
    attn.probs  float32  policy fp32
    patch_embed  float32  policy fp32
    blocks.0.out … blocks.3.out (4)  bfloat16  policy bf16  range [-45000000, 46000000]
    step.0.velocity … step.5.velocity (2)  float32  noise 8
2 specs, 21 checkpoints
"
    );
    let mut names = String::new();
    list::names(&mut names, &specs).unwrap();
    assert_eq!(names.lines().count(), 21);
    assert_eq!(names.lines().next(), Some("dit/full::img_in"));
    let mut text = String::new();
    list::json(&mut text, &specs).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["specs"][0]["checkpoints"][3]["gate"], json!({"noise": {"k": 12.0}}));
    assert_eq!(value["specs"][0]["timeout_seconds"], 90);
    assert_eq!(value["broken"], json!([]));
}

#[test]
fn a_twin_is_a_spec_that_is_compared_with_another_run() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("m")).unwrap();
    let text = "version: 1\nport: p\ncheckpoints: [{name: x, shape: [2]}, {name: y, shape: [2]}]\n\
        twins:\n  alone: {of: main, rtol: 0, atol: 0}\n  \
        padded: {of: alone, only: [y], gate: same, slice: '[1:]', device: gpu, about: with pads}\n";
    std::fs::write(root.path().join("m/x.yaml"), text).unwrap();
    let main = Specs::load_one(root.path(), "m/x").unwrap();
    let ids: Vec<String> = main.twin_specs().map(|twin| twin.id).collect();
    assert_eq!(ids, ["m/x+alone", "m/x+padded"]);
    let padded = Specs::load_one(root.path(), "m/x+padded").unwrap();
    let twin = padded.twin.clone().unwrap();
    assert_eq!((twin.of.as_str(), twin.not_compared), ("m/x+alone", 1));
    assert_eq!((padded.port.as_str(), padded.about.as_deref()), ("p+padded", Some("with pads")));
    // Where MLX has no GPU, the twin is ignored with the reason.
    assert_eq!((padded.device, padded.requires), (Device::Gpu, vec![Requirement::Gpu]));
    let y = padded.checkpoints.first().unwrap();
    assert_eq!(
        (y.name.as_str(), y.shape.clone(), y.needs_golden(), y.has_expected()),
        ("y", None, false, true)
    );
    assert_eq!(y.counterpart.as_ref().unwrap().slice.as_ref().unwrap().to_string(), "[1:]");
    let error = Specs::load_one(root.path(), "m/x+paded").unwrap_err();
    assert_eq!(error.problems[0].message, "spec `m/x` has no twin `paded`, did you mean `padded`?");
}
