//! Variants of Mistral, most of them in its cache.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::module::Module;
use mlx_rs::{Array, nn, ops};
use parity_tests::cache::State;
use parity_tests::mistral::{Attention, Config, Layer, Mistral, for_each_query_head, visible};
use parity_tests::qwen3::{choose, rotate};
use serde::Deserialize;

use super::ops::{Computed, flat, linear, masked, rms_norm, scalar, softmax};
use super::{Variant, add};

const NAMES: &[&str] = &[
    "mask_by_slots",
    "window_left_out",
    "counted_by_slots",
    "values_in_order",
    "keys_rotated_again",
    "token_not_stored",
    "prompt_cut_before_window",
    "second_token_lost",
    "scores_not_scaled",
    // Rewrites.
    "slots_in_order",
    "slots_backwards",
    "empty_slots",
    "mask_added",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "mistral::rotating", NAMES, generate)
}

#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

/// The cache of one layer.
#[derive(Default)]
struct Cache {
    seen: i32,
    state: Option<State>,
}

fn generate(run: &Run, v: &Variant) -> PortResult {
    let Params { steps, config } = run.params()?;
    let mut model = Mistral::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    let mut cache: Vec<Cache> = model.model.layers.iter().map(|_| Cache::default()).collect();
    let mut tokens = run.input("input_ids")?;
    for step in 0..steps {
        let _scope = scope("step", step);
        tokens = choose(&logits(&mut model, &tokens, &mut cache, v)?)?.token.expand_dims(1)?;
    }
    Ok(())
}

fn logits(model: &mut Mistral, tokens: &Array, cache: &mut [Cache], v: &Variant) -> Computed {
    let decoder = &mut model.model;
    let seen = cache[0].seen;
    // A cache that has no count of its own but that of its slots.
    let start = if v.is("counted_by_slots") { seen.min(6) } else { seen };
    let mut x = tap("embed_tokens", decoder.embed_tokens.forward(tokens)?)?;
    let (cos, sin) = decoder.rope.tables(start..start + tokens.dim(1), x.dtype())?;
    let tables = (tap("rope.cos", cos)?, tap("rope.sin", sin)?);
    for (i, (layer, cache)) in decoder.layers.iter_mut().zip(cache).enumerate() {
        let _scope = scope("layers", i);
        x = forward(layer, &x, &tables, cache, v)?;
    }
    let normed = tap("norm", rms_norm(&decoder.norm, &x)?)?;
    tap("lm_head", linear(&model.lm_head, &normed)?)
}

fn forward(
    layer: &mut Layer,
    x: &Array,
    tables: &(Array, Array),
    cache: &mut Cache,
    v: &Variant,
) -> Computed {
    let normed = tap("input_layernorm", rms_norm(&layer.input_layernorm, x)?)?;
    let x = tap("attn_residual", x.add(attention(&layer.self_attn, &normed, tables, cache, v)?)?)?;
    let normed = tap("post_attention_layernorm", rms_norm(&layer.post_attention_layernorm, &x)?)?;
    let gate = nn::silu(linear(&layer.mlp.gate_proj, &normed)?)?;
    let _mlp = scope("mlp", None);
    let gated = tap("gated", gate.multiply(linear(&layer.mlp.up_proj, &normed)?)?)?;
    let y = tap("down_proj", linear(&layer.mlp.down_proj, &gated)?)?;
    drop(_mlp);
    tap("out", x.add(y)?)
}

