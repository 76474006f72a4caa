//! Functions that round bfloat16 as PyTorch does: the result has the dtype of the input, and is rounded once per step.

use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, nn, ops};

/// `x · factor`, where the factor itself is not rounded.
///
/// # Errors
/// When MLX cannot convert `x`.
pub fn scaled(x: &Array, factor: f32) -> Result<Array, Exception> {
    x.as_dtype(Dtype::Float32)?.multiply(Array::from_f32(factor))?.as_dtype(x.dtype())
}

/// `cap · tanh(x / cap)`: nearly `x` where it is small, and never beyond `cap`.
///
/// # Errors
/// When MLX cannot convert `x`.
pub fn capped(x: &Array, cap: f32) -> Result<Array, Exception> {
    let cap = Array::from_f32(cap).as_dtype(x.dtype())?;
    ops::tanh(x.divide(&cap)?)?.multiply(cap)
}

/// The tanh approximation of GELU, computed in float32.
///
/// # Errors
/// When MLX cannot convert `x`.
pub fn gelu(x: &Array) -> Result<Array, Exception> {
    nn::gelu_approximate(x.as_dtype(Dtype::Float32)?)?.as_dtype(x.dtype())
}
