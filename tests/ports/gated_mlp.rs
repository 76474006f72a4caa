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
    /// Features per token.
    pub dim: i32,
    /// Features inside the MLP.
    pub hidden: i32,
}

/// One block.
#[derive(Debug, Clone, ModuleParameters)]
pub struct Block {
    /// First norm.
    #[param]
    pub norm: nn::RmsNorm,
    /// Gate projection, which goes through SiLU.
    #[param]
    pub gate: nn::Linear,
    /// Projection that is multiplied with the activated one.
    #[param]
    pub up: nn::Linear,
    /// Output projection.
    #[param]
    pub down: nn::Linear,
}

impl Block {
    /// Creates a block. Its parameters still have to be loaded.
    pub fn new(config: Config) -> Result<Self, Exception> {
        let linear = |from, to, bias| nn::LinearBuilder::new(from, to).bias(bias).build();
        Ok(Self {
            // The default of mlx-rs is 1e-5.
            norm: nn::RmsNormBuilder::new(config.dim).eps(1e-6).build()?,
            gate: linear(config.dim, config.hidden, false)?,
            up: linear(config.dim, config.hidden, false)?,
            down: linear(config.hidden, config.dim, true)?,
        })
    }

    /// Maps `[batch, tokens, dim]` to the same shape.
    pub fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let normed = tap("norm", self.norm.forward(x)?)?;
        let gate = nn::silu(self.gate.forward(&normed)?)?;
        let gated = tap("gated", gate.multiply(self.up.forward(&normed)?)?)?;
        tap("out", x.add(self.down.forward(&gated)?)?)
    }
}
