//! How the parts of Qwen-Image are run.

use mlx_parity::Suite;
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
        .port("qwen_image::transformer", |run| {
            let TransformerParams { shapes, config } = run.params()?;
            let mut model = transformer::Transformer::new(&config)?;
            run.weights()?.load_into(&mut model)?;
            model.forward(&transformer::Inputs {
                hidden_states: &run.input("hidden_states")?,
                encoder_hidden_states: &run.input("encoder_hidden_states")?,
                encoder_hidden_states_mask: &run.input("encoder_hidden_states_mask")?,
                timestep: &run.input("timestep")?,
                shapes: &shapes,
            })?;
            Ok(())
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
