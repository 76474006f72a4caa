//! Realistic mistakes in the bundled ports: which checkpoint is red first, and with which class.
//!
//! Each row was written down before it was run. The suite is the real binary of `mistaken/`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::fs;
use std::path::Path;
use std::process::Command;

use rstest::rstest;
use serde_json::Value;

/// Runs `spec` with the port `<port>/<mistake>` and expects `first` to be the first red checkpoint, of class `class`.
#[rstest]
#[case("flow_match/euler", "indexed_by_timestep", "plain.step.0.sample", "crash")]
#[case("flow_match/euler", "one_step_late", "plain.step.2.sample", "value")]
#[case("flow_match/euler", "static_shift_forgotten", "static_shift.sigmas", "value")]
#[case("flow_match/euler", "max_shift", "dynamic_shift.mu", "value")]
#[case("flow_match/euler", "linear_as_exponential", "dynamic_linear.sigmas", "value")]
#[case("flow_match/euler", "no_terminal", "terminal.sigmas", "value")]
#[case("flow_match/euler", "velocity_sign", "plain.step.0.sample", "value")]
#[case("flow_match/euler", "one_step_early_from_image", "from_image.noised", "value")]
#[case("flow_match/euler", "stays_float32", "bfloat16.step.0.sample", "dtype")]
#[case("flux/clip", "padded_with_zero", "ids", "value")]
#[case("flux/clip", "eps", "layers.0.norm1", "value")]
#[case("flux/clip", "gelu", "layers.0.mlp.act", "value")]
#[case("flux/clip", "no_causal_mask", "layers.0.attn.probs", "value")]
#[case("flux/clip", "heads", "layers.0.attn.scores", "shape")]
#[case("flux/clip", "no_key_bias", "layers.0.attn.k", "value")]
#[case("flux/clip", "positions_from_one", "embed.position", "value")]
#[case("flux/clip", "pooled_at_largest", "pooled", "value")]
#[case("flux/t5", "ended_twice", "ids", "value")]
#[case("flux/t5", "eps", "blocks.0.norm1", "value")]
#[case("flux/t5", "max_distance", "blocks.0.attn.buckets", "value")]
#[case("flux/t5", "scaled", "blocks.0.attn.q", "value")]
#[case("flux/t5", "no_mask", "blocks.0.attn.probs", "value")]
#[case("flux/t5", "silu", "blocks.0.mlp.act", "value")]
#[case("flux/t5", "gate_and_up_swapped", "blocks.0.mlp.wi_0", "value")]
#[case("flux/t5", "heads", "blocks.0.attn.scores", "shape")]
#[case("flux/t5", "bias_in_first_block_only", "blocks.1.attn.biased", "unreached")]
#[case("gated_mlp/block", "eps", "norm", "value")]
#[case("gated_mlp/block", "gate_and_up_swapped", "gated", "value")]
#[case("gated_mlp/block", "no_bias", "out", "value")]
#[case("quantized/linear", "group_size", "float.out", "crash")]
#[case("quantized/linear", "bits", "b4.g32.weight", "crash")]
#[case("quantized/linear", "weight_not_loaded", "b4.g32.dequantized", "value")]
#[case("quantized/linear", "scales_and_biases_swapped", "b4.g32.dequantized", "value")]
#[case("quantized/linear", "no_bias", "b4.g32.out", "value")]
#[case("quantized/linear", "rounded_first", "float.out", "value")]
fn a_mistake_is_red_first_where_it_is(
    #[case] spec: &str,
    #[case] mistake: &str,
    #[case] first: &str,
    #[case] class: &str,
) {
    let project = tempfile::tempdir().unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let copy = |file: &str, change: &dyn Fn(String) -> String| {
        let path = project.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, change(fs::read_to_string(repository.join(file)).unwrap())).unwrap();
    };
    copy("parity-specs/policies.yaml", &|text| text);
    copy(&format!("parity-specs/{spec}.yaml"), &|text| {
        let line = text.lines().find(|line| line.starts_with("port: ")).unwrap();
        text.replacen(line, &format!("{line}/{mistake}"), 1)
    });
    std::os::unix::fs::symlink(repository.join("exporter"), project.path().join("exporter")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_mistaken"))
        .env("MISTAKEN_ROOT", project.path())
        .env("PARITY_FIXTURES", repository.join("fixtures"))
        .env("PARITY_LEVEL", "255")
        .env("INSTA_UPDATE", "no")
        .env_remove("PARITY_OUT")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(101), "{said}");
    let trials = fs::read_to_string(project.path().join("target/parity/runs/latest/trials.jsonl")).unwrap();
    let trials: Vec<Value> = trials.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let red = trials.iter().find(|trial| trial["status"] == "fail").unwrap();
    assert_eq!((red["trial"].as_str(), red["class"].as_str()), (Some(first), Some(class)), "{said}");
}
