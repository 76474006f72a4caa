//! Variants of the experts of Qwen2-MoE.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::module::Module;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, Dtype, nn, ops};
use parity_tests::cache::{Cache, FullCache};
use parity_tests::qwen2_moe::{Config, Experts, Moe, Qwen2Moe, tap_caches};
use parity_tests::qwen3::choose;
use serde::Deserialize;

use super::ops::{Computed, linear, rms_norm, softmax};
use super::{Variant, add};
use crate::change::{taken, wide};

const NAMES: &[&str] = &[
    "softmax_in_bfloat16",
    "sigmoid_for_softmax",
    "weights_by_softmax",
    "weights_left_out",
    "weighted_inside",
    "first_expert_only",
    "gate_and_up_exchanged",
    "experts_without_silu",
    "router_of_unnormed",
    "routes_of_next_token",
    "shared_not_gated",
    "shared_gate_on_all",
    // Rewrites.
    "softmax_of_chosen",
    "experts_one_by_one",
    "chosen_backwards",
    "shared_last",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "qwen2_moe::decoder", NAMES, generate)
}

#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

fn generate(run: &Run, v: &Variant) -> PortResult {
    let Params { steps, config } = run.params()?;
    let mut model = Qwen2Moe::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    let mut cache = model.new_cache();
    let mut tokens = run.input("input_ids")?;
    for step in 0..steps {
        let _scope = scope("step", step);
        tokens = choose(&logits(&mut model, &tokens, &mut cache, v)?)?.token.expand_dims(1)?;
        tap_caches(&mut cache)?;
    }
    Ok(())
}

fn logits(model: &mut Qwen2Moe, tokens: &Array, cache: &mut [FullCache], v: &Variant) -> Computed {
    let decoder = &mut model.model;
    let start = cache[0].seen();
    let mut x = tap("embed_tokens", decoder.embed_tokens.forward(tokens)?)?;
    let (cos, sin) = decoder.rope.tables(start..start + tokens.dim(1), x.dtype())?;
    let tables = (tap("rope.cos", cos)?, tap("rope.sin", sin)?);
    for (i, (layer, cache)) in decoder.layers.iter_mut().zip(cache).enumerate() {
        let _scope = scope("layers", i);
        let normed = tap("input_layernorm", rms_norm(&layer.input_layernorm, &x)?)?;
        x = tap("attn_residual", x.add(layer.self_attn.forward(&normed, &tables, cache)?)?)?;
        let normed = tap("post_attention_layernorm", rms_norm(&layer.post_attention_layernorm, &x)?)?;
        x = tap("out", x.add(moe(&layer.mlp, &normed, &x, v)?)?)?;
    }
    let normed = tap("norm", rms_norm(&decoder.norm, &x)?)?;
    tap("lm_head", linear(&model.lm_head, &normed)?)
}

fn moe(layer: &Moe, x: &Array, before: &Array, v: &Variant) -> Computed {
    let _scope = scope("moe", None);
    let rows = x.reshape(&[-1, x.dim(-1)])?;
    let shared = || -> Computed {
        let expert = &layer.shared_expert;
        let gate = nn::silu(linear(&expert.gate_proj, &rows)?)?;
        tap("shared.out", linear(&expert.down_proj, &gate.multiply(linear(&expert.up_proj, &rows)?)?)?)
    };
    let early = if v.is("shared_last") { None } else { Some(shared()?) };
    let input = if v.is("router_of_unnormed") { before.reshape(rows.shape())? } else { rows.clone() };
    let logits = tap("router.logits", input.matmul(layer.gate.weight.t())?)?;
    let scores = if v.is("softmax_in_bfloat16") {
        wide(&softmax(&logits.as_dtype(Dtype::Bfloat16)?)?)?
    } else if v.is("sigmoid_for_softmax") {
        ops::sigmoid(&logits)?
    } else {
        softmax(&logits)?
    };
    let scores = tap("router.scores", scores)?;
    let count = layer.gate.top_k;
    let ids = ops::argsort_axis(scores.negative()?, -1)?.try_index((.., ..count))?;
    let mut chosen = scores.take_along_axis(&ids, -1)?;
    if v.is("routes_of_next_token") {
        let all = rows.dim(0);
        chosen = taken(&chosen, 0, (0..all).map(|row| (row + 1) % all))?;
    }
    let weights = if v.is("weights_by_softmax") {
        softmax(&chosen)?
    } else if v.is("softmax_of_chosen") {
        softmax(&logits.take_along_axis(&ids, -1)?)?
    } else if layer.gate.norm_topk_prob {
        chosen.divide(chosen.sum_axis(-1, true)?)?
    } else {
        chosen
    };
    let weights = tap("router.weights", weights)?;
    let ids = tap("router.ids", ids.as_dtype(Dtype::Int32)?)?;
    let routed = tap("experts", experts(&layer.experts, &rows, &ids, &weights, v)?)?;
    let shared = match early {
        Some(shared) => shared,
        None => shared()?,
    };
    let gate = ops::sigmoid(tap("shared.gate", linear(&layer.shared_expert_gate, &rows)?)?)?;
    let gated = if v.is("shared_not_gated") { shared.clone() } else { gate.multiply(&shared)? };
    let gated = tap("shared.gated", gated)?;
    let sum =
        if v.is("shared_gate_on_all") { gate.multiply(routed.add(shared)?)? } else { routed.add(gated)? };
    tap("out", sum.reshape(x.shape())?)
}

fn experts(layer: &Experts, x: &Array, ids: &Array, weights: &Array, v: &Variant) -> Computed {
    if v.is("experts_one_by_one") {
        // Every expert for every token, with a weight of 0 where it was not chosen.
        let mut sum = ops::zeros_like(x)?;
        for expert in 0..layer.down_proj.dim(0) {
            let both = x.matmul(layer.gate_up_proj.try_index(expert)?.t())?.split_equal(2, -1)?;
            let inner = nn::silu(&both[0])?.multiply(&both[1])?;
            let is_chosen = ids.eq(Array::from_int(expert))?.as_dtype(x.dtype())?;
            let weight = is_chosen.multiply(weights)?.sum_axis(-1, true)?;
            sum = sum.add(inner.matmul(layer.down_proj.try_index(expert)?.t())?.multiply(weight)?)?;
        }
        return Ok(sum);
    }
    let (ids, weights) = if v.is("chosen_backwards") {
        let order = || (0..ids.dim(1)).rev();
        (taken(ids, 1, order())?, taken(weights, 1, order())?)
    } else {
        (ids.clone(), weights.clone())
    };
    let weights = weights.expand_dims(-1)?;
    let column = x.expand_dims_axes(&[1, 3])?;
    let both = layer.gate_up_proj.take_axis(&ids, 0)?.matmul(column)?.split_equal(2, 2)?;
    let (gate, up) = if v.is("gate_and_up_exchanged") { (&both[1], &both[0]) } else { (&both[0], &both[1]) };
    let active = if v.is("experts_without_silu") { gate.clone() } else { nn::silu(gate)? };
    let mut inner = active.multiply(up)?;
    if v.is("weighted_inside") {
        // Weights of the output that also go through the second product.
        inner = inner.multiply(weights.expand_dims(-1)?)?;
    }
    let each = layer.down_proj.take_axis(&ids, 0)?.matmul(inner)?.squeeze_axes(&[3])?;
    let each = if v.is("weights_left_out") { each } else { each.multiply(weights)? };
    if v.is("first_expert_only") { each.try_index((.., 0)) } else { each.sum_axis(1, false) }
}
