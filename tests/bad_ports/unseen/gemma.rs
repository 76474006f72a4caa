//! Variants of Gemma, all but its attention.

#[path = "../../parity/gemma.rs"]
mod right;

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::module::Module;
use mlx_rs::{Array, Dtype, fast, ops};
use parity_tests::gemma::{Config, Decoder, Gemma, Layer, Mlp, Norm, capped, gelu};
use parity_tests::qwen3::choose;
use serde::Deserialize;

use super::gemma_attention::{Cache, attention};
use super::ops::{Computed, exact_gelu, linear, rms_norm_over, scalar};
use super::{Variant, add};
use crate::change::{plus, through, wide};

const NAMES: &[&str] = &[
    "embedding_not_scaled",
    "theta_of_llama",
    "norm_weight_not_from_one",
    "scaled_by_head_dim",
    "cap_before_scale",
    "cap_of_logits",
    "capped_by_clamp",
    "cap_left_out",
    "masked_before_cap",
    "window_one_longer",
    "window_ignored",
    "window_in_all_layers",
    "cache_one_too_long",
    "cache_keeps_first",
    "post_norm_left_out",
    "normed_after_residual",
    "norms_exchanged",
    "gelu_by_erf",
    "activation_on_up",
    "head_scaled",
    "last_cap_left_out",
    "neighbours_rotated",
    "keys_not_rotated",
    "key_heads_tiled",
    "root_in_bfloat16",
    "capped_twice",
    // In bfloat16.
    "embedding_scaled_twice",
    "layer_for_rms_norm",
    "positions_of_cache",
    "rotated_backwards",
    "scaled_twice",
    "window_one_shorter",
    "keys_for_values",
    "heads_not_turned",
    "residual_of_normed",
    "second_norm_left_out",
    "gate_is_up",
    "sigmoid_for_gelu",
    "normed_twice",
    "cap_of_scores",
    "offset_not_advanced",
    "logits_not_scaled_back",
    // Rewrites.
    "cap_by_reciprocal",
    "mask_added",
    "norm_by_formula",
    "heads_broadcast",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(right::ports(suite), "gemma::decoder", NAMES, generate)
}

#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

fn generate(run: &Run, v: &Variant) -> PortResult {
    let Params { steps, mut config } = run.params()?;
    if v.is("theta_of_llama") {
        config.rope_theta = 5e5;
    }
    let mut model = Gemma::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    let mut cache: Vec<Cache> =
        (0..config.layer_types.len()).map(|layer| Cache::new(config.window(layer))).collect();
    let mut tokens = run.input("input_ids")?;
    for step in 0..steps {
        let _scope = scope("step", step);
        tokens = choose(&logits(&mut model, &config, &tokens, &mut cache, v)?)?.token.expand_dims(1)?;
    }
    Ok(())
}

fn logits(model: &mut Gemma, config: &Config, tokens: &Array, cache: &mut [Cache], v: &Variant) -> Computed {
    let decoder = &mut model.model;
    let hidden = features(decoder, config, tokens, cache, v)?;
    let head = if v.is("head_scaled") {
        // The table that was scaled for the embedding.
        let root = scalar((hidden.dim(-1) as f32).sqrt(), hidden.dtype())?;
        ops::matmul(&hidden, decoder.embed_tokens.weight.multiply(root)?.t())?
    } else {
        decoder.embed_tokens.as_linear(&hidden)?
    };
    let head = tap("lm_head", head)?;
    let logits = if v.is("last_cap_left_out") {
        head
    } else if v.is("logits_not_scaled_back") {
        ops::tanh(head.divide(scalar(model.final_cap, head.dtype())?)?)?
    } else {
        let is_of_scores = v.is("cap_of_scores");
        capped(&head, if is_of_scores { config.attn_logit_softcapping } else { model.final_cap })?
    };
    tap("logits", logits)
}

