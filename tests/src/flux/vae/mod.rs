//! The decoder of Flux's VAE, diffusers' `AutoencoderKL`: latents to an image.
//!
//! Everything here is channel-last, `[batch, height, width, channels]`, as MLX has it; [`load`](super::load) turns kernels that way.

mod attention;
mod blocks;
mod layers;
mod resnet;

use mlx_parity_tap::tap;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};
use serde::Deserialize;

pub use attention::Attention;
pub use blocks::{MidBlock, UpBlock, Upsampler};
pub use resnet::ResnetBlock;

/// The sizes of a decoder, under diffusers' names.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Channels of the latents.
    pub latent_channels: i32,
    /// Channels of each level, from the image's own resolution to that of the latents.
    pub block_out_channels: Vec<i32>,
    /// Resnets of a level of the encoder; the decoder has one more.
    pub layers_per_block: usize,
    /// Groups of every group norm.
    pub norm_num_groups: i32,
}

/// Latents to an image.
#[derive(Debug, ModuleParameters)]
pub struct Decoder {
    /// From the latents' channels.
    #[param]
    pub conv_in: nn::Conv2d,
    /// At the latents' resolution.
    #[param]
    pub mid_block: MidBlock,
    /// One a level; all but the last double the resolution.
    #[param]
    pub up_blocks: Vec<UpBlock>,
    /// Before the last activation.
    #[param]
    pub conv_norm_out: nn::GroupNorm,
    /// To red, green and blue.
    #[param]
    pub conv_out: nn::Conv2d,
}

impl Decoder {
    /// A decoder whose parameters are still to be loaded.
    pub fn new(config: &Config) -> Result<Self, Exception> {
        let groups = config.norm_num_groups;
        let [first, .., last] = config.block_out_channels[..] else {
            return Err(Exception::custom("expected two levels or more"));
        };
        let mut up_blocks = Vec::new();
        let mut channels = last;
        for (level, &out) in config.block_out_channels.iter().enumerate().rev() {
            up_blocks.push(UpBlock::new(channels, out, config.layers_per_block + 1, groups, level > 0)?);
            channels = out;
        }
        Ok(Self {
            conv_in: layers::conv(config.latent_channels, last, 3)?,
            mid_block: MidBlock::new(last, groups)?,
            up_blocks,
            conv_norm_out: layers::group_norm(groups, first)?,
            conv_out: layers::conv(first, 3, 3)?,
        })
    }

    /// Latents to an image eight times as large with Flux's four levels, its values about -1 to 1 and not clamped.
    pub fn forward(&mut self, latents: &Array) -> Result<Array, Exception> {
        let mut x = tap("conv_in", self.conv_in.forward(latents)?)?;
        x = self.mid_block.forward(&x)?;
        for (i, block) in self.up_blocks.iter_mut().enumerate() {
            x = block.forward(&x, i)?;
        }
        let x = tap("conv_norm_out", self.conv_norm_out.forward(&x)?)?;
        let x = tap("conv_act", nn::silu(&x)?)?;
        tap("conv_out", self.conv_out.forward(&x)?)
    }
}
