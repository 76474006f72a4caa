//! How the parts of Qwen-Image are run.

use mlx_parity::Suite;
use parity_tests::qwen_image::vision;
use serde::Deserialize;

/// What the parameters of the vision tower's spec say beside its configuration.
#[derive(Deserialize)]
struct VisionParams {
    grid: Vec<vision::Grid>,
    #[serde(flatten)]
    config: vision::Config,
}

pub(crate) fn ports(suite: Suite) -> Suite {
    suite.port("qwen_image::vision_tower", |run| {
        let VisionParams { grid, config } = run.params()?;
        let weights = run.weights()?;
        let mut tower = vision::VisionTower::new(&config)?;
        tower.load(|name| weights.get(name))?;
        tower.forward(&run.input("pixel_values")?, &grid)?;
        Ok(())
    })
}
