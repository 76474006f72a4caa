//! Faults in what a port chooses: experts and tokens.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::ops::indexing::{TryIndexOp, argmax_axis};
use mlx_rs::ops::{argsort_axis, concatenate};
use mlx_rs::{Array, Dtype};
use parity_tests::qwen3::{Config, Qwen3};
use parity_tests::routing::Mixture;

use crate::at_tap::{TapFault, add_faults};
use crate::change::{backwards, plus, times};

const STEPS: usize = 6;

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = add_faults(suite, "routing::topk", route, ROUTING).port("routing::topk", route);
    add_faults(suite, "qwen3::greedy", generate, GREEDY)
        .port("qwen3::greedy", generate)
        // The first token of the prompt decides, not the last.
        .port("qwen3::greedy/first_position_chosen", |run| {
            let mut model = loaded(run)?;
            let mut cache = model.new_cache();
            let mut logits = tap("prompt.logits", model.forward(&run.input("input_ids")?, &mut cache)?)?;
            for step in 0..STEPS {
                let _scope = scope("step", step);
                let first = tap("logits", logits.try_index((.., 0, ..))?)?;
                let token = tap("token", argmax_axis(&first, -1, false)?.as_dtype(Dtype::Int32)?)?;
                logits = model.forward(&token.expand_dims(1)?, &mut cache)?;
            }
            Ok(())
        })
}

/// Other ways to run the router: the tokens in two chunks, and one that confuses experts.
pub(crate) fn twins(suite: Suite) -> Suite {
    let chunks = |run: &Run, by: i32| -> PortResult {
        let mut mixture = Mixture::new(run.params()?)?;
        run.weights()?.load_into(&mut mixture)?;
        let x = run.input("x")?;
        if by != 0 {
            run.plant_fault("experts", move |x| x.add(Array::from_int(by)));
        }
        for rows in [0..5, 5..12] {
            mixture.forward(&x.try_index(rows)?)?;
        }
        Ok(())
    };
    // Writes a text, as a tokenizer or a chat template does.
    let suite = suite.port("says", |_| {
        let text = std::env::var("BAD_PORTS_TEXT")?;
        tap("prompt", Array::from_slice(text.as_bytes(), &[text.len() as i32]))?;
        Ok(())
    });
    suite.twin("routing::topk", "chunked", move |run| chunks(run, 0)).twin(
        "routing::topk",
        "confused",
        move |run| chunks(run, 1),
    )
}

const ROUTING: &[TapFault] = &[
    // No fault at all: the third expert of token 0 in place of the second, which is tied with it.
    ("tied_expert", "experts", &["probs"], |x, from| {
        let order = argsort_axis(from[0].negative()?, -1)?.as_dtype(Dtype::Int32)?;
        let tied = concatenate(&[&order.try_index((..1, ..1))?, &order.try_index((..1, 2..3))?], -1)?;
        concatenate(&[&tied, &x.try_index(1..)?], 0)
    }),
    ("router_temperature", "logits", &[], |x, _| times(x, 0.5)),
    // Experts are counted from one in some published routing tables.
    ("experts_from_one", "experts", &[], |x, _| x.add(Array::from_int(1))),
    ("least_probable", "experts", &["probs"], |_, from| first_two(&argsort_axis(&from[0], -1)?)),
    // The best tokens of each expert, not the best experts of each token.
    ("best_over_tokens", "experts", &["probs"], |_, from| first_two(&argsort_axis(from[0].negative()?, 0)?)),
    ("one_expert_twice", "experts", &[], |x, _| {
        let best = x.try_index((.., ..1))?;
        concatenate(&[&best, &best], -1)
    }),
    ("not_renormalised", "expert_weights", &["probs", "experts"], |_, from| {
        from[0].take_along_axis(&from[1], -1)
    }),
    // Weights in the order of the experts' numbers, experts in the order of their probabilities.
    ("weights_of_the_other_expert", "expert_weights", &[], |x, _| backwards(x, -1)),
];

const GREEDY: &[TapFault] = &[
    // No fault at all: the next token of the vocabulary is tied with the first one that is chosen.
    ("tied_token", "step.0.token", &[], |x, _| x.add(Array::from_slice(&[1, 0], &[2]))),
    // A setting of sampling, which greedy decoding does not have.
    ("temperature", "prompt.logits", &[], |x, _| times(x, 1.0 / 0.7)),
    ("not_the_best", "step.2.token", &["step.2.logits"], |_, from| {
        argsort_axis(from[0].negative()?, -1)?.try_index((.., 3))?.as_dtype(Dtype::Int32)
    }),
    ("token_one_before", "step.3.token", &[], |x, _| x.subtract(Array::from_int(1))),
    ("best_over_batch", "step.0.token", &["step.0.logits"], |_, from| {
        argmax_axis(&from[0], 0, false)?.as_dtype(Dtype::Int32)
    }),
    // One token is suppressed, as a list of bad words does.
    ("suppressed", "step.1.logits", &[], |x, _| {
        let best = argmax_axis(x, -1, true)?;
        let all = Array::from_iter(0..x.dim(-1), &[1, x.dim(-1)]);
        mlx_rs::ops::select(&all.eq(&best)?, &plus(x, -100.0)?, x)
    }),
];

fn first_two(x: &Array) -> Result<Array, mlx_rs::error::Exception> {
    x.try_index((.., ..2))?.as_dtype(Dtype::Int32)
}

fn route(run: &Run) -> PortResult {
    let mut mixture = Mixture::new(run.params()?)?;
    run.weights()?.load_into(&mut mixture)?;
    mixture.forward(&run.input("x")?)?;
    Ok(())
}

fn loaded(run: &Run) -> Result<Qwen3, Box<dyn std::error::Error + Send + Sync>> {
    let config: Config = run.params()?;
    let mut model = Qwen3::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    Ok(model)
}

fn generate(run: &Run) -> PortResult {
    loaded(run)?.greedy(&run.input("input_ids")?, STEPS)?;
    Ok(())
}