fn attention(
    layer: &Attention,
    x: &Array,
    tables: &(Array, Array),
    cache: &mut Cache,
    v: &Variant,
) -> Computed {
    let (batch, tokens, size) = (x.dim(0), x.dim(1), layer.sizes.head_dim);
    let window = layer.sizes.window.unwrap_or(i32::MAX);
    let heads = |x: Array| x.reshape(&[batch, tokens, -1, size])?.transpose_axes(&[0, 2, 1, 3]);
    let attn = scope("attn", None);
    let q = heads(tap("q_proj", linear(&layer.q_proj, x)?)?)?;
    let k = heads(tap("k_proj", linear(&layer.k_proj, x)?)?)?;
    let values = heads(tap("v_proj", linear(&layer.v_proj, x)?)?)?;
    let (cos, sin) = (&tables.0, &tables.1);
    let q = tap("q_rope", rotate(&q, (cos, sin))?)?;
    let k = tap("k_rope", rotate(&k, (cos, sin))?)?;
    drop(attn);

    let stored = if v.is("keys_rotated_again") { rotate(&k, (cos, sin))? } else { k.clone() };
    let start = cache.seen;
    cache.seen += tokens;
    let held = updated(cache.state.take(), State::new(stored, values.clone(), start), start, window, v)?;
    let held = held.tapped()?;
    let seen = if tokens > 1 { State::new(k, values, start) } else { held.clone() };
    cache.state = Some(held);

    let _attn = scope("attn", None);
    let groups = q.dim(1) / seen.keys.dim(1);
    let keys = for_each_query_head(&seen.keys, groups)?;
    let scores = q.matmul(flat(&keys)?)?;
    let scale = if v.is("scores_not_scaled") { 1.0 } else { (size as f32).sqrt().recip() };
    let scores = tap("scores", scores.multiply(scalar(scale, scores.dtype())?)?)?;
    let slots = match v.is("mask_by_slots") {
        true => State::new(seen.keys.clone(), seen.values.clone(), 0).positions,
        false => seen.positions.clone(),
    };
    let window = if v.is("window_left_out") { None } else { Some(window) };
    let visible = visible(start..start + tokens, &slots, window)?;
    let hidden = if v.is("mask_added") {
        let mask = ops::select(&visible, scalar(0.0, scores.dtype())?, scalar(-1e9, scores.dtype())?)?;
        scores.add(mask)?
    } else {
        masked(&scores, &visible, f32::NEG_INFINITY)?
    };
    let probs = tap("probs", softmax(&hidden)?)?;
    let context = tap("context", probs.matmul(for_each_query_head(&seen.values, groups)?)?)?;
    let context = context.transpose_axes(&[0, 2, 1, 3])?.reshape(&[batch, tokens, -1])?;
    tap("o_proj", linear(&layer.o_proj, &context)?)
}

/// What the cache holds after new tokens from position `start` on.
fn updated(
    old: Option<State>,
    new: State,
    start: i32,
    window: i32,
    v: &Variant,
) -> Result<State, mlx_rs::error::Exception> {
    let (count, had) = (new.keys.dim(2), start.min(window));
    if v.is("token_not_stored")
        && let Some(old) = &old
    {
        return Ok(old.clone());
    }
    let seen = start + count;
    let all = match &old {
        Some(old) => old.followed_by(&new)?,
        None => new,
    };
    let first = (seen - window).max(0);
    // The new token pushes out the second oldest.
    let lost = if v.is("second_token_lost") && count == 1 { Some(first) } else { None };
    let first = if v.is("prompt_cut_before_window") && count > 1 { first - 1 } else { first };
    let positions: Vec<i32> = match lost {
        Some(lost) => std::iter::once(lost - 1).chain(lost + 1..seen).collect(),
        None => (first..first + window.min(seen)).collect(),
    };
    // Where each position is among all: old tokens by their slot, new ones behind.
    let number = |state: &State, position: i32| -> Option<i32> {
        let held: Vec<i32> = state.positions.contiguous().ok()?.to_vec_exact().ok()?;
        held.iter().rposition(|&one| one == position).map(|at| at as i32)
    };
    let number = |position: i32| number(&all, position).unwrap_or(had);
    let in_order: Vec<i32> = positions.iter().map(|&position| number(position)).collect();
    let mut rotated = in_order.clone();
    for (position, number) in positions.iter().zip(&in_order) {
        rotated[(position % window) as usize % in_order.len()] = *number;
    }
    if v.is("slots_in_order") {
        return all.taken(&in_order);
    }
    if v.is("slots_backwards") {
        return all.taken(&in_order.into_iter().rev().collect::<Vec<_>>());
    }
    if v.is("values_in_order") {
        return Ok(State { values: all.taken(&in_order)?.values, ..all.taken(&rotated)? });
    }
    let state = all.taken(&rotated)?;
    if v.is("empty_slots") {
        let blank = ops::zeros_like(&state.keys)?;
        let free = ops::full::<i32>(state.positions.shape(), Array::from_int(-1))?;
        return State { positions: free, keys: blank.clone(), values: blank }.followed_by(&state);
    }
    Ok(state)
}
