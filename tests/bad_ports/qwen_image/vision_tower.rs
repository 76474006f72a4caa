//! Faults in the vision tower.

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::Array;
use mlx_rs::error::Exception;
use parity_tests::qwen_image::vision::{Config, Grid, VisionTower};
use serde::Deserialize;

/// The arguments of the port.
#[derive(Deserialize)]
pub(super) struct Call {
    grid: Vec<Grid>,
    #[serde(flatten)]
    config: Config,
    #[serde(skip)]
    pub(super) pixels: Option<Array>,
}

pub(crate) fn ports(suite: Suite) -> Suite {
    suite
        // The colours are taken for the last axis.
        .port("qwen_image::vision_tower/patch_layout", |run| {
            let pixels = run.input("pixel_values")?;
            let turned = pixels.reshape(&[-1, 2, 4, 4, 3])?.transpose_axes(&[0, 4, 1, 2, 3])?;
            let turned = turned.reshape(pixels.shape())?;
            with(run, |call| call.pixels = Some(turned), |_| Ok(()))
        })
        .port("qwen_image::vision_tower/kernel_turned", |run| {
            with(
                run,
                |_| {},
                |tower| {
                    let weight = &mut tower.patch_embed.proj.weight.value;
                    *weight = weight.swap_axes(2, 3)?;
                    Ok(())
                },
            )
        })
        // The default of mlx-rs.
        .port("qwen_image::vision_tower/eps", |run| {
            with(
                run,
                |_| {},
                |tower| {
                    tower.blocks.iter_mut().for_each(|block| block.norm1.eps = 1e-5);
                    Ok(())
                },
            )
        })
        .port("qwen_image::vision_tower/windows_ignored", |run| {
            with(run, |call| call.config.fullatt_block_indexes = vec![0, 1, 2], |_| Ok(()))
        })
        .port("qwen_image::vision_tower/height_and_width_swapped", |run| {
            let swap = |grid: &mut Grid| std::mem::swap(&mut grid.height, &mut grid.width);
            with(run, |call| call.grid.iter_mut().for_each(swap), |_| Ok(()))
        })
        // `down(silu(gate(x)))`: the third projection is loaded and has no effect.
        .port("qwen_image::vision_tower/mlp_not_gated", |run| {
            with(
                run,
                |_| {},
                |tower| {
                    for block in &mut tower.blocks {
                        let up = &mut block.mlp.up_proj;
                        up.weight.value = up.weight.value.multiply(Array::from_f32(0.0))?;
                        up.bias.value = Some(Array::from_f32(1.0));
                    }
                    Ok(())
                },
            )
        })
}

/// Runs the port with these changes to its arguments and to the loaded tower.
pub(super) fn with(
    run: &Run,
    called: impl FnOnce(&mut Call),
    loaded: impl FnOnce(&mut VisionTower) -> Result<(), Exception>,
) -> PortResult {
    let mut call: Call = run.params()?;
    called(&mut call);
    let weights = run.weights()?;
    let mut tower = VisionTower::new(&call.config)?;
    tower.load(|name| weights.get(name))?;
    loaded(&mut tower)?;
    let pixels = run.input("pixel_values")?;
    tower.forward(call.pixels.as_ref().unwrap_or(&pixels), &call.grid)?;
    Ok(())
}
