//! How Qwen2-MoE is run, and its twins.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::scope;
use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::ops::concatenate;
use mlx_rs::ops::indexing::TryIndexOp;
use parity_tests::cache::{Cache, FullCache};
use parity_tests::qwen2_moe::{Config, Qwen2Moe, tap_caches};
use parity_tests::qwen3::choose;
use serde::Deserialize;

const PORT: &str = "qwen2_moe::decoder";

/// The parameters of the spec beside the model's configuration.
#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

pub(crate) fn ports(suite: Suite) -> Suite {
    with_trim(suite, PORT, FullCache::truncate)
}

/// Registers the model with its twins as `port`. `trim` takes a rejected token out of a cache again.
pub(crate) fn with_trim(
    suite: Suite,
    port: &str,
    trim: fn(&mut FullCache, i32) -> Result<(), Exception>,
) -> Suite {
    suite
        .port(port, |run| with(run, |_| {}))
        .twin(port, "speculative", move |run| speculative(run, trim))
        .twin(port, "reversed", |run| {
            let (mut model, prompt, steps) = loaded(run)?;
            let rows = [prompt.try_index((1.., ..))?, prompt.try_index((..1, ..))?];
            Ok(model.generate(&concatenate(&rows, 0)?, steps)?)
        })
}

/// The model, the prompt and the number of steps.
pub(crate) fn loaded(
    run: &Run,
) -> Result<(Qwen2Moe, Array, usize), Box<dyn std::error::Error + Send + Sync>> {
    let Params { steps, config } = run.params()?;
    let mut model = Qwen2Moe::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    Ok((model, run.input("input_ids")?, steps))
}

/// Decoding with these changes to the loaded model.
pub(crate) fn with(run: &Run, change: impl FnOnce(&mut Qwen2Moe)) -> PortResult {
    let (mut model, prompt, steps) = loaded(run)?;
    change(&mut model);
    Ok(model.generate(&prompt, steps)?)
}

/// Each step also gets a guess of its own result, which is always rejected.
fn speculative(run: &Run, trim: fn(&mut FullCache, i32) -> Result<(), Exception>) -> PortResult {
    let (mut model, prompt, steps) = loaded(run)?;
    let mut cache = model.new_cache();
    let mut tokens = prompt.clone();
    for step in 0..steps {
        let _scope = scope("step", step);
        let length = cache.first().map_or(0, FullCache::seen) + tokens.dim(1);
        let guess = tokens.try_index((.., -1..))?;
        let logits = model.forward(&concatenate(&[&tokens, &guess], 1)?, &mut cache)?;
        let token = choose(&logits.try_index((.., ..-1, ..))?)?.token;
        tokens = token.expand_dims(1)?.as_dtype(prompt.dtype())?;
        cache.iter_mut().try_for_each(|cache| trim(cache, length))?;
        tap_caches(&mut cache)?;
    }
    Ok(())
}
