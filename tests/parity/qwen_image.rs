//! How the parts of Qwen-Image are run.

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::{Array, ops};
use parity_tests::qwen_image::{transformer, vision};
use serde::Deserialize;

/// The parameters of the vision tower's spec beside its configuration.
#[derive(Deserialize)]
struct VisionParams {
    grid: Vec<vision::Grid>,
    #[serde(flatten)]
    config: vision::Config,
}

/// The parameters of the transformer's specs beside its configuration.
#[derive(Deserialize)]
struct TransformerParams {
    shapes: Vec<[i32; 3]>,
    #[serde(flatten)]
    config: transformer::Config,
}

pub(crate) fn ports(suite: Suite) -> Suite {
    suite
        .port("qwen_image::transformer", |run| transform(run, &run.input("encoder_hidden_states")?))
        .twin("qwen_image::transformer", "other_padding", |run| {
            let words = run.input("encoder_hidden_states")?;
            let mask = run.input("encoder_hidden_states_mask")?.expand_dims(-1)?;
            let far = Array::from_f32(9.0).as_dtype(words.dtype())?;
            transform(run, &ops::select(&mask, &words, &far)?)
        })
        .port("qwen_image::vision_tower", |run| {
            let VisionParams { grid, config } = run.params()?;
            let weights = run.weights()?;
            let mut tower = vision::VisionTower::new(&config)?;
            tower.load(|name| weights.get(name))?;
            tower.forward(&run.input("pixel_values")?, &grid)?;
            Ok(())
        })
}

/// Runs the transformer on these embeddings of the prompts.
fn transform(run: &Run, words: &Array) -> PortResult {
    let TransformerParams { shapes, config } = run.params()?;
    let mut model = transformer::Transformer::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    model.forward(&transformer::Inputs {
        hidden_states: &run.input("hidden_states")?,
        encoder_hidden_states: words,
        encoder_hidden_states_mask: &run.input("encoder_hidden_states_mask")?,
        timestep: &run.input("timestep")?,
        shapes: &shapes,
    })?;
    Ok(())
}
