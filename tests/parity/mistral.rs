//! How Mistral is run: with the cache that rotates, and as twins.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::scope;
use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::ops::concatenate;
use mlx_rs::ops::indexing::TryIndexOp;
use parity_tests::cache::{Cache, State};
use parity_tests::mistral::{Config, Mistral};
use parity_tests::qwen3::choose;
use serde::Deserialize;

const PORT: &str = "mistral::rotating";

/// The parameters of the spec beside the model's configuration.
#[derive(Deserialize)]
struct Params {
    steps: usize,
    #[serde(flatten)]
    config: Config,
}

/// Makes the cache of one layer with this window.
pub(crate) type NewCache = fn(i32) -> Box<dyn Cache>;

pub(crate) fn ports(suite: Suite) -> Suite {
    suite
        .port(PORT, |run| {
            let (mut model, prompt, steps) = loaded(run)?;
            let mut cache = model.new_cache();
            Ok(model.generate(&prompt, steps, &mut cache)?)
        })
        .twin(PORT, "in_order", |run| with_cache(run, |window| Box::new(InOrder::new(window))))
        .twin(PORT, "chunked", |run| chunked(run, 5))
        .twin(PORT, "recomputed", recomputed)
}

/// The model, the prompt and the number of steps.
pub(crate) fn loaded(run: &Run) -> Result<(Mistral, Array, usize), Box<dyn std::error::Error + Send + Sync>> {
    let Params { steps, config } = run.params()?;
    let mut model = Mistral::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    Ok((model, run.input("input_ids")?, steps))
}

/// Decoding with other caches.
pub(crate) fn with_cache(run: &Run, new: NewCache) -> PortResult {
    let (mut model, prompt, steps) = loaded(run)?;
    let window = |layer: usize| model.model.layers[layer].self_attn.sizes.window.unwrap_or(i32::MAX);
    let mut cache: Vec<Box<dyn Cache>> =
        (0..model.model.layers.len()).map(|layer| new(window(layer))).collect();
    Ok(model.generate(&prompt, steps, &mut cache)?)
}

/// The prompt in two chunks, the first of this length, and then decoding as before.
fn chunked(run: &Run, first: i32) -> PortResult {
    let (mut model, prompt, steps) = loaded(run)?;
    let mut cache = model.new_cache();
    let mut tokens = prompt.try_index((.., first..))?;
    for step in 0..steps {
        let _scope = scope("step", step);
        if step == 0 {
            model.forward(&prompt.try_index((.., ..first))?, &mut cache)?;
        }
        tokens = choose(&model.forward(&tokens, &mut cache)?)?.token.expand_dims(1)?;
    }
    Ok(())
}

/// Each step computes the whole sequence again, with an empty cache.
fn recomputed(run: &Run) -> PortResult {
    let (mut model, mut tokens, steps) = loaded(run)?;
    for step in 0..steps {
        let _scope = scope("step", step);
        let mut cache = model.new_cache();
        let token = choose(&model.forward(&tokens, &mut cache)?)?.token;
        tokens = concatenate(&[&tokens, &token.expand_dims(1)?.as_dtype(tokens.dtype())?], 1)?;
    }
    Ok(())
}

/// A cache of the last tokens in the order of the sequence: it moves all of them for each new one.
#[derive(Debug)]
struct InOrder {
    window: i32,
    seen: i32,
    state: Option<State>,
}

impl InOrder {
    fn new(window: i32) -> Self {
        Self { window, seen: 0, state: None }
    }
}

impl Cache for InOrder {
    fn seen(&self) -> i32 {
        self.seen
    }

    fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    fn update(&mut self, new: State) -> Result<(), Exception> {
        self.seen += new.keys.dim(2);
        let all = match self.state.take() {
            Some(state) => state.followed_by(&new)?,
            None => new,
        };
        let slots = all.keys.dim(2);
        let last: Vec<i32> = ((slots - self.window).max(0)..slots).collect();
        self.state = Some(all.taken(&last)?.tapped()?);
        Ok(())
    }
}
