//! Layer norms whose scale and shift come from the condition of the block.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, fast, nn};

use super::numeric::{scalar, silu};

/// Layer norm without parameters, with the epsilon of Flux.
pub(super) fn layer_norm(x: &Array) -> Result<Array, Exception> {
    fast::layer_norm(x, None, None, 1e-6)
}

/// `x · (1 + scale) + shift`, with one scale and shift, `[batch, dim]`, for all tokens.
pub(super) fn modulate(x: &Array, scale: &Array, shift: &Array) -> Result<Array, Exception> {
    let factor = scale.add(scalar(1.0, scale.dtype())?)?;
    x.multiply(factor.expand_dims(1)?)?.add(shift.expand_dims(1)?)
}

/// The layer norm before attention, which also returns the other modulations of the block.
#[derive(Debug, ModuleParameters)]
pub struct AdaLayerNorm {
    /// Projection to shift, scale and gate of each part of the block.
    #[param]
    pub linear: nn::Linear,
    /// Number of these modulations.
    chunks: i32,
}

impl AdaLayerNorm {
    pub(super) fn new(dim: i32, chunks: i32) -> Result<Self, Exception> {
        Ok(Self { linear: nn::Linear::new(dim, chunks * dim)?, chunks })
    }

    /// Returns the norm of `x`, scaled and shifted by the first two chunks, and the other chunks, tapped as `names`.
    pub(super) fn forward<const N: usize>(
        &mut self,
        x: &Array,
        condition: &Array,
        names: [&str; N],
    ) -> Result<(Array, [Array; N]), Exception> {
        let condition = tap("silu", silu(condition)?)?;
        let all = tap("linear", self.linear.forward(&condition)?)?;
        let chunks = all.split_equal(self.chunks, -1)?;
        let normed = tap("norm", layer_norm(x)?)?;
        let out = tap("out", modulate(&normed, &chunks[1], &chunks[0])?)?;
        let rest = names.iter().zip(&chunks[2..]).map(|(name, chunk)| tap(name, chunk.clone()));
        let rest: Vec<Array> = rest.collect::<Result<_, _>>()?;
        let rest = rest.try_into().map_err(|_| Exception::custom("expected a chunk for every name"))?;
        Ok((out, rest))
    }
}

/// The layer norm before the last layer.
#[derive(Debug, ModuleParameters)]
pub struct FinalNorm {
    /// Projection to scale and shift, in the opposite order of the blocks.
    #[param]
    pub linear: nn::Linear,
}

impl FinalNorm {
    pub(super) fn new(dim: i32) -> Result<Self, Exception> {
        Ok(Self { linear: nn::Linear::new(dim, 2 * dim)? })
    }

    pub(super) fn forward(&mut self, x: &Array, condition: &Array) -> Result<Array, Exception> {
        let _scope = scope("norm_out", None);
        let chunks = tap("linear", self.linear.forward(&silu(condition)?)?)?.split_equal(2, -1)?;
        let normed = tap("norm", layer_norm(x)?)?;
        tap("out", modulate(&normed, &chunks[0], &chunks[1])?)
    }
}
