//! Two convolutions with a residual around both.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};

use super::layers::{conv, group_norm};

/// `shortcut(x) + conv2(silu(norm2(conv1(silu(norm1(x))))))`.
#[derive(Debug, ModuleParameters)]
pub struct ResnetBlock {
    /// Norm before the first convolution.
    #[param]
    pub norm1: nn::GroupNorm,
    /// First convolution, from input channels to output channels.
    #[param]
    pub conv1: nn::Conv2d,
    /// Norm before the second convolution.
    #[param]
    pub norm2: nn::GroupNorm,
    /// Second convolution.
    #[param]
    pub conv2: nn::Conv2d,
    /// Convolution of the residual, if the number of channels changes.
    #[param]
    pub conv_shortcut: Option<nn::Conv2d>,
}

impl ResnetBlock {
    pub(super) fn new(from: i32, to: i32, groups: i32) -> Result<Self, Exception> {
        Ok(Self {
            norm1: group_norm(groups, from)?,
            conv1: conv(from, to, 3)?,
            norm2: group_norm(groups, to)?,
            conv2: conv(to, to, 3)?,
            conv_shortcut: if from == to { None } else { Some(conv(from, to, 1)?) },
        })
    }

    /// Runs the block; `index` is its number within its level.
    pub(super) fn forward(&mut self, x: &Array, index: usize) -> Result<Array, Exception> {
        let _scope = scope("resnets", index);
        let y = tap("norm1", self.norm1.forward(x)?)?;
        let y = tap("act1", nn::silu(&y)?)?;
        let y = tap("conv1", self.conv1.forward(&y)?)?;
        let y = tap("norm2", self.norm2.forward(&y)?)?;
        let y = tap("act2", nn::silu(&y)?)?;
        let y = tap("conv2", self.conv2.forward(&y)?)?;
        let shortcut = match &mut self.conv_shortcut {
            Some(conv) => tap("conv_shortcut", conv.forward(x)?)?,
            None => x.clone(),
        };
        tap("out", shortcut.add(&y)?)
    }
}
