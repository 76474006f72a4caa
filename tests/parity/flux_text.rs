//! How the text encoders of Flux are run.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::Array;
use mlx_rs::error::Exception;
use parity_tests::flux::{clip, t5};
use serde::Deserialize;

pub(crate) fn ports(suite: Suite) -> Suite {
    suite
        .port("flux::clip", |run| clip(run, |_| {}, |encoder, ids| Ok(encoder.forward(ids)?.0)))
        .port("flux::t5", |run| t5(run, |_, _| {}, |encoder, ids, mask| encoder.forward(ids, Some(mask))))
}

/// Runs CLIP through `forward` after `prepare`, pooled as its own config and as older configs require.
pub(crate) fn clip(
    run: &Run,
    prepare: impl Fn(&mut clip::Config),
    forward: impl Fn(&mut clip::Encoder, &Array) -> Result<Array, Exception>,
) -> PortResult {
    let mut config = run.params()?;
    prepare(&mut config);
    let mut encoder = clip::Encoder::new(config)?;
    run.weights()?.load_into(&mut encoder)?;

    let ids = clip::batch(&pieces(run)?, &config)?;
    let x = forward(&mut encoder, &ids)?;
    let _scope = scope("legacy", None);
    encoder.eos_token_id = 2;
    encoder.pool(&ids, &x)?;
    Ok(())
}

#[derive(Deserialize)]
struct T5Params {
    max_length: usize,
    #[serde(flatten)]
    config: t5::Config,
}

/// Runs T5, with its mask and without it, through `forward` after `prepare`.
pub(crate) fn t5(
    run: &Run,
    prepare: impl Fn(&mut t5::Config, &mut Vec<Vec<i32>>),
    forward: impl Fn(&mut t5::Encoder, &Array, &Array) -> Result<Array, Exception>,
) -> PortResult {
    let T5Params { max_length, mut config } = run.params()?;
    let mut prompts = pieces(run)?;
    prepare(&mut config, &mut prompts);
    let mut encoder = t5::Encoder::new(config)?;
    run.weights()?.load_into(&mut encoder)?;

    let (ids, mask) = t5::batch(&prompts, max_length)?;
    forward(&mut encoder, &ids, &mask)?;
    {
        let _scope = scope("unmasked", None);
        encoder.forward(&ids, None)?;
    }
    let far: Vec<i32> = (-160..=160).map(|offset| config.bucket(offset)).collect();
    tap("far_buckets", Array::from_slice(&far, &[far.len() as i32]))?;
    Ok(())
}

/// The tokens of both prompts, before marks and padding.
fn pieces(run: &Run) -> Result<Vec<Vec<i32>>, Box<dyn std::error::Error + Send + Sync>> {
    ["prompt.0", "prompt.1"].iter().map(|name| Ok(run.input(name)?.to_vec_exact()?)).collect()
}
