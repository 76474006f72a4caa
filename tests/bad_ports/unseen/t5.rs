//! Variants of the T5 encoder.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::module::Module;
use mlx_rs::{Array, Dtype, nn, ops};
use parity_tests::flux::t5::{Attention, Block, Config, Encoder, Mlp, additive};

use super::ops::{Computed, exact_gelu, flat, linear, masked, rms_norm, softmax, turned};
use super::{Variant, add};
use crate::change::{later, taken, through};
use crate::flux_text::right::t5;

const NAMES: &[&str] = &[
    "embedding_one_row_late",
    "unidirectional_buckets",
    "values_for_keys",
    "mask_on_queries",
    "mask_of_first_prompt",
    "softmax_of_half_precision",
    "heads_not_turned",
    "gelu_by_erf",
    "gate_added",
    "wo_of_next_block",
    "residual_of_block",
    "last_norm_is_first",
    "buckets_rounded",
    "bias_only_in_first_block",
    // Rewrites.
    "mask_twice",
    "mask_selected",
    "bias_with_mask",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "flux::t5", NAMES, encode)
}

fn encode(run: &Run, v: &Variant) -> PortResult {
    let config: Config = run.params()?;
    t5(run, |_, _| {}, |encoder, ids, mask| forward(encoder, &config, ids, mask, v))
}

/// What every block adds to its scores. The first block makes the bias.
struct Added {
    bias: Option<Array>,
    mask: Array,
    /// Which keys are no padding.
    visible: Array,
}

fn forward(encoder: &mut Encoder, config: &Config, ids: &Array, mask: &Array, v: &Variant) -> Computed {
    let embedded = if v.is("embedding_one_row_late") {
        later(&encoder.embed.weight, 0, 1)?.take_axis(ids, 0)?
    } else {
        encoder.embed.forward(ids)?
    };
    let mut x = tap("embed", embedded)?;
    let mask = if v.is("mask_of_first_prompt") { taken(mask, 0, [0, 0])? } else { mask.clone() };
    let visible = mask.as_dtype(Dtype::Bool)?.expand_dims_axes(&[1, 2])?;
    let mut mask = additive(&mask)?;
    if v.is("mask_on_queries") {
        mask = flat(&mask)?;
    }
    if v.is("mask_twice") {
        mask = mask.add(&mask)?;
    }
    let mut added = Added { bias: None, mask, visible };
    let count = encoder.blocks.len();
    for (i, each) in encoder.blocks.iter().enumerate() {
        let _scope = scope("blocks", i);
        let next = &encoder.blocks[(i + 1) % count].mlp.wo;
        x = block(each, config, next, &x, &mut added, v)?;
    }
    let norm = if v.is("last_norm_is_first") { &encoder.blocks[0].norm1 } else { &encoder.final_norm };
    tap("out", rms_norm(norm, &x)?)
}

/// The bias that is added to the scores, `[1, heads, tokens, tokens]`.
fn bias(layer: &Attention, config: &Config, tokens: i32, v: &Variant) -> Computed {
    let offsets = (0..tokens).flat_map(|from| (0..tokens).map(move |to| to - from));
    let bucket = |offset: i32| {
        if v.is("unidirectional_buckets") {
            // As in the decoder of T5: nothing is ahead, and all buckets are for what is behind.
            let whole = 2 * config.relative_attention_num_buckets;
            return Config { relative_attention_num_buckets: whole, ..*config }.bucket(offset.min(0));
        }
        if v.is("buckets_rounded") {
            return rounded_bucket(config, offset);
        }
        config.bucket(offset)
    };
    let buckets: Vec<i32> = offsets.map(bucket).collect();
    let buckets = tap("buckets", Array::from_slice(&buckets, &[tokens, tokens]))?;
    let table = layer.relative_attention_bias.as_ref();
    let table = table.ok_or_else(|| Exception::custom("the first block has the table"))?;
    let bias = tap("bias", table.weight.take_axis(&buckets, 0)?)?;
    bias.transpose_axes(&[2, 0, 1])?.expand_dims(0)
}

