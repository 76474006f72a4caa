//! The decoder of Flux's VAE, diffusers' `AutoencoderKL`: latents to an image.
//!
//! All arrays are channel-last, `[batch, height, width, channels]`, as in MLX; [`load`](super::load) transposes kernels.

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

/// The sizes of a decoder, with the names of diffusers.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Channels of the latents.
    pub latent_channels: i32,
    /// Channels per level, from the resolution of the image to that of the latents.
    pub block_out_channels: Vec<i32>,
    /// Resnets per level of the encoder; the decoder has one more.
    pub layers_per_block: usize,
    /// Groups of every group norm.
    pub norm_num_groups: i32,
}

/// Decodes latents to an image.
#[derive(Debug, ModuleParameters)]
pub struct Decoder {
    /// First convolution, from the channels of the latents.
    #[param]
    pub conv_in: nn::Conv2d,
    /// Middle block, at the resolution of the latents.
    #[param]
    pub mid_block: MidBlock,
    /// One block per level; all but the last double the resolution.
    #[param]
    pub up_blocks: Vec<UpBlock>,
    /// Last norm.
    #[param]
    pub conv_norm_out: nn::GroupNorm,
    /// Last convolution, to red, green and blue.
    #[param]
    pub conv_out: nn::Conv2d,
}

impl Decoder {
    /// Creates a decoder. Its parameters still have to be loaded.
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

    /// Decodes latents to an image, eight times as large with the four levels of Flux. Values are about -1 to 1, not clamped.
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
