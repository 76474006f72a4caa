//! Layers outside of the blocks, and layers that are used in several places.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, Dtype, fast, nn, ops};

const EPS: f32 = 1e-6;

/// Embedding of the timestep: sines and cosines, then an MLP.
#[derive(Debug, ModuleParameters)]
pub struct TimeEmbedding {
    /// First projection.
    #[param]
    pub linear_1: nn::Linear,
    /// Second projection.
    #[param]
    pub linear_2: nn::Linear,
}

impl TimeEmbedding {
    const WAVES: i32 = 128;

    pub(super) fn new(dim: i32) -> Result<Self, Exception> {
        Ok(Self { linear_1: nn::Linear::new(2 * Self::WAVES, dim)?, linear_2: nn::Linear::new(dim, dim)? })
    }

    /// Maps timesteps `[batch]` to `[batch, features]` of the same dtype.
    pub fn forward(&mut self, timestep: &Array) -> Result<Array, Exception> {
        let _scope = scope("time", None);
        let waves = tap("proj", waves(timestep, Self::WAVES)?)?.as_dtype(timestep.dtype())?;
        let x = tap("linear_1", self.linear_1.forward(&waves)?)?;
        let x = tap("act", silu(&x)?)?;
        tap("linear_2", self.linear_2.forward(&x)?)
    }
}

/// Cosines, then sines, of a thousand times each timestep at `count` frequencies from 1 to nearly 1 / 10,000, in float32.
fn waves(timestep: &Array, count: i32) -> Result<Array, Exception> {
    let step = -10_000f32.ln();
    let frequencies: Vec<f32> = (0..count).map(|i| (step * i as f32 / count as f32).exp()).collect();
    let frequencies = Array::from_slice(&frequencies, &[count]);
    let angles = timestep.as_dtype(Dtype::Float32)?.expand_dims(1)?.multiply(&frequencies)?;
    let angles = angles.multiply(Array::from_f32(1000.0))?;
    ops::concatenate(&[angles.cos()?, angles.sin()?], -1)
}

/// LayerNorm whose scale and shift, in this order unlike in blocks, come from the timestep.
#[derive(Debug, ModuleParameters)]
pub struct AdaNorm {
    /// Projection of the activated timestep to scale and shift.
    #[param]
    pub linear: nn::Linear,
}

impl AdaNorm {
    /// Maps `[batch, patches, features]` to the same shape.
    pub fn forward(&mut self, x: &Array, time: &Array) -> Result<Array, Exception> {
        let _scope = scope("norm_out", None);
        let both = tap("linear", self.linear.forward(time)?)?.split_equal(2, -1)?;
        let (scale, shift) = (tap("scale", both[0].clone())?, tap("shift", both[1].clone())?);
        let normed = tap("norm", layer_norm(x)?)?;
        tap("out", modulate(&normed, &scale, &shift)?)
    }
}

/// `x * (1 + scale) + shift`, with one scale and shift, `[batch, features]`, for all tokens.
pub(super) fn modulate(x: &Array, scale: &Array, shift: &Array) -> Result<Array, Exception> {
    let one = Array::from_f32(1.0).as_dtype(x.dtype())?;
    x.multiply(scale.add(one)?.expand_dims(1)?)?.add(shift.expand_dims(1)?)
}

/// LayerNorm without parameters.
pub(super) fn layer_norm(x: &Array) -> Result<Array, Exception> {
    fast::layer_norm(x, None, None, EPS)
}

/// RMSNorm with the eps of the model; the default of mlx-rs is 1e-5.
pub(super) fn rms_norm(dim: i32) -> Result<nn::RmsNorm, Exception> {
    nn::RmsNormBuilder::new(dim).eps(EPS).build()
}

/// SiLU, rounded once.
pub(super) fn silu(x: &Array) -> Result<Array, Exception> {
    nn::silu(x.as_dtype(Dtype::Float32)?)?.as_dtype(x.dtype())
}

/// The tanh approximation of GELU, rounded once. That of mlx-rs returns float32 for any input.
pub(super) fn gelu(x: &Array) -> Result<Array, Exception> {
    nn::gelu_approximate(x.as_dtype(Dtype::Float32)?)?.as_dtype(x.dtype())
}
