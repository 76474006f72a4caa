//! Realistic mistakes in the bundled ports: which checkpoint is red first, and with which class.
//!
//! Each row was written down before it was run. The suite is the real binary of `mistaken/`.

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
#[case("flux/pipeline", "static_shift", "sigmas", "value")]
#[case("flux/pipeline", "guidance_of_one", "step.0.time_text_embed.out", "value")]
#[case("flux/pipeline", "other_noise", "step.0.transformer_blocks.0.encoder_hidden_states", "value")]
#[case("flux/pipeline", "rows_are_columns", "step.0.transformer_blocks.0.encoder_hidden_states", "value")]
#[case("flux/pipeline", "latents_scaled_up", "unpacked", "value")]
#[case("flux/pipeline", "no_shift_factor", "unpacked", "value")]
#[case("flux/pipeline_steps", "guidance_of_one", "step.0.velocity", "value")]
#[case("flux/pipeline_steps", "static_shift", "step.0.sample", "value")]
#[case("flux/pipeline_steps", "latents_scaled_up", "image", "value")]
#[case("flux/transformer", "eps", "transformer_blocks.0.attn.norm_q", "value")]
#[case("flux/transformer", "theta", "pos_embed.cos", "value")]
#[case("flux/transformer", "timestep_in_thousandths", "timestep", "value")]
#[case("flux/transformer", "guidance_left_out", "guidance", "crash")]
#[case("flux/transformer", "text_after_image", "pos_embed.cos", "value")]
#[case("flux/transformer", "streams_swapped", "transformer_blocks.0.attn.to_q", "value")]
#[case("flux/transformer", "last_norm_shift_first", "norm_out.linear", "value")]
#[case("flux/transformer_bf16", "weights_in_float32", "x_embedder", "dtype")]
#[case("flux/transformer_bf16", "head_norms_swapped", "transformer_blocks.0.attn.norm_q", "value")]
#[case("flux/transformer_bf16", "theta", "pos_embed.cos", "value")]
#[case("flux/vae_decoder", "every_nth_channel_a_group", "mid_block.resnets.0.norm1", "value")]
#[case("flux/vae_decoder", "eps", "mid_block.resnets.0.norm1", "value")]
#[case("flux/vae_decoder", "kernels_turned", "conv_in", "value")]
#[case("flux/vae_decoder", "height_and_width_swapped", "conv_in", "shape")]
#[case("flux/vae_decoder", "queries_and_keys_swapped", "mid_block.attentions.0.to_q", "value")]
#[case("flux/vae_decoder", "no_bias_after_upsampling", "up_blocks.0.upsamplers.0.conv", "value")]
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
#[case("qwen3/decoder", "rope_theta", "step.0.rope.cos", "value")]
#[case("qwen3/decoder", "eps", "step.0.layers.0.input_layernorm", "value")]
#[case("qwen3/decoder", "q_and_k_norm_swapped", "step.0.layers.0.attn.q_norm", "value")]
#[case("qwen3/decoder", "tied_head", "step.0.lm_head", "value")]
#[case("qwen3/decoder", "cache_forgotten", "step.1.rope.cos", "value")]
#[case("qwen3/decoder", "first_position_chosen", "step.0.margin", "value")]
#[case("qwen_image/vision_tower", "patch_layout", "patch_embed.proj", "value")]
#[case("qwen_image/vision_tower", "kernel_turned", "patch_embed.proj", "value")]
#[case("qwen_image/vision_tower", "eps", "blocks.0.norm1", "value")]
#[case("qwen_image/vision_tower", "windows_ignored", "blocks.0.attn.windows.0.scores", "shape")]
#[case("qwen_image/vision_tower", "height_and_width_swapped", "position_ids", "value")]
#[case("qwen_image/vision_tower", "mlp_not_gated", "blocks.0.mlp.up_proj", "value")]
#[case("qwen_image/transformer", "axes_swapped", "rope.img", "value")]
#[case("qwen_image/transformer", "images_swapped", "rope.img", "value")]
#[case("qwen_image/transformer", "mask_ignored", "blocks.0.attn.context", "value")]
#[case("qwen_image/transformer", "timestep_in_thousands", "time.proj", "value")]
#[case("qwen_image/transformer", "scale_before_shift", "blocks.0.img.mod", "value")]
#[case("qwen_image/transformer", "norms_of_streams_swapped", "blocks.0.attn.img.norm_q", "value")]
#[case("qwen_image/transformer_bf16", "weights_in_float32", "img_in", "dtype")]
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_mistaken"));
    for (name, _) in std::env::vars_os() {
        // What this test runs under is not what it is about.
        if ["NEXTEST", "PARITY_", "INSTA_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    let output = command
        .env("MISTAKEN_ROOT", project.path())
        .env("PARITY_FIXTURES", repository.join("fixtures"))
        .env("PARITY_LEVEL", "255")
        .env("INSTA_UPDATE", "no")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(101), "{said}");
    let trials = fs::read_to_string(project.path().join("target/parity/runs/latest/trials.jsonl")).unwrap();
    let trials: Vec<Value> = trials.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let red = trials.iter().find(|trial| trial["status"] == "fail").unwrap();
    assert_eq!((red["trial"].as_str(), red["class"].as_str()), (Some(first), Some(class)), "{said}");
}
