//! A gated MLP behind an RMSNorm, ported to mlx-rs from `exporter/references/gated_mlp_block.py`.

use mlx_parity_tap::tap;
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};
use serde::Deserialize;

/// The sizes of a block. The suite reads them from the spec: `reference.params`.
#[derive(Debug, Deserialize)]
pub struct Sizes {
    pub dim: i32,
    pub hidden: i32,
}

/// The layers, under the names that their weights have in the fixtures.
#[derive(Debug, ModuleParameters)]
pub struct GatedMlp {
    #[param]
    pub norm: nn::RmsNorm,
    #[param]
    pub gate: nn::Linear,
    #[param]
    pub up: nn::Linear,
    #[param]
    pub down: nn::Linear,
}

impl GatedMlp {
    /// Builds the layers. Their weights are loaded afterwards.
    pub fn new(sizes: Sizes) -> Result<Self, Exception> {
        let Sizes { dim, hidden } = sizes;
        Ok(Self {
            norm: nn::RmsNormBuilder::new(dim).eps(1e-5).build()?,
            gate: nn::LinearBuilder::new(dim, hidden).bias(false).build()?,
            up: nn::LinearBuilder::new(dim, hidden).bias(false).build()?,
            down: nn::LinearBuilder::new(hidden, dim).build()?,
        })
    }

    /// Computes `x + down(silu(gate(norm)) * up(norm))`. A tap names a tensor, so that the suite can compare it.
    pub fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let norm = tap("norm", self.norm.forward(x)?)?;
        let gate = nn::silu(self.gate.forward(&norm)?)?;
        let up = self.up.forward(&norm)?;
        let gated = gate.multiply(&up)?;
        tap("out", x.add(&self.down.forward(&gated)?)?)
    }
}
