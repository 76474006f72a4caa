//! Variants of a router, and of greedy decoding.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::ops::indexing::{TryIndexOp, argmax_axis};
use mlx_rs::ops::{argsort_axis, concatenate, select, sigmoid, softmax_axis};
use mlx_rs::{Array, Dtype};
use parity_tests::qwen3::{Config, Qwen3};
use parity_tests::routing::{Mixture, most_probable};
use serde::Deserialize;

use super::ops::Computed;
use super::{Variant, add};
use crate::change::{backwards, times};

const ROUTING: &[&str] = &[
    "sigmoid_scores",
    "chosen_by_magnitude",
    "groups_of_experts",
    "softmax_over_chosen_probs",
    "weights_by_position",
    "experts_unweighted",
    // Rewrites.
    "softmax_of_chosen_logits",
    "least_probable_first",
    "tied_expert",
];

const GREEDY: &[&str] = &[
    "repetition_penalty",
    "special_tokens_masked",
    "sharpened",
    "third_best",
    // Rewrites.
    "tied_token",
    "logits_shifted",
];

pub(super) fn ports(suite: Suite) -> Suite {
    let suite = add(suite, "routing::topk", ROUTING, route);
    add(suite, "qwen3::greedy", GREEDY, generate)
}

fn route(run: &Run, v: &Variant) -> PortResult {
    let mut mixture = Mixture::new(run.params()?)?;
    run.weights()?.load_into(&mut mixture)?;
    let x = &run.input("x")?;
    let k = mixture.k;

    let logits = tap("logits", mlx_rs::module::Module::forward(&mut mixture.gate, x)?)?;
    let probs = if v.is("sigmoid_scores") { sigmoid(&logits)? } else { softmax_axis(&logits, -1, true)? };
    let probs = &tap("probs", probs)?;

    let experts = if v.is("chosen_by_magnitude") {
        most_probable(&logits.abs()?, k)?
    } else if v.is("groups_of_experts") {
        // The best expert of each half, as in models that limit a token to groups.
        let halves = probs.split_equal(2, -1)?;
        let best = |half: &Array| argmax_axis(half, -1, true)?.as_dtype(Dtype::Int32);
        concatenate(&[&best(&halves[0])?, &best(&halves[1])?.add(Array::from_int(4))?], -1)?
    } else if v.is("least_probable_first") {
        backwards(&most_probable(probs, k)?, -1)?
    } else if v.is("tied_expert") {
        // The third expert in place of the second, where both are equally probable.
        let three = most_probable(probs, k + 1)?;
        let near = probs.take_along_axis(&three, -1)?;
        let apart = near.try_index((.., 1..2))?.subtract(near.try_index((.., 2..3))?)?;
        let tied = apart.lt(Array::from_f32(1e-6))?;
        let second = select(&tied, &three.try_index((.., 2..3))?, &three.try_index((.., 1..2))?)?;
        concatenate(&[&three.try_index((.., ..1))?, &second], -1)?
    } else {
        most_probable(probs, k)?
    };
    let experts = &tap("experts", experts)?;

    let chosen = probs.take_along_axis(experts, -1)?;
    let weights = if v.is("softmax_over_chosen_probs") {
        softmax_axis(&chosen, -1, true)?
    } else if v.is("weights_by_position") {
        // The first probabilities of each row, whichever experts were chosen.
        let first = probs.try_index((.., ..k))?;
        first.divide(first.sum_axis(-1, true)?)?
    } else if v.is("softmax_of_chosen_logits") {
        softmax_axis(logits.take_along_axis(experts, -1)?, -1, true)?
    } else {
        chosen.divide(chosen.sum_axis(-1, true)?)?
    };
    let weights = &tap("expert_weights", weights)?;
    let even = if v.is("experts_unweighted") { Some(weights.divide(weights)?) } else { None };
    tap("out", mixture.sum(x, experts, even.as_ref().unwrap_or(weights))?)?;
    Ok(())
}

#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

fn generate(run: &Run, v: &Variant) -> PortResult {
    let Params { steps, config } = run.params()?;
    let mut model = Qwen3::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    let mut cache = model.new_cache();
    let mut tokens = run.input("input_ids")?;
    let mut logits = tap("prompt.logits", shifted(model.forward(&tokens, &mut cache)?, v)?)?;
    for step in 0..steps {
        let _scope = scope("step", step);
        let mut last = logits.try_index((.., -1, ..))?;
        let vocabulary = last.dim(-1);
        if v.is("repetition_penalty") {
            // Tokens that were read or written before are less likely.
            let seen = tokens.expand_dims(-1)?.eq(Array::from_iter(0..vocabulary, &[1, 1, vocabulary]))?;
            last = select(seen.any_axis(1, false)?, &times(&last, 0.9)?, &last)?;
        }
        if v.is("special_tokens_masked") {
            let ids = Array::from_iter(0..vocabulary, &[1, vocabulary]);
            last = select(ids.lt(Array::from_int(24))?, Array::from_f32(-1e4), &last)?;
        }
        let last =
            tap("logits", if v.is("sharpened") { last.multiply(Array::from_f32(1.001))? } else { last })?;
        let token = if v.is("tied_token") || v.is("third_best") {
            // The last of equal logits.
            let order = argsort_axis(backwards(&last, -1)?.negative()?, -1)?;
            let place = if v.is("third_best") { 2 } else { 0 };
            Array::from_int(vocabulary - 1).subtract(order.try_index((.., place))?.as_dtype(Dtype::Int32)?)?
        } else {
            argmax_axis(&last, -1, false)?.as_dtype(Dtype::Int32)?
        };
        let token = tap("token", token)?.expand_dims(1)?;
        if step + 1 < steps {
            logits = shifted(model.forward(&token, &mut cache)?, v)?;
        }
        tokens = concatenate(&[&tokens, &token], 1)?;
    }
    Ok(())
}

/// All logits of a row plus the same number, which changes no probability.
fn shifted(logits: Array, v: &Variant) -> Computed {
    if v.is("logits_shifted") { logits.subtract(logits.max_axis(-1, true)?) } else { Ok(logits) }
}