/// The bucket of an offset, with the logarithm rounded to the nearest bucket and not cut off.
fn rounded_bucket(config: &Config, offset: i32) -> i32 {
    let count = config.relative_attention_num_buckets / 2;
    let later = if offset > 0 { count } else { 0 };
    let (distance, exact) = (offset.abs(), count / 2);
    if distance < exact {
        return later + distance;
    }
    let octaves = (config.relative_attention_max_distance as f32 / exact as f32).ln();
    let along = (distance as f32 / exact as f32).ln() / octaves * (count - exact) as f32;
    later + (exact + along.round() as i32).min(count - 1)
}

fn block(
    block: &Block,
    config: &Config,
    next: &nn::Linear,
    x: &Array,
    added: &mut Added,
    v: &Variant,
) -> Computed {
    let normed = tap("norm1", rms_norm(&block.norm1, x)?)?;
    let attended = tap("attended", x.add(attention(&block.attn, config, &normed, added, v)?)?)?;
    let normed = tap("norm2", rms_norm(&block.norm2, &attended)?)?;
    let y = mlp(&block.mlp, next, &normed, v)?;
    tap("out", if v.is("residual_of_block") { x } else { &attended }.add(y)?)
}

fn attention(layer: &Attention, config: &Config, x: &Array, added: &mut Added, v: &Variant) -> Computed {
    let _scope = scope("attn", None);
    let (batch, tokens) = (x.dim(0), x.dim(1));
    let split = |x: Array| turned(&x.reshape(&[batch, tokens, layer.heads, -1])?);
    let q = split(tap("q", linear(&layer.q, x)?)?)?;
    let k = split(tap("k", linear(&layer.k, x)?)?)?;
    let values = split(tap("v", linear(&layer.v, x)?)?)?;
    let bias = match added.bias.take() {
        Some(bias) => bias,
        None => bias(layer, config, tokens, v)?,
    };
    let bias = added.bias.insert(bias);
    let keys = if v.is("values_for_keys") { &values } else { &k };
    let scores = tap("scores", q.matmul(flat(keys)?)?)?;
    let is_left_out = v.is("bias_only_in_first_block") && layer.relative_attention_bias.is_none();
    let biased = tap("biased", if is_left_out { scores.clone() } else { scores.add(&*bias)? })?;
    let probs = if v.is("softmax_of_half_precision") {
        softmax(&through(&biased, Dtype::Float16)?.add(&added.mask)?)?
    } else if v.is("mask_selected") {
        softmax(&masked(&biased, &added.visible, f32::NEG_INFINITY)?)?
    } else if v.is("bias_with_mask") {
        softmax(&scores.add(bias.add(&added.mask)?)?)?
    } else {
        softmax(&biased.add(&added.mask)?)?
    };
    let context = tap("context", tap("probs", probs)?.matmul(values)?)?;
    let context = if v.is("heads_not_turned") { context } else { turned(&context)? };
    tap("out", linear(&layer.o, &context.reshape(&[batch, tokens, -1])?)?)
}

fn mlp(mlp: &Mlp, next: &nn::Linear, x: &Array, v: &Variant) -> Computed {
    let _scope = scope("mlp", None);
    let gate = tap("wi_0", linear(&mlp.wi_0, x)?)?;
    let active =
        tap("act", if v.is("gelu_by_erf") { exact_gelu(&gate)? } else { nn::gelu_approximate(gate)? })?;
    let up = tap("wi_1", linear(&mlp.wi_1, x)?)?;
    let gated = if v.is("gate_added") { ops::add(&active, up)? } else { active.multiply(up)? };
    let wo = if v.is("wo_of_next_block") { next } else { &mlp.wo };
    tap("out", linear(wo, &tap("gated", gated)?)?)
}
