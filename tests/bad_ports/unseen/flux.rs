//! Variants of Flux's transformer, all but its attention.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::ops::concatenate;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, Dtype, fast};
use parity_tests::flux::transformer::{
    AdaLayerNorm, DoubleBlock, Embedder, FeedForward, FinalNorm, Inputs, SingleBlock, TimeTextEmbed,
    Transformer,
};

use super::flux_attention::{Tables, joint_attention, single_attention};
use super::ops::{Computed, gelu, linear, scalar, silu};
use super::{Variant, add};
use crate::change::plus;

const NAMES: &[&str] = &[
    "base_of_waves",
    "waves_of_one_less",
    "guidance_as_timestep",
    "ids_backwards",
    "silu_left_out",
    "modulated_before_normed",
    "shifted_before_scaled",
    "head_norm_over_tokens",
    "image_before_text",
    "values_rotated",
    "attention_in_bfloat16",
    "gate_of_text",
    "gate_of_mlp_left_out",
    "mlp_before_attention",
    "residual_of_normed",
    "last_silu_left_out",
    "image_ids_before_text",
    "tables_in_half_precision",
    // In bfloat16.
    "positions_from_one",
    "query_norm_of_text",
    "softmax_over_queries",
    "streams_split_otherwise",
    "heads_not_turned",
    "gated_with_residual",
    "text_norm_left_out",
    "silu_for_gelu",
    "single_gate_left_out",
    "last_scale_left_out",
    "modulated_twice",
    "activated_after_joined",
    "first_tokens_kept",
    // Rewrites.
    "attention_by_formula",
    "modulated_by_sum",
    "qkv_fused",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "flux::transformer", NAMES, predict)
}

fn predict(run: &Run, v: &Variant) -> PortResult {
    let mut model = Transformer::new(&run.params()?)?;
    run.weights()?.load_into(&mut model)?;
    let inputs = Inputs {
        hidden_states: run.input("hidden_states")?,
        encoder_hidden_states: run.input("encoder_hidden_states")?,
        pooled_projections: run.input("pooled_projections")?,
        timestep: run.input("timestep")?,
        guidance: Some(run.input("guidance")?),
        img_ids: run.input("img_ids")?,
        txt_ids: run.input("txt_ids")?,
    };
    forward(&model, &inputs, v)?;
    Ok(())
}

fn forward(model: &Transformer, inputs: &Inputs, v: &Variant) -> Computed {
    let mut image = tap("x_embedder", linear(&model.x_embedder, &inputs.hidden_states)?)?;
    let thousands = |x: &Array| x.as_dtype(image.dtype())?.multiply(scalar(1000.0, image.dtype())?);
    let timestep = tap("timestep", thousands(&inputs.timestep)?)?;
    let guidance = inputs.guidance.as_ref().ok_or_else(|| Exception::custom("the model takes guidance"))?;
    let guidance = tap("guidance", thousands(guidance)?)?;
    let condition = condition(&model.time_text_embed, &timestep, &guidance, &inputs.pooled_projections, v)?;
    let mut text = tap("context_embedder", linear(&model.context_embedder, &inputs.encoder_hidden_states)?)?;

    let ids = if v.is("image_ids_before_text") {
        [&inputs.img_ids, &inputs.txt_ids]
    } else {
        [&inputs.txt_ids, &inputs.img_ids]
    };
    let rope = Tables::new(&model.rope, &concatenate(&ids, 0)?, v)?;
    for (i, block) in model.transformer_blocks.iter().enumerate() {
        let _scope = scope("transformer_blocks", i);
        (text, image) = double(block, &text, &image, &condition, &rope, v)?;
    }
    let mut both = concatenate(&[&text, &image], 1)?;
    for (i, block) in model.single_transformer_blocks.iter().enumerate() {
        let _scope = scope("single_transformer_blocks", i);
        both = single(block, &both, &condition, &rope, v)?;
    }
    let image = if v.is("first_tokens_kept") {
        both.try_index((.., ..image.dim(1), ..))?
    } else {
        both.try_index((.., text.dim(1).., ..))?
    };
    tap("proj_out", linear(&model.proj_out, &last_norm(&model.norm_out, &image, &condition, v)?)?)
}

