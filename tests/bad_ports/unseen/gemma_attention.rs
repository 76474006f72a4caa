//! Variants of Gemma's attention and of its cache.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::ops::concatenate;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, ops};
use parity_tests::gemma::{Attention, Config, capped, scaled, visible};
use parity_tests::qwen3::rotate;

use super::Variant;
use super::ops::{Computed, flat, linear, masked, repeated_heads, softmax, tiled_heads, turned};
use crate::change::{Pairs, times, turned as rotated};

/// The cached keys and values of one layer.
pub(super) struct Cache {
    pub(super) seen: i32,
    /// Number of tokens that were appended first.
    pub(super) prompt: i32,
    window: Option<i32>,
    held: Option<(Array, Array)>,
}

impl Cache {
    pub(super) fn new(window: Option<i32>) -> Self {
        Self { seen: 0, prompt: 0, window, held: None }
    }

    /// Number of tokens that the cache still holds.
    pub(super) fn len(&self) -> i32 {
        self.held.as_ref().map_or(0, |(keys, _)| keys.dim(2))
    }

    fn append(&mut self, keys: Array, values: Array, v: &Variant) -> Result<(Array, Array), Exception> {
        if self.seen == 0 {
            self.prompt = keys.dim(2);
        }
        self.seen += keys.dim(2);
        let (keys, values) = match self.held.take() {
            Some((old_keys, old_values)) => {
                (concatenate(&[old_keys, keys], 2)?, concatenate(&[old_values, values], 2)?)
            }
            None => (keys, values),
        };
        let length = keys.dim(2);
        let room = self.window.map_or(length, |window| {
            let beside_the_next = if v.is("cache_one_too_long") { window } else { window - 1 };
            beside_the_next.min(length)
        });
        let first = if v.is("cache_keeps_first") { 0 } else { length - room };
        let kept = |x: &Array| x.try_index((.., .., first..first + room, ..));
        self.held = Some((kept(&keys)?, kept(&values)?));
        Ok((keys, values))
    }
}

pub(super) fn attention(
    layer: &Attention,
    config: &Config,
    window: Option<i32>,
    x: &Array,
    (cos, sin): &(Array, Array),
    cache: &mut Cache,
    v: &Variant,
) -> Computed {
    let _scope = scope("attn", None);
    let (batch, tokens) = (x.dim(0), x.dim(1));
    let heads = |x: Array| turned(&x.reshape(&[batch, tokens, -1, layer.head_dim])?);
    let q = heads(tap("q_proj", linear(&layer.q_proj, x)?)?)?;
    let k = heads(tap("k_proj", linear(&layer.k_proj, x)?)?)?;
    let values = heads(tap("v_proj", linear(&layer.v_proj, x)?)?)?;
    let q = tap("q_rope", turn(&q, cos, sin, v)?)?;
    let k = tap("k_rope", if v.is("keys_not_rotated") { k } else { turn(&k, cos, sin, v)? })?;

    let (keys, values) = cache.append(k, values, v)?;
    let (keys, values) = (tap("keys", keys)?, tap("values", values)?);
    let groups = q.dim(1) / keys.dim(1);
    let values = repeated_heads(if v.is("keys_for_values") { &keys } else { &values }, groups)?;
    let products = if v.is("heads_broadcast") {
        let shared = q.reshape(&[batch, keys.dim(1), groups, tokens, -1])?;
        let products = shared.matmul(flat(&keys)?.expand_dims(2)?)?;
        products.reshape(&[batch, q.dim(1), tokens, -1])?
    } else if v.is("key_heads_tiled") {
        q.matmul(flat(&tiled_heads(&keys, groups)?)?)?
    } else {
        q.matmul(flat(&repeated_heads(&keys, groups)?)?)?
    };
    let mut scale = layer.scale;
    if v.is("scaled_by_head_dim") {
        scale = (layer.head_dim as f32).sqrt().recip();
    }
    if v.is("scaled_twice") {
        scale *= scale;
    }
    let scores = tap("scores", scaled(&products, scale)?)?;

    let window = window.map(|window| match () {
        () if v.is("window_one_longer") => window + 1,
        () if v.is("window_one_shorter") => window - 1,
        () => window,
    });
    let window = window.filter(|_| !v.is("window_ignored"));
    let visible = visible(tokens, keys.dim(2), window)?;
    let scores = cap(&scores, &products, &visible, layer, config, v)?;
    let scores = tap("capped", scores)?;
    let probs = if v.is("mask_added") {
        let added = ops::select(&visible, Array::from_f32(0.0), Array::from_f32(-1e9))?;
        softmax(&scores.add(added.as_dtype(scores.dtype())?)?)?
    } else if v.is("masked_before_cap") {
        softmax(&scores)?
    } else {
        softmax(&masked(&scores, &visible, f32::NEG_INFINITY)?)?
    };
    let context = tap("context", tap("probs", probs)?.matmul(values)?)?;
    let context = if v.is("heads_not_turned") { context } else { turned(&context)? };
    tap("o_proj", linear(&layer.o_proj, &context.reshape(&[batch, tokens, -1])?)?)
}

fn cap(
    scores: &Array,
    products: &Array,
    visible: &Array,
    layer: &Attention,
    config: &Config,
    v: &Variant,
) -> Computed {
    if v.is("cap_left_out") {
        Ok(scores.clone())
    } else if v.is("capped_twice") {
        capped(&capped(scores, layer.cap)?, layer.cap)
    } else if v.is("capped_by_clamp") {
        ops::clip(scores, (-layer.cap, layer.cap))
    } else if v.is("cap_before_scale") {
        scaled(&capped(products, layer.cap)?, layer.scale)
    } else if v.is("cap_of_logits") {
        capped(scores, config.final_logit_softcapping)
    } else if v.is("masked_before_cap") {
        capped(&masked(scores, visible, f32::NEG_INFINITY)?, layer.cap)
    } else if v.is("cap_by_reciprocal") {
        times(&ops::tanh(times(scores, layer.cap.recip())?)?, layer.cap)
    } else {
        capped(scores, layer.cap)
    }
}

fn turn(x: &Array, cos: &Array, sin: &Array, v: &Variant) -> Computed {
    if v.is("neighbours_rotated") {
        let half = |table: &Array| table.try_index((.., .., ..x.dim(-1) / 2));
        rotated(x, &half(cos)?, &half(sin)?, Pairs::Neighbours)
    } else if v.is("rotated_backwards") {
        // The first half is negated, not the second.
        let halves = x.split_equal(2, -1)?;
        let other = concatenate(&[&halves[1], &halves[0].negative()?], -1)?;
        x.multiply(cos)?.add(other.multiply(sin)?)
    } else {
        rotate(x, (cos, sin))
    }
}
