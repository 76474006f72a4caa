//! How the parts of Flux and the whole pipeline are run. Each function takes a change, which only `bad_ports/` uses.

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::Array;
use parity_tests::flux::pipeline::{Config, Pipeline, Request};
use parity_tests::flux::transformer::{Inputs, Transformer};
use parity_tests::flux::{load, vae};
use serde::Deserialize;

pub(crate) fn ports(suite: Suite) -> Suite {
    suite
        .port("flux::transformer", |run| predict(run, |_, _| {}))
        .port("flux::vae_decoder", |run| decode(run, |_, _| {}))
        .port("flux::pipeline", |run| generate(run, |_, _| {}))
}

/// One prediction of the transformer.
pub(crate) fn predict(run: &Run, change: impl FnOnce(&mut Transformer, &mut Inputs)) -> PortResult {
    let mut model = Transformer::new(&run.params()?)?;
    run.weights()?.load_into(&mut model)?;
    let mut inputs = Inputs {
        hidden_states: run.input("hidden_states")?,
        encoder_hidden_states: run.input("encoder_hidden_states")?,
        pooled_projections: run.input("pooled_projections")?,
        timestep: run.input("timestep")?,
        guidance: Some(run.input("guidance")?),
        img_ids: run.input("img_ids")?,
        txt_ids: run.input("txt_ids")?,
    };
    change(&mut model, &mut inputs);
    model.forward(&inputs)?;
    Ok(())
}

/// Latents to an image.
pub(crate) fn decode(run: &Run, change: impl FnOnce(&mut vae::Decoder, &mut Array)) -> PortResult {
    let weights = run.weights()?;
    let mut decoder = vae::Decoder::new(&run.params()?)?;
    load(&mut decoder, |name| weights.get(name))?;
    // The inputs have channels first, as in the reference.
    let mut latents = run.input("latents")?.transpose_axes(&[0, 2, 3, 1])?;
    change(&mut decoder, &mut latents);
    decoder.forward(&latents)?;
    Ok(())
}

/// The whole pipeline.
pub(crate) fn generate(run: &Run, change: impl FnOnce(&mut Config, &mut Request)) -> PortResult {
    /// The parameters of the spec beside the configs; the height is that of the latents.
    #[derive(Deserialize)]
    struct Image {
        steps: usize,
        guidance: f32,
        height: i32,
    }
    let (mut config, Image { steps, guidance, height }) = (run.params()?, run.params()?);
    let mut request = Request {
        latents: run.input("latents")?,
        rows: height / 2,
        prompt_embeds: run.input("prompt_embeds")?,
        pooled_prompt_embeds: run.input("pooled_prompt_embeds")?,
        steps,
        guidance,
    };
    change(&mut config, &mut request);
    let weights = run.weights()?;
    let mut pipeline = Pipeline::new(config)?;
    load(&mut pipeline, |name| weights.get(name))?;
    pipeline.generate(&request)?;
    Ok(())
}