fn features(
    decoder: &mut Decoder,
    config: &Config,
    tokens: &Array,
    cache: &mut [Cache],
    v: &Variant,
) -> Computed {
    let start = match () {
        () if v.is("positions_of_cache") => cache[0].len(),
        () if v.is("offset_not_advanced") => cache[0].prompt,
        () => cache[0].seen,
    };
    let embedded = decoder.embed_tokens.forward(tokens)?;
    let mut root = scalar((embedded.dim(-1) as f32).sqrt(), embedded.dtype())?;
    if v.is("root_in_bfloat16") {
        root = through(&root, Dtype::Bfloat16)?;
    }
    let mut x = if v.is("embedding_not_scaled") { embedded } else { embedded.multiply(&root)? };
    if v.is("embedding_scaled_twice") {
        x = x.multiply(&root)?;
    }
    x = tap("embed_tokens", x)?;
    let (cos, sin) = decoder.rope.tables(start..start + tokens.dim(1), x.dtype())?;
    let tables = (tap("rope.cos", cos)?, tap("rope.sin", sin)?);
    for (i, (each, cache)) in decoder.layers.iter().zip(cache).enumerate() {
        let _scope = scope("layers", i);
        let is_windowed = i == 1 && v.is("window_in_all_layers");
        let window = if is_windowed { Some(config.sliding_window) } else { each.self_attn.window };
        x = layer(each, config, window, &x, &tables, cache, v)?;
    }
    tap("norm", norm(&decoder.norm, &x, v)?)
}

fn layer(
    layer: &Layer,
    config: &Config,
    window: Option<i32>,
    x: &Array,
    tables: &(Array, Array),
    cache: &mut Cache,
    v: &Variant,
) -> Computed {
    let normed = tap("input_layernorm", norm(&layer.input_layernorm, x, v)?)?;
    let attended = attention(&layer.self_attn, config, window, &normed, tables, cache, v)?;
    let (mut after, mut before) = (&layer.post_attention_layernorm, &layer.pre_feedforward_layernorm);
    if v.is("norms_exchanged") {
        std::mem::swap(&mut after, &mut before);
    }
    let normed_out = if v.is("post_norm_left_out") { attended.clone() } else { norm(after, &attended, v)? };
    let normed_out = tap("post_attention_layernorm", normed_out)?;
    let x = if v.is("normed_after_residual") {
        norm(after, &x.add(&attended)?, v)?
    } else if v.is("residual_of_normed") {
        normed.add(&normed_out)?
    } else {
        x.add(&normed_out)?
    };
    let x = tap("attn_residual", x)?;
    let normed = if v.is("second_norm_left_out") { x.clone() } else { norm(before, &x, v)? };
    let y = mlp(&layer.mlp, &tap("pre_feedforward_layernorm", normed)?, v)?;
    let mut y = norm(&layer.post_feedforward_layernorm, &y, v)?;
    if v.is("normed_twice") {
        y = norm(&layer.post_feedforward_layernorm, &y, v)?;
    }
    tap("out", x.add(tap("post_feedforward_layernorm", y)?)?)
}

fn mlp(mlp: &Mlp, x: &Array, v: &Variant) -> Computed {
    let _scope = scope("mlp", None);
    let gate = linear(if v.is("gate_is_up") { &mlp.up_proj } else { &mlp.gate_proj }, x)?;
    let gate = tap("gate_proj", gate)?;
    let active = if v.is("gelu_by_erf") {
        exact_gelu(&gate)?
    } else if v.is("sigmoid_for_gelu") {
        ops::sigmoid(&gate)?
    } else {
        gelu(&gate)?
    };
    let active = tap("act_fn", active)?;
    let up = tap("up_proj", linear(&mlp.up_proj, x)?)?;
    let gated = if v.is("activation_on_up") { gate.multiply(gelu(&up)?)? } else { active.multiply(up)? };
    tap("down_proj", linear(&mlp.down_proj, &tap("gated", gated)?)?)
}

fn norm(norm: &Norm, x: &Array, v: &Variant) -> Computed {
    let x32 = &x.as_dtype(Dtype::Float32)?;
    let weight = wide(&norm.weight)?;
    let factor = if v.is("norm_weight_not_from_one") { weight } else { plus(&weight, 1.0)? };
    let normed = if v.is("layer_for_rms_norm") {
        fast::layer_norm(x32, Some(&factor), None, norm.eps)?
    } else if v.is("norm_by_formula") {
        rms_norm_over(x32, -1, norm.eps)?.multiply(factor)?
    } else {
        fast::rms_norm(x32, Some(&factor), norm.eps)?
    };
    normed.as_dtype(x.dtype())
}
