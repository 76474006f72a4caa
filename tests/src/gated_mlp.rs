//! A gated MLP after RMSNorm, with a residual around both: `x + down(silu(gate(n)) * up(n))`, `n = norm(x)`.

use mlx_parity_tap::tap;
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};
use serde::Deserialize;

/// The sizes of a block.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Config {
    /// Features of a token.
    pub dim: i32,
    /// Features between the projections.
    pub hidden: i32,
}

/// One block.
#[derive(Debug, ModuleParameters)]
pub struct Block {
    /// Before everything else.
    #[param]
    pub norm: nn::RmsNorm,
    /// Goes through SiLU.
    #[param]
    pub gate: nn::Linear,
    /// Is multiplied with that.
    #[param]
    pub up: nn::Linear,
    /// Back to the features of a token.
    #[param]
    pub down: nn::Linear,
}

impl Block {
    /// A block whose parameters are still to be loaded.
    pub fn new(config: Config) -> Result<Self, Exception> {
        let linear = |from, to, bias| nn::LinearBuilder::new(from, to).bias(bias).build();
        Ok(Self {
            // mlx-rs's own default is 1e-5.
            norm: nn::RmsNormBuilder::new(config.dim).eps(1e-6).build()?,
            gate: linear(config.dim, config.hidden, false)?,
            up: linear(config.dim, config.hidden, false)?,
            down: linear(config.hidden, config.dim, true)?,
        })
    }

    /// `[batch, tokens, dim]` to the same.
    pub fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let normed = tap("norm", self.norm.forward(x)?)?;
        let gate = nn::silu(self.gate.forward(&normed)?)?;
        let gated = tap("gated", gate.multiply(self.up.forward(&normed)?)?)?;
        tap("out", x.add(self.down.forward(&gated)?)?)
    }
}
