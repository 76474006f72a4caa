//! The levels of the decoder.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::ops::broadcast_to;
use mlx_rs::{Array, nn};

use super::attention::Attention;
use super::layers::conv;
use super::resnet::ResnetBlock;

/// Two resnets with attention between them, at the resolution of the latents.
#[derive(Debug, ModuleParameters)]
pub struct MidBlock {
    /// The resnets before and after the attention.
    #[param]
    pub resnets: Vec<ResnetBlock>,
    /// Attention, in a list of one as in diffusers.
    #[param]
    pub attentions: Vec<Attention>,
}

impl MidBlock {
    pub(super) fn new(channels: i32, groups: i32) -> Result<Self, Exception> {
        let resnet = || ResnetBlock::new(channels, channels, groups);
        Ok(Self { resnets: vec![resnet()?, resnet()?], attentions: vec![Attention::new(channels, groups)?] })
    }

    pub(super) fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let _scope = scope("mid_block", None);
        let mut x = x.clone();
        let mut attentions = self.attentions.iter_mut().enumerate();
        for (i, resnet) in self.resnets.iter_mut().enumerate() {
            x = resnet.forward(&x, i)?;
            if let Some((i, attention)) = attentions.next() {
                x = attention.forward(&x, i)?;
            }
        }
        Ok(x)
    }
}

/// Resnets, and an upsampler except in the last level.
#[derive(Debug, ModuleParameters)]
pub struct UpBlock {
    /// Resnets; the first one changes the number of channels.
    #[param]
    pub resnets: Vec<ResnetBlock>,
    /// Upsampler, in a list of one or none as in diffusers.
    #[param]
    pub upsamplers: Vec<Upsampler>,
}

impl UpBlock {
    pub(super) fn new(
        from: i32,
        to: i32,
        layers: usize,
        groups: i32,
        upsamples: bool,
    ) -> Result<Self, Exception> {
        let resnet = |i| ResnetBlock::new(if i == 0 { from } else { to }, to, groups);
        Ok(Self {
            resnets: (0..layers).map(resnet).collect::<Result<_, _>>()?,
            upsamplers: if upsamples { vec![Upsampler { conv: conv(to, to, 3)? }] } else { Vec::new() },
        })
    }

    pub(super) fn forward(&mut self, x: &Array, index: usize) -> Result<Array, Exception> {
        let _scope = scope("up_blocks", index);
        let mut x = x.clone();
        for (i, resnet) in self.resnets.iter_mut().enumerate() {
            x = resnet.forward(&x, i)?;
        }
        for (i, upsampler) in self.upsamplers.iter_mut().enumerate() {
            x = upsampler.forward(&x, i)?;
        }
        Ok(x)
    }
}

/// Doubles height and width by repeating pixels, then convolves.
#[derive(Debug, ModuleParameters)]
pub struct Upsampler {
    /// Convolution at the new resolution.
    #[param]
    pub conv: nn::Conv2d,
}

impl Upsampler {
    fn forward(&mut self, x: &Array, index: usize) -> Result<Array, Exception> {
        let _scope = scope("upsamplers", index);
        let x = tap("interpolate", nearest(x)?)?;
        tap("conv", self.conv.forward(&x)?)
    }
}

/// Doubles height and width by repeating each pixel.
fn nearest(x: &Array) -> Result<Array, Exception> {
    let &[batch, height, width, channels] = x.shape() else {
        return Err(Exception::custom(format!("expected four axes, found {:?}", x.shape())));
    };
    let apart = x.reshape(&[batch, height, 1, width, 1, channels])?;
    let repeated = broadcast_to(&apart, &[batch, height, 2, width, 2, channels])?;
    repeated.reshape(&[batch, 2 * height, 2 * width, channels])
}
