//! What keeps bfloat16 as PyTorch has it: results in the dtype of what goes in, each rounded once.

use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, nn};

/// A constant that does not change the dtype of what it is combined with, as mlx-rs's own scalars do.
pub(super) fn scalar(value: f32, dtype: Dtype) -> Result<Array, Exception> {
    Array::from_f32(value).as_dtype(dtype)
}

/// SiLU, computed in float32.
pub(super) fn silu(x: &Array) -> Result<Array, Exception> {
    nn::silu(x.as_dtype(Dtype::Float32)?)?.as_dtype(x.dtype())
}

/// GELU by its approximation with tanh, computed in float32.
pub(super) fn gelu(x: &Array) -> Result<Array, Exception> {
    nn::gelu_approximate(x.as_dtype(Dtype::Float32)?)?.as_dtype(x.dtype())
}
