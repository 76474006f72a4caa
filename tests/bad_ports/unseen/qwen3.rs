//! Variants of Qwen3.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::module::Module;
use mlx_rs::ops::concatenate;
use mlx_rs::ops::indexing::{TryIndexOp, argmax_axis, topk_axis};
use mlx_rs::{Array, Dtype, fast, nn, ops};
use parity_tests::qwen3::{Attention, Config, Layer, Qwen3, rotate};
use serde::Deserialize;

use super::ops::{
    Computed, flat, fused, linear, masked, repeated_heads, rms_norm, rms_norm_over, softmax, tiled_heads,
    turned,
};
use super::{Variant, add};
use crate::change::{times, wide};

const NAMES: &[&str] = &[
    "keys_before_cache",
    "cached_before_rotation",
    "sees_next_token",
    "mask_of_minus_ten",
    "rotated_before_normed",
    "cosine_and_sine_exchanged",
    "half_rotated",
    "scaled_twice",
    "softmax_in_bfloat16",
    "values_tiled",
    "o_proj_of_next_layer",
    "mlp_of_unnormed",
    "up_left_out",
    "last_norm_over_tokens",
    "head_of_unnormed",
    "least_likely",
    "positions_one_behind",
    "head_norms_of_default_eps",
    "norm_over_all_heads",
    "caches_popped",
    "mask_without_offset",
    // Rewrites.
    "qkv_fused",
    "fast_rope",
    "scaled_queries",
    "context_by_einsum",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "qwen3::decoder", NAMES, generate)
}

#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

/// The cached keys and values of one layer.
type Cache = Option<(Array, Array)>;

/// The position of the first token, its tables, and the base of their frequencies.
struct Positions {
    start: i32,
    tables: (Array, Array),
    theta: f32,
}

fn generate(run: &Run, v: &Variant) -> PortResult {
    let Params { steps, config } = run.params()?;
    let mut model = Qwen3::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    let mut cache: Vec<Cache> = vec![None; model.model.layers.len()];
    let mut tokens = run.input("input_ids")?;
    for step in 0..steps {
        let _scope = scope("step", step);
        let logits = logits(&mut model, &config, &tokens, &mut cache, v)?;
        let last = logits.try_index((.., -1, ..))?;
        let best = topk_axis(&last, 2, -1)?;
        tap("margin", best.max_axis(-1, false)?.subtract(best.min_axis(-1, false)?)?)?;
        let likely = if v.is("least_likely") { last.negative()? } else { last };
        tokens = tap("token", argmax_axis(&likely, -1, false)?.as_dtype(Dtype::Int32)?)?.expand_dims(1)?;
    }
    Ok(())
}

fn logits(model: &mut Qwen3, config: &Config, tokens: &Array, cache: &mut [Cache], v: &Variant) -> Computed {
    let decoder = &mut model.model;
    let seen = cache[0].as_ref().map_or(0, |(keys, _)| keys.dim(2));
    if v.is("caches_popped") && seen > 0 {
        // Each layer pushed its cache to a list, and takes one from its end.
        cache.reverse();
    }
    let start = if v.is("positions_one_behind") { (seen - 1).max(0) } else { seen };
    let mut x = tap("embed_tokens", decoder.embed_tokens.forward(tokens)?)?;
    let (cos, sin) = decoder.rope.tables(start..start + tokens.dim(1), x.dtype())?;
    let tables = (tap("rope.cos", cos)?, tap("rope.sin", sin)?);
    let positions = Positions { start, tables, theta: config.rope_theta };
    let count = decoder.layers.len();
    for (i, cache) in cache.iter_mut().enumerate() {
        let _scope = scope("layers", i);
        let next = &decoder.layers[(i + 1) % count].self_attn.o_proj;
        x = layer(&decoder.layers[i], next, &x, &positions, cache, v)?;
    }
    let normed = if v.is("last_norm_over_tokens") {
        let all = x.reshape(&[x.dim(0), -1])?;
        rms_norm_over(&all, -1, decoder.norm.eps)?.reshape(x.shape())?.multiply(&*decoder.norm.weight)?
    } else {
        rms_norm(&decoder.norm, &x)?
    };
    let normed = tap("norm", normed)?;
    let head = model.lm_head.as_ref().ok_or_else(|| Exception::custom("the head is not tied"))?;
    tap("lm_head", linear(head, if v.is("head_of_unnormed") { &x } else { &normed })?)
}

fn layer(
    layer: &Layer,
    next: &nn::Linear,
    x: &Array,
    positions: &Positions,
    cache: &mut Cache,
    v: &Variant,
) -> Computed {
    let normed = tap("input_layernorm", rms_norm(&layer.input_layernorm, x)?)?;
    let x = tap("attn_residual", x.add(attention(&layer.self_attn, next, &normed, positions, cache, v)?)?)?;
    let normed = tap("post_attention_layernorm", rms_norm(&layer.post_attention_layernorm, &x)?)?;
    let y = {
        let _scope = scope("mlp", None);
        let inside = if v.is("mlp_of_unnormed") { &x } else { &normed };
        let active = tap("act_fn", nn::silu(tap("gate_proj", linear(&layer.mlp.gate_proj, inside)?)?)?)?;
        let up = tap("up_proj", linear(&layer.mlp.up_proj, inside)?)?;
        let gated = tap("gated", if v.is("up_left_out") { active } else { active.multiply(up)? })?;
        tap("down_proj", linear(&layer.mlp.down_proj, &gated)?)?
    };
    tap("out", x.add(y)?)
}

