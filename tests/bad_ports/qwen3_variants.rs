//! Mistakes on the ways to run Qwen3 that its twins take.

#[path = "../parity/qwen3_variants.rs"]
mod ways;

use mlx_parity::Suite;
use mlx_rs::ops::concatenate;
use mlx_rs::ops::indexing::TryIndexOp;
use parity_tests::qwen3::KvCache;

use ways::{Way, chunked, first_step, pads, speculative, with_ways};

/// The twin, its mistake, and the way that makes it.
const FAULTS: &[(&str, &str, Way)] = &[
    ("padded", "padded_left", |model, prompt, _| {
        first_step(model, &concatenate(&[pads(), prompt.try_index((..1, ..))?], 1)?)
    }),
    // Positions and mask of the second chunk start at 0.
    ("chunked", "cache_lost_between_chunks", |model, prompt, _| {
        chunked(model, prompt, |cache| {
            cache.fill(KvCache::default());
            Ok(())
        })
    }),
    // The cache of the second layer is a token short.
    ("chunked", "last_layer_trimmed", |model, prompt, _| {
        chunked(model, prompt, |cache| cache.last_mut().map_or(Ok(()), |last| last.truncate(3)))
    }),
    ("speculative", "rejected_guess_stays", |model, prompt, steps| {
        speculative(model, prompt, steps, |_, _| Ok(()))
    }),
    ("speculative", "trimmed_too_far", |model, prompt, steps| {
        speculative(model, prompt, steps, |cache, length| cache.truncate(length - 1))
    }),
    ("reversed", "batch_not_reversed", |model, prompt, steps| model.generate(prompt, steps).map(drop)),
];

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = ways::ports(suite);
    FAULTS.iter().fold(suite, |suite, &(twin, fault, way)| {
        with_ways(suite, &format!("qwen3::variants/{fault}"), Some((twin, way)))
    })
}