fn condition(
    layer: &TimeTextEmbed,
    timestep: &Array,
    guidance: &Array,
    pooled: &Array,
    v: &Variant,
) -> Computed {
    let _scope = scope("time_text_embed", None);
    let waves = |x: &Array| tap("time_proj", waves(x, v)?)?.as_dtype(pooled.dtype());
    let embed = |name: &str, layer: &Embedder, x: &Array| {
        let _scope = scope(name, None);
        let x = tap("linear_1", linear(&layer.linear_1, x)?)?;
        tap("linear_2", linear(&layer.linear_2, &tap("act", silu(&x)?)?)?)
    };
    let time = embed("timestep_embedder", &layer.timestep_embedder, &waves(timestep)?)?;
    let of_guidance = layer.guidance_embedder.as_ref().filter(|_| !v.is("guidance_as_timestep"));
    let of_guidance = of_guidance.unwrap_or(&layer.timestep_embedder);
    let guidance = embed("guidance_embedder", of_guidance, &waves(guidance)?)?;
    let sum = tap("time_guidance", time.add(guidance)?)?;
    tap("out", sum.add(embed("text_embedder", &layer.text_embedder, pooled)?)?)
}

/// Cosines and then sines of `x` at 128 frequencies.
fn waves(x: &Array, v: &Variant) -> Computed {
    let base: f64 = if v.is("base_of_waves") { 1000.0 } else { 10_000.0 };
    let last = if v.is("waves_of_one_less") { 127.0 } else { 128.0 };
    let frequencies = (0..128).map(|i| (-(base.ln()) * f64::from(i) / last).exp() as f32);
    let frequencies = Array::from_iter(frequencies, &[1, 128]);
    let angles = x.as_dtype(Dtype::Float32)?.expand_dims(-1)?.multiply(frequencies)?;
    concatenate(&[&angles.cos()?, &angles.sin()?], -1)
}

fn layer_norm(x: &Array) -> Computed {
    fast::layer_norm(x, None, None, 1e-6)
}

fn modulated(x: &Array, scale: &Array, shift: &Array, v: &Variant) -> Computed {
    let (factor, shift) = (plus(scale, 1.0)?.expand_dims(1)?, shift.expand_dims(1)?);
    if v.is("shifted_before_scaled") {
        x.add(shift)?.multiply(factor)
    } else if v.is("modulated_by_sum") {
        x.multiply(scale.expand_dims(1)?)?.add(x)?.add(shift)
    } else {
        x.multiply(factor)?.add(shift)
    }
}

/// The modulated norm before attention, and the other modulations.
fn ada_norm<const N: usize>(
    layer: &AdaLayerNorm,
    x: &Array,
    condition: &Array,
    names: [&str; N],
    v: &Variant,
) -> Result<(Array, [Array; N]), Exception> {
    let active = tap("silu", if v.is("silu_left_out") { condition.clone() } else { silu(condition)? })?;
    let chunks = tap("linear", linear(&layer.linear, &active)?)?.split_equal(N as i32 + 2, -1)?;
    let normed = tap("norm", layer_norm(x)?)?;
    let out = if v.is("modulated_before_normed") {
        layer_norm(&modulated(x, &chunks[1], &chunks[0], v)?)?
    } else {
        modulated(&normed, &chunks[1], &chunks[0], v)?
    };
    let out = tap("out", out)?;
    let rest = names.iter().zip(&chunks[2..]).map(|(name, chunk)| tap(name, chunk.clone()));
    let rest: Vec<Array> = rest.collect::<Result<_, _>>()?;
    let rest = rest.try_into().map_err(|_| Exception::custom("expected a chunk for every name"))?;
    Ok((out, rest))
}

