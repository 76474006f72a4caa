//! How Qwen3 is run as twins: greedy decoding, and the same in other ways.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::scope;
use mlx_rs::error::Exception;
use mlx_rs::ops::concatenate;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, array};
use parity_tests::qwen3::{Config, KvCache, Qwen3, choose};
use serde::Deserialize;

const PORT: &str = "qwen3::variants";

/// The parameters of the spec beside the model's configuration.
#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

/// What a way to run the model gets: the model, the prompt `[2, 6]`, and the number of steps.
pub(crate) type Way = fn(&mut Qwen3, &Array, usize) -> Result<(), Exception>;

pub(crate) fn ports(suite: Suite) -> Suite {
    with_ways(suite, PORT, None)
}

/// Every way to run the model, by the name of its twin.
const WAYS: &[(&str, Way)] = &[
    ("again", generate),
    ("recomputed", recomputed),
    ("chunked", |model, prompt, _| chunked(model, prompt, |_| Ok(()))),
    ("alone", |model, prompt, steps| generate(model, &prompt.try_index((..1, ..))?, steps)),
    ("reversed", |model, prompt, steps| {
        let rows = [prompt.try_index((1.., ..))?, prompt.try_index((..1, ..))?];
        generate(model, &concatenate(&rows, 0)?, steps)
    }),
    ("padded", |model, prompt, _| {
        first_step(model, &concatenate(&[prompt.try_index((..1, ..))?, pads()], 1)?)
    }),
    ("speculative", |model, prompt, steps| speculative(model, prompt, steps, KvCache::truncate)),
];

/// Registers the model with all its twins as `port`, one of them in another way.
pub(crate) fn with_ways(suite: Suite, port: &str, other: Option<(&'static str, Way)>) -> Suite {
    let suite = suite.port(port, |run| run_as(run, generate));
    WAYS.iter().fold(suite, |suite, &(name, way)| {
        let way = other.filter(|(changed, _)| *changed == name).map_or(way, |(_, way)| way);
        suite.twin(port, name, move |run| run_as(run, way))
    })
}

fn run_as(run: &Run, way: Way) -> PortResult {
    let Params { steps, config } = run.params()?;
    let mut model = Qwen3::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    Ok(way(&mut model, &run.input("input_ids")?, steps)?)
}

fn generate(model: &mut Qwen3, prompt: &Array, steps: usize) -> Result<(), Exception> {
    model.generate(prompt, steps).map(drop)
}

/// Each step computes the whole sequence again, without a cache.
fn recomputed(model: &mut Qwen3, prompt: &Array, steps: usize) -> Result<(), Exception> {
    let mut tokens = prompt.clone();
    for step in 0..steps {
        let _scope = scope("step", step);
        let mut cache = model.new_cache();
        let token = choose(&model.forward(&tokens, &mut cache)?)?.token;
        tokens = concatenate(&[tokens, token.expand_dims(1)?.as_dtype(prompt.dtype())?], 1)?;
    }
    Ok(())
}

/// The prompt in two chunks. `between` is what happens to the cache after the first.
pub(crate) fn chunked(
    model: &mut Qwen3,
    prompt: &Array,
    between: fn(&mut Vec<KvCache>) -> Result<(), Exception>,
) -> Result<(), Exception> {
    let _scope = scope("step", 0);
    let mut cache = model.new_cache();
    model.forward(&prompt.try_index((.., ..4))?, &mut cache)?;
    between(&mut cache)?;
    model.forward(&prompt.try_index((.., 4..))?, &mut cache).map(drop)
}

/// The first step alone, on these tokens.
pub(crate) fn first_step(model: &mut Qwen3, tokens: &Array) -> Result<(), Exception> {
    let _scope = scope("step", 0);
    let mut cache = model.new_cache();
    model.forward(tokens, &mut cache).map(drop)
}

/// Two tokens of padding.
pub(crate) fn pads() -> Array {
    array!([[0, 0]])
}

/// Each step also gets a guess of its own result, which is always rejected: `trim` takes it out of a cache again.
pub(crate) fn speculative(
    model: &mut Qwen3,
    prompt: &Array,
    steps: usize,
    trim: fn(&mut KvCache, i32) -> Result<(), Exception>,
) -> Result<(), Exception> {
    let mut cache = model.new_cache();
    let mut tokens = prompt.clone();
    for step in 0..steps {
        let _scope = scope("step", step);
        let length = cache.first().map_or(0, KvCache::len) + tokens.dim(1);
        let guess = tokens.try_index((.., -1..))?;
        let logits = model.forward(&concatenate(&[&tokens, &guess], 1)?, &mut cache)?;
        tokens =
            choose(&logits.try_index((.., ..-1, ..))?)?.token.expand_dims(1)?.as_dtype(prompt.dtype())?;
        cache.iter_mut().try_for_each(|cache| trim(cache, length))?;
    }
    Ok(())
}
