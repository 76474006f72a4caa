//! Variants of CLIP's text encoder.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::fast::scaled_dot_product_attention;
use mlx_rs::module::Module;
use mlx_rs::ops::indexing::{TryIndexOp, argmax_axis};
use mlx_rs::{Array, Dtype, nn, ops};
use parity_tests::flux::clip::{Attention, Encoder, Layer, causal_mask};

use super::ops::{Computed, flat, fused, layer_norm, layer_norm_over, linear, linear_of, softmax, turned};
use super::{Variant, add};
use crate::change::times;
use crate::flux_text::right::clip;

const NAMES: &[&str] = &[
    "positions_twice",
    "deviation_of_a_sample",
    "heads_by_feature",
    "mask_one_later",
    "mask_of_earlier",
    "softmax_over_queries",
    "keys_for_values",
    "probs_turned",
    "bias_of_next_layer",
    "residual_of_normed",
    "second_norm_is_first",
    "slope_of_gelu",
    "pooled_by_mean",
    "pooled_before_end",
    "pooled_before_norm",
    "padding_hidden",
    // Rewrites.
    "qkv_fused",
    "fused_attention",
    "norm_by_formula",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "flux::clip", NAMES, encode)
}

fn encode(run: &Run, v: &Variant) -> PortResult {
    clip(run, |_| {}, |encoder, ids| forward(encoder, ids, v))
}

fn forward(encoder: &mut Encoder, ids: &Array, v: &Variant) -> Computed {
    let mut x = {
        let _scope = scope("embed", None);
        let tokens = tap("token", encoder.tokens.forward(ids)?)?;
        let positions = encoder.positions.weight.try_index(..ids.dim(1))?.expand_dims(0)?;
        let positions = tap("position", positions)?;
        let sum = tokens.add(&positions)?;
        tap("out", if v.is("positions_twice") { sum.add(positions)? } else { sum })?
    };
    let mask = if v.is("mask_of_earlier") {
        causal_mask(ids.dim(1), x.dtype())?.transpose_axes(&[1, 0])?
    } else if v.is("mask_one_later") {
        let later = ops::triu(ops::ones::<f32>(&[ids.dim(1), ids.dim(1)])?, 2)?;
        times(&later, f32::MIN)?
    } else {
        causal_mask(ids.dim(1), x.dtype())?
    };
    let mask = if v.is("padding_hidden") {
        // The padding is the end mark, so the mark itself is hidden, too.
        let padding = ids.eq(Array::from_int(encoder.eos_token_id))?.as_dtype(Dtype::Float32)?;
        mask.add(times(&padding, f32::MIN)?.expand_dims_axes(&[1, 2])?)?
    } else {
        mask
    };
    let count = encoder.layers.len();
    for (i, each) in encoder.layers.iter().enumerate() {
        let _scope = scope("layers", i);
        let next = encoder.layers[(i + 1) % count].attn.out.bias.value.as_ref();
        x = layer(each, next, &x, &mask, v)?;
    }
    let normed = tap("out", norm(&encoder.final_norm, &x, v)?)?;
    let from = if v.is("pooled_before_norm") { &x } else { &normed };
    let ends = ids.eq(Array::from_int(encoder.eos_token_id))?.as_dtype(Dtype::Int32)?;
    let mut place = argmax_axis(ends, -1, true)?;
    if v.is("pooled_before_end") {
        place = place.as_dtype(Dtype::Int32)?.subtract(Array::from_int(1))?;
    }
    let pooled = if v.is("pooled_by_mean") {
        from.mean_axis(1, false)?
    } else {
        from.take_along_axis(place.expand_dims(-1)?, 1)?.squeeze_axes(&[1])?
    };
    tap("pooled", pooled)?;
    Ok(normed)
}

fn norm(norm: &nn::LayerNorm, x: &Array, v: &Variant) -> Computed {
    let ddof = i32::from(v.is("deviation_of_a_sample"));
    let (Some(weight), Some(bias)) = (&norm.weight.value, &norm.bias.value) else {
        return layer_norm(norm, x);
    };
    if ddof == 1 || v.is("norm_by_formula") {
        layer_norm_over(x, -1, ddof, norm.eps)?.multiply(weight)?.add(bias)
    } else {
        layer_norm(norm, x)
    }
}

fn layer(layer: &Layer, next: Option<&Array>, x: &Array, mask: &Array, v: &Variant) -> Computed {
    let normed = tap("norm1", norm(&layer.norm1, x, v)?)?;
    let residual = if v.is("residual_of_normed") { &normed } else { x };
    let x = tap("attended", residual.add(attention(&layer.attn, next, &normed, mask, v)?)?)?;
    let second = if v.is("second_norm_is_first") { &layer.norm1 } else { &layer.norm2 };
    let normed = tap("norm2", norm(second, &x, v)?)?;
    let y = {
        let _scope = scope("mlp", None);
        let inside = tap("fc1", linear(&layer.mlp.fc1, &normed)?)?;
        let slope = if v.is("slope_of_gelu") { 1.4 } else { 1.702 };
        let active = tap("act", inside.multiply(ops::sigmoid(times(&inside, slope)?)?)?)?;
        tap("out", linear(&layer.mlp.fc2, &active)?)?
    };
    tap("out", x.add(y)?)
}

fn attention(layer: &Attention, next: Option<&Array>, x: &Array, mask: &Array, v: &Variant) -> Computed {
    let _scope = scope("attn", None);
    let (batch, tokens, dim) = (x.dim(0), x.dim(1), x.dim(2));
    let size = dim / layer.heads;
    let split = |x: &Array| {
        if v.is("heads_by_feature") {
            return x.reshape(&[batch, tokens, size, -1])?.transpose_axes(&[0, 3, 1, 2]);
        }
        turned(&x.reshape(&[batch, tokens, -1, size])?)
    };
    let parts = if v.is("qkv_fused") {
        fused(&[&layer.q, &layer.k, &layer.v], x)?
    } else {
        vec![linear(&layer.q, x)?, linear(&layer.k, x)?, linear(&layer.v, x)?]
    };
    let q = split(&tap("q", parts[0].clone())?)?;
    let k = split(&tap("k", parts[1].clone())?)?;
    let values = split(&tap("v", parts[2].clone())?)?;
    let scale = (size as f32).sqrt().recip();
    let scores = tap("scores", times(&q.matmul(flat(&k)?)?, scale)?)?;
    let hidden = scores.add(mask)?;
    let probs =
        if v.is("softmax_over_queries") { ops::softmax_axis(&hidden, -2, true)? } else { softmax(&hidden)? };
    let probs = tap("probs", probs)?;
    let context = if v.is("fused_attention") {
        scaled_dot_product_attention(&q, &k, &values, scale, mask, None)?
    } else if v.is("keys_for_values") {
        probs.matmul(&k)?
    } else if v.is("probs_turned") {
        flat(&probs)?.matmul(&values)?
    } else {
        probs.matmul(&values)?
    };
    let joined = turned(&tap("context", context)?)?.reshape(&[batch, tokens, dim])?;
    let bias = if v.is("bias_of_next_layer") { next } else { layer.out.bias.value.as_ref() };
    tap("out", linear_of(&layer.out.weight, bias, &joined)?)
}
