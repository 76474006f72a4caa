//! Functions that round bfloat16 as PyTorch does: the result has the dtype of the input, and is rounded once.

use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, nn};

/// A constant in this dtype, since the scalars of mlx-rs would change the dtype of a product.
pub(super) fn scalar(value: f32, dtype: Dtype) -> Result<Array, Exception> {
    Array::from_f32(value).as_dtype(dtype)
}

/// SiLU, computed in float32.
pub(super) fn silu(x: &Array) -> Result<Array, Exception> {
    nn::silu(x.as_dtype(Dtype::Float32)?)?.as_dtype(x.dtype())
}

/// The tanh approximation of GELU, computed in float32.
pub(super) fn gelu(x: &Array) -> Result<Array, Exception> {
    nn::gelu_approximate(x.as_dtype(Dtype::Float32)?)?.as_dtype(x.dtype())
}