fn attention(
    layer: &Attention,
    next: &nn::Linear,
    x: &Array,
    positions: &Positions,
    cache: &mut Cache,
    v: &Variant,
) -> Computed {
    let _scope = scope("attn", None);
    let (batch, tokens, size) = (x.dim(0), x.dim(1), layer.q_norm.weight.dim(0));
    let heads = |x: &Array| x.reshape(&[batch, tokens, -1, size]);
    let (q, k, values) = if v.is("qkv_fused") {
        let parts = fused(&[&layer.q_proj, &layer.k_proj, &layer.v_proj], x)?;
        (parts[0].clone(), parts[1].clone(), parts[2].clone())
    } else {
        (linear(&layer.q_proj, x)?, linear(&layer.k_proj, x)?, linear(&layer.v_proj, x)?)
    };
    let q = heads(&tap("q_proj", q)?)?;
    let normed_q = turned(&tap("q_norm", head_norm(&layer.q_norm, &q, v)?)?)?;
    let k = heads(&tap("k_proj", k)?)?;
    let normed_k = turned(&tap("k_norm", head_norm(&layer.k_norm, &k, v)?)?)?;
    let values = turned(&heads(&tap("v_proj", values)?)?)?;
    let (q, k) = if v.is("rotated_before_normed") {
        let rotated = |x: &Array| turn(&turned(x)?, positions, v);
        (rms_norm(&layer.q_norm, &rotated(&q)?)?, rms_norm(&layer.k_norm, &rotated(&k)?)?)
    } else {
        (turn(&normed_q, positions, v)?, turn(&normed_k, positions, v)?)
    };
    let (q, k) = (tap("q_rope", q)?, tap("k_rope", k)?);

    let old = cache.take();
    let after = |old: Option<&Array>, new: &Array| match old {
        Some(old) if v.is("keys_before_cache") => concatenate(&[new, old], 2),
        Some(old) => concatenate(&[old, new], 2),
        None => Ok(new.clone()),
    };
    let old_keys = old.as_ref().map(|(keys, _)| keys);
    let keys = after(old_keys, &k)?;
    let values = after(old.as_ref().map(|(_, values)| values), &values)?;
    let kept = if v.is("cached_before_rotation") { after(old_keys, &normed_k)? } else { keys.clone() };
    *cache = Some((kept, values.clone()));
    let seen = keys.dim(2) - tokens;
    let (keys, values) = (tap("keys", keys)?, tap("values", values)?);
    let groups = q.dim(1) / keys.dim(1);
    let keys = repeated_heads(&keys, groups)?;
    let values =
        if v.is("values_tiled") { tiled_heads(&values, groups)? } else { repeated_heads(&values, groups)? };

    let scale = (size as f32).sqrt().recip();
    let scores = if v.is("scaled_queries") {
        times(&q, scale)?.matmul(flat(&keys)?)?
    } else {
        times(&q.matmul(flat(&keys)?)?, if v.is("scaled_twice") { scale * scale } else { scale })?
    };
    let scores = tap("scores", scores)?;
    let last_seen = match () {
        () if v.is("sees_next_token") => seen + 1,
        () if v.is("mask_without_offset") => 0,
        () => seen,
    };
    let visible = ops::tri::<bool>(tokens, Some(keys.dim(2)), Some(last_seen))?;
    let fill = if v.is("mask_of_minus_ten") { -10.0 } else { f32::NEG_INFINITY };
    let hidden = masked(&scores, &visible, fill)?;
    let probs = if v.is("softmax_in_bfloat16") {
        wide(&softmax(&hidden.as_dtype(Dtype::Bfloat16)?)?)?
    } else {
        softmax(&hidden)?
    };
    let probs = tap("probs", probs)?;
    let context = if v.is("context_by_einsum") {
        ops::einsum("bhqk,bhkd->bhqd", [&probs, &values])?
    } else {
        probs.matmul(values)?
    };
    let context = turned(&tap("context", context)?)?.reshape(&[batch, tokens, -1])?;
    tap("o_proj", linear(if v.is("o_proj_of_next_layer") { next } else { &layer.o_proj }, &context)?)
}

/// The norm of each head of `[batch, tokens, heads, features]`.
fn head_norm(norm: &nn::RmsNorm, x: &Array, v: &Variant) -> Computed {
    if v.is("norm_over_all_heads") {
        let all = x.reshape(&[x.dim(0), x.dim(1), -1])?;
        return rms_norm_over(&all, -1, norm.eps)?.reshape(x.shape())?.multiply(&*norm.weight);
    }
    if v.is("head_norms_of_default_eps") {
        return fast::rms_norm(x, Some(&*norm.weight), 1e-5);
    }
    rms_norm(norm, x)
}

fn turn(x: &Array, positions: &Positions, v: &Variant) -> Computed {
    let (cos, sin) = &positions.tables;
    if v.is("cosine_and_sine_exchanged") {
        rotate(x, (sin, cos))
    } else if v.is("half_rotated") {
        // As in models that rotate a part of each head.
        let half = x.dim(-1) / 2;
        let parts = x.split_at_indices(&[half], -1)?;
        let table = |table: &Array| table.try_index((.., .., ..half));
        concatenate(&[&rotate(&parts[0], (&table(cos)?, &table(sin)?))?, &parts[1]], -1)
    } else if v.is("fast_rope") {
        fast::rope(x, x.dim(-1), false, positions.theta, 1.0, positions.start, None)
    } else {
        rotate(x, (cos, sin))
    }
}
