//! How the text encoders of Flux are run.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::Array;
use mlx_rs::error::Exception;
use parity_tests::flux::t5;
use serde::Deserialize;

pub(crate) fn ports(suite: Suite) -> Suite {
    suite.port("flux::t5", |run| t5(run, |_, _| {}, |encoder, ids, mask| encoder.forward(ids, Some(mask))))
}

#[derive(Deserialize)]
struct Params<C> {
    prompts: Vec<String>,
    max_length: usize,
    #[serde(flatten)]
    config: C,
}

/// Runs T5, with and without its mask, after `prepare` and with the given way of running it.
pub(crate) fn t5(
    run: &Run,
    prepare: impl Fn(&mut t5::Config, &mut Vec<Vec<i32>>),
    forward: impl Fn(&mut t5::Encoder, &Array, &Array) -> Result<Array, Exception>,
) -> PortResult {
    let Params { prompts, max_length, mut config } = run.params::<Params<t5::Config>>()?;
    let mut prompts = pieces(run, prompts.len())?;
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

/// The tokens of each prompt, before marks and padding.
fn pieces(run: &Run, prompts: usize) -> Result<Vec<Vec<i32>>, Box<dyn std::error::Error + Send + Sync>> {
    (0..prompts).map(|index| Ok(run.input(&format!("prompt.{index}"))?.try_as_slice()?.to_vec())).collect()
}
