//! How Qwen3 is run as twins: greedy decoding, and the same in other ways.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::module::Module;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{concatenate, dequantize};
use mlx_rs::transforms::compile::compile;
use mlx_rs::{Array, array, nn};
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
    ("chunked", |model, prompt, _| chunked(model, prompt, 4, |_| Ok(()))),
    ("alone", |model, prompt, steps| generate(model, &prompt.try_index((..1, ..))?, steps)),
    ("reversed", |model, prompt, steps| {
        let rows = [prompt.try_index((1.., ..))?, prompt.try_index((..1, ..))?];
        generate(model, &concatenate(&rows, 0)?, steps)
    }),
    ("padded", |model, prompt, _| {
        first_step(model, &concatenate(&[prompt.try_index((..1, ..))?, pads()], 1)?)
    }),
    ("padded_left", |model, prompt, steps| {
        let mut cache = model.new_padded_cache(&PADDING);
        model.generate_with(&beside_longer(prompt, &pads())?, &mut cache, steps).map(drop)
    }),
    ("compiled", |model, prompt, steps| {
        let norm = model.model.norm.clone();
        compiled(model, prompt, steps, norm, |positions, _| Ok(positions.clone()))
    }),
    ("quantized", |model, prompt, _| {
        quantize(model, 8)?;
        first_step(model, prompt)
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

/// The prompt in two chunks, the first of this length. `between` is what happens to the cache after it.
pub(crate) fn chunked(
    model: &mut Qwen3,
    prompt: &Array,
    first: i32,
    between: fn(&mut Vec<KvCache>) -> Result<(), Exception>,
) -> Result<(), Exception> {
    let _scope = scope("step", 0);
    let mut cache = model.new_cache();
    model.forward(&prompt.try_index((.., ..first))?, &mut cache)?;
    between(&mut cache)?;
    model.forward(&prompt.try_index((.., first..))?, &mut cache).map(drop)
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

/// How many tokens of padding the sequences of [`beside_longer`] have.
pub(crate) const PADDING: [i32; 2] = [2, 0];

/// The first sequence of the prompt behind two tokens of padding, and a second one that is two tokens longer.
pub(crate) fn beside_longer(prompt: &Array, pads: &Array) -> Result<Array, Exception> {
    let first = concatenate(&[pads, &prompt.try_index((..1, ..))?], 1)?;
    let second = concatenate(&[prompt.try_index((1.., ..))?, prompt.try_index((1.., ..2))?], 1)?;
    concatenate(&[first, second], 0)
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

/// Decodes greedily, with tables `[batch, tokens, dim]` of a step's slots and with logits of features that the caller computes.
pub(crate) fn decode(
    model: &mut Qwen3,
    mut tokens: Array,
    cache: &mut [KvCache],
    steps: usize,
    mut tables: impl FnMut(usize, Range<i32>) -> Result<(Array, Array), Exception>,
    mut logits: impl FnMut(&Array) -> Result<Array, Exception>,
) -> Result<(), Exception> {
    for step in 0..steps {
        let _scope = scope("step", step);
        let start = cache.first().map_or(0, KvCache::len);
        let mut x = tap("embed_tokens", model.model.embed_tokens.forward(&tokens)?)?;
        let (cos, sin) = tables(step, start..start + tokens.dim(1))?;
        let tables = (tap("rope.cos", cos)?.expand_dims(1)?, tap("rope.sin", sin)?.expand_dims(1)?);
        for (i, (layer, cache)) in model.model.layers.iter_mut().zip(&mut *cache).enumerate() {
            let _scope = scope("layers", i);
            x = layer.forward(&x, &tables, cache)?;
        }
        tokens = choose(&tap("lm_head", logits(&x)?)?)?.token.expand_dims(1)?;
    }
    Ok(())
}

/// The last norm and the head.
pub(crate) fn head(
    model: &Qwen3,
    mut norm: nn::RmsNorm,
) -> Result<impl FnMut(&Array) -> Result<Array, Exception> + use<>, Exception> {
    let mut head = model.lm_head.clone().ok_or_else(|| Exception::custom("the head is not tied"))?;
    Ok(move |x: &Array| head.forward(&tap("norm", norm.forward(x)?)?))
}

/// Decodes with two compiled functions: one for the angles of rotary positions, and one for this norm and the head.
///
/// The first has the positions `[tokens, 1]` as its input. `positions` returns those with which it computes, and also sees the cell
/// with the first of them.
pub(crate) fn compiled(
    model: &mut Qwen3,
    prompt: &Array,
    steps: usize,
    norm: nn::RmsNorm,
    positions: fn(&Array, &Cell<i32>) -> Result<Array, Exception>,
) -> Result<(), Exception> {
    let first = Rc::new(Cell::new(0));
    let (frequencies, seen) = (model.model.rope.frequencies(), Rc::clone(&first));
    let mut angles = compile(move |slots: &Array| positions(slots, &seen)?.multiply(&frequencies), None);
    let tables = move |_, slots: Range<i32>| {
        first.set(slots.start);
        let length = slots.len() as i32;
        let half = angles(&Array::from_iter(slots.map(|slot| slot as f32), &[length, 1]))?;
        let whole = concatenate(&[&half, &half], -1)?.expand_dims(0)?;
        Ok((whole.cos()?, whole.sin()?))
    };
    let logits = compile(head(model, norm)?, None);
    let mut cache = model.new_cache();
    decode(model, prompt.clone(), &mut cache, steps, tables, logits)
}

/// Rounds weights as if they had so few bits, but not those of the MLP's last layer, whose rows are no multiple of a group.
pub(crate) fn quantize(model: &mut Qwen3, bits: i32) -> Result<(), Exception> {
    let layers = model.model.layers.iter_mut().flat_map(|layer| {
        let (attention, mlp) = (&mut layer.self_attn, &mut layer.mlp);
        let [q, k, v] = [&mut attention.q_proj, &mut attention.k_proj, &mut attention.v_proj];
        [q, k, v, &mut attention.o_proj, &mut mlp.gate_proj, &mut mlp.up_proj]
    });
    for layer in layers.chain(&mut model.lm_head) {
        let packed = nn::QuantizedLinear::try_from_linear(layer.clone(), 32, bits)?;
        let (scales, biases) = (&*packed.scales, &*packed.biases);
        layer.weight.value =
            dequantize(&*packed.inner.weight, scales, biases, packed.group_size, packed.bits)?;
    }
    Ok(())
}