fn double(
    block: &DoubleBlock,
    text: &Array,
    image: &Array,
    condition: &Array,
    rope: &Tables,
    v: &Variant,
) -> Result<(Array, Array), Exception> {
    const LATER: [&str; 4] = ["gate_msa", "shift_mlp", "scale_mlp", "gate_mlp"];
    let (image_in, mut image_later) = {
        let _scope = scope("norm1", None);
        ada_norm(&block.norm1, image, condition, LATER, v)?
    };
    let (text_in, text_later) = {
        let _scope = scope("norm1_context", None);
        ada_norm(&block.norm1_context, text, condition, LATER, v)?
    };
    let (text_mixed, image_mixed) = joint_attention(&block.attn, &text_in, &image_in, rope, v)?;
    if v.is("gate_of_text") {
        image_later[0] = text_later[0].clone();
    }
    let image = finish(&block.ff, image, &image_mixed, &image_later, "", v)?;
    let text = finish(&block.ff_context, text, &text_mixed, &text_later, "_context", v)?;
    Ok((tap("encoder_hidden_states", text)?, tap("hidden_states", image)?))
}

fn finish(
    ff: &FeedForward,
    x: &Array,
    mixed: &Array,
    [gate_msa, shift_mlp, scale_mlp, gate_mlp]: &[Array; 4],
    suffix: &str,
    v: &Variant,
) -> Computed {
    let named = |name: &str, array| tap(&format!("{name}{suffix}"), array);
    let gated = named("gated_attn", gate_msa.expand_dims(1)?.multiply(mixed)?)?;
    let x = if v.is("gated_with_residual") {
        gate_msa.expand_dims(1)?.multiply(x.add(mixed)?)?
    } else {
        x.add(gated)?
    };
    let x = named("residual", x)?;
    let is_left_out = suffix == "_context" && v.is("text_norm_left_out");
    let normed = named("norm2", if is_left_out { x.clone() } else { layer_norm(&x)? })?;
    let mut inside = modulated(&normed, scale_mlp, shift_mlp, v)?;
    if v.is("modulated_twice") {
        inside = modulated(&inside, scale_mlp, shift_mlp, v)?;
    }
    let inside = named("modulated", inside)?;
    let y = {
        let _scope = scope(&format!("ff{suffix}"), None);
        let active = activated(&tap("proj", linear(&ff.proj, &inside)?)?, v)?;
        tap("out", linear(&ff.out, &tap("act", active)?)?)?
    };
    let gated = if v.is("gate_of_mlp_left_out") { y } else { gate_mlp.expand_dims(1)?.multiply(y)? };
    x.add(named("gated_ff", gated)?)
}

fn activated(x: &Array, v: &Variant) -> Computed {
    if v.is("silu_for_gelu") { silu(x) } else { gelu(x) }
}

fn single(block: &SingleBlock, x: &Array, condition: &Array, rope: &Tables, v: &Variant) -> Computed {
    let (normed, [gate]) = {
        let _scope = scope("norm", None);
        ada_norm(&block.norm, x, condition, ["gate"], v)?
    };
    let projected = tap("proj_mlp", linear(&block.proj_mlp, &normed)?)?;
    let mlp = tap("act_mlp", activated(&projected, v)?)?;
    let mixed = single_attention(&block.attn, &normed, rope, v)?;
    let joined = if v.is("activated_after_joined") {
        activated(&concatenate(&[&mixed, &projected], -1)?, v)?
    } else {
        concatenate(&if v.is("mlp_before_attention") { [&mlp, &mixed] } else { [&mixed, &mlp] }, -1)?
    };
    let y = tap("proj_out", linear(&block.proj_out, &joined)?)?;
    let gated = if v.is("single_gate_left_out") { y } else { gate.expand_dims(1)?.multiply(y)? };
    let gated = tap("gated", gated)?;
    tap("out", if v.is("residual_of_normed") { &normed } else { x }.add(gated)?)
}

fn last_norm(layer: &FinalNorm, x: &Array, condition: &Array, v: &Variant) -> Computed {
    let _scope = scope("norm_out", None);
    let active = if v.is("last_silu_left_out") { condition.clone() } else { silu(condition)? };
    let chunks = tap("linear", linear(&layer.linear, &active)?)?.split_equal(2, -1)?;
    let normed = tap("norm", layer_norm(x)?)?;
    let out = if v.is("last_scale_left_out") {
        normed.add(chunks[1].expand_dims(1)?)?
    } else {
        modulated(&normed, &chunks[0], &chunks[1], v)?
    };
    tap("out", out)
}
