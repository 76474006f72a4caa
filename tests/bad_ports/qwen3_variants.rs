//! Mistakes on the ways to run Qwen3 that its twins take, and rewrites of these ways that are right.

#[path = "../parity/qwen3_variants.rs"]
mod ways;

use mlx_parity::Suite;
use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{concatenate, ones_like};
use mlx_rs::{Array, Dtype, array};
use parity_tests::qwen3::{KvCache, Qwen3};

use ways::{
    PADDING, Way, beside_longer, chunked, compiled, decode, first_step, head, pads, quantize, speculative,
    with_ways,
};

/// The twin, its mistake or rewrite, and the way that makes it.
const CHANGES: &[(&str, &str, Way)] = &[
    ("padded", "padded_left", |model, prompt, _| {
        first_step(model, &concatenate(&[pads(), prompt.try_index((..1, ..))?], 1)?)
    }),
    // Positions and mask of the second chunk start at 0.
    ("chunked", "cache_lost_between_chunks", |model, prompt, _| {
        chunked(model, prompt, 4, |cache| {
            cache.fill(KvCache::default());
            Ok(())
        })
    }),
    // The cache of the second layer is a token short.
    ("chunked", "last_layer_trimmed", |model, prompt, _| {
        chunked(model, prompt, 4, |cache| cache.last_mut().map_or(Ok(()), |last| last.truncate(3)))
    }),
    ("speculative", "rejected_guess_stays", |model, prompt, steps| {
        speculative(model, prompt, steps, |_, _| Ok(()))
    }),
    ("speculative", "trimmed_too_far", |model, prompt, steps| {
        speculative(model, prompt, steps, |cache, length| cache.truncate(length - 1))
    }),
    // Attention sees only differences of positions, so that the output stays right, but not the tables.
    ("padded_left", "positions_count_padding", |model, prompt, steps| {
        padded_left(model, prompt, steps, |_| [0, 0], PADDING)
    }),
    ("padded_left", "padding_seen", |model, prompt, steps| {
        padded_left(model, prompt, steps, |_| PADDING, [0, 0])
    }),
    ("padded_left", "next_position_counts_padding", |model, prompt, steps| {
        padded_left(model, prompt, steps, |step| if step == 0 { PADDING } else { [0, 0] }, PADDING)
    }),
    ("padded_left", "padding_exchanged", |model, prompt, steps| {
        padded_left(model, prompt, steps, |_| [0, 2], [0, 2])
    }),
    ("padded_left", "other_padding", |model, prompt, steps| {
        let mut cache = model.new_padded_cache(&PADDING);
        model.generate_with(&beside_longer(prompt, &array!([[7, 11]]))?, &mut cache, steps).map(drop)
    }),
    ("padded", "other_padding_behind", |model, prompt, _| {
        first_step(model, &concatenate(&[prompt.try_index((..1, ..))?, array!([[7, 11]])], 1)?)
    }),
    ("chunked", "short_chunk_first", |model, prompt, _| chunked(model, prompt, 1, |_| Ok(()))),
    // The function was traced with the positions of the first step after the prompt.
    ("compiled", "position_captured", |model, prompt, steps| {
        let norm = model.model.norm.clone();
        compiled(model, prompt, steps, norm, |slots, first| {
            let start = Array::from_f32(first.get() as f32);
            slots.subtract(slots.try_index((..1, ..))?)?.add(start)
        })
    }),
    ("compiled", "compiled_before_loading", |model, prompt, steps| {
        let mut norm = model.model.norm.clone();
        norm.weight.value = ones_like(&*norm.weight)?;
        compiled(model, prompt, steps, norm, |positions, _| Ok(positions.clone()))
    }),
    ("quantized", "not_quantized", |model, prompt, _| first_step(model, prompt)),
    ("quantized", "four_bits", |model, prompt, _| {
        quantize(model, 4)?;
        first_step(model, prompt)
    }),
    ("reversed", "batch_not_reversed", |model, prompt, steps| model.generate(prompt, steps).map(drop)),
];

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = ways::ports(suite);
    CHANGES.iter().fold(suite, |suite, &(twin, fault, way)| {
        with_ways(suite, &format!("qwen3::variants/{fault}"), Some((twin, way)))
    })
}

/// Decodes [`beside_longer`] with the positions of one padding per step and the mask of another.
fn padded_left(
    model: &mut Qwen3,
    prompt: &Array,
    steps: usize,
    of_positions: fn(usize) -> [i32; 2],
    of_mask: [i32; 2],
) -> Result<(), Exception> {
    let (rope, norm) = (model.model.rope.clone(), model.model.norm.clone());
    let tables = |step, slots| rope.padded_tables(slots, &of_positions(step), Dtype::Float32);
    let logits = head(model, norm)?;
    let mut cache = model.new_padded_cache(&of_mask);
    decode(model, beside_longer(prompt, &pads())?, &mut cache, steps, tables, logits)
}
