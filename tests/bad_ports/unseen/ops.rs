//! Operations that several ports use, and wrong ones that several variants use. Each returns the dtype of its input.

use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, fast, nn, ops};

use crate::change::wide;

pub(super) type Computed = Result<Array, Exception>;

pub(super) fn scalar(value: f32, dtype: Dtype) -> Computed {
    Array::from_f32(value).as_dtype(dtype)
}

/// A linear layer, as `nn::Linear` computes it.
pub(super) fn linear(layer: &nn::Linear, x: &Array) -> Computed {
    linear_of(&layer.weight, layer.bias.value.as_ref(), x)
}

/// A linear layer with these parameters.
pub(super) fn linear_of(weight: &Array, bias: Option<&Array>, x: &Array) -> Computed {
    match bias {
        Some(bias) => ops::addmm(bias, x, weight.t(), None, None),
        None => ops::matmul(x, weight.t()),
    }
}

/// Several linear layers as one, whose output is split again.
pub(super) fn fused(layers: &[&nn::Linear], x: &Array) -> Result<Vec<Array>, Exception> {
    let weights: Vec<&Array> = layers.iter().map(|layer| &*layer.weight).collect();
    let biases: Option<Vec<&Array>> = layers.iter().map(|layer| layer.bias.value.as_ref()).collect();
    let bias = biases.map(|biases| ops::concatenate(&biases, 0)).transpose()?;
    let all = linear_of(&ops::concatenate(&weights, 0)?, bias.as_ref(), x)?;
    let mut ends = Vec::new();
    for layer in &layers[..layers.len() - 1] {
        ends.push(ends.last().unwrap_or(&0) + layer.weight.dim(0));
    }
    all.split_at_indices(&ends, -1)
}

pub(super) fn rms_norm(norm: &nn::RmsNorm, x: &Array) -> Computed {
    fast::rms_norm(x, Some(&*norm.weight), norm.eps)
}

pub(super) fn layer_norm(norm: &nn::LayerNorm, x: &Array) -> Computed {
    fast::layer_norm(x, norm.weight.value.as_ref(), norm.bias.value.as_ref(), norm.eps)
}

/// Layer norm without parameters, by its formula, over `axis`. `ddof` is 0 in every model here.
pub(super) fn layer_norm_over(x: &Array, axis: i32, ddof: i32, eps: f32) -> Computed {
    let x32 = wide(x)?;
    let variance = x32.var_axis(axis, true, ddof)?.add(Array::from_f32(eps))?;
    let centred = x32.subtract(x32.mean_axis(axis, true)?)?;
    centred.multiply(variance.rsqrt()?)?.as_dtype(x.dtype())
}

/// RMS norm without a weight, by its formula, over `axis`.
pub(super) fn rms_norm_over(x: &Array, axis: i32, eps: f32) -> Computed {
    let x32 = wide(x)?;
    let mean = x32.square()?.mean_axis(axis, true)?.add(Array::from_f32(eps))?;
    x32.multiply(mean.rsqrt()?)?.as_dtype(x.dtype())
}

/// SiLU, computed in float32.
pub(super) fn silu(x: &Array) -> Computed {
    nn::silu(wide(x)?)?.as_dtype(x.dtype())
}

/// The tanh approximation of GELU, computed in float32.
pub(super) fn gelu(x: &Array) -> Computed {
    nn::gelu_approximate(wide(x)?)?.as_dtype(x.dtype())
}

/// GELU by the error function, computed in float32.
pub(super) fn exact_gelu(x: &Array) -> Computed {
    nn::gelu(wide(x)?)?.as_dtype(x.dtype())
}

/// Exchanges the second and third of four axes: heads and tokens.
pub(super) fn turned(x: &Array) -> Computed {
    x.transpose_axes(&[0, 2, 1, 3])
}

/// Exchanges the last two of four axes.
pub(super) fn flat(x: &Array) -> Computed {
    x.transpose_axes(&[0, 1, 3, 2])
}

/// Repeats each of `[batch, heads, tokens, features]` for the query heads that share it: 0, 0, 1, 1.
pub(super) fn repeated_heads(x: &Array, groups: i32) -> Computed {
    let (batch, heads, tokens, dim) = (x.dim(0), x.dim(1), x.dim(2), x.dim(3));
    let repeated = ops::broadcast_to(x.expand_dims(2)?, &[batch, heads, groups, tokens, dim])?;
    repeated.reshape(&[batch, heads * groups, tokens, dim])
}

/// Repeats all of `[batch, heads, tokens, features]` at once: 0, 1, 0, 1.
pub(super) fn tiled_heads(x: &Array, groups: i32) -> Computed {
    ops::tile(x, &[1, groups, 1, 1])
}

/// Scores of keys that are not visible, replaced by `fill`.
pub(super) fn masked(scores: &Array, visible: &Array, fill: f32) -> Computed {
    ops::select(visible, scores, scalar(fill, scores.dtype())?)
}

pub(super) fn softmax(scores: &Array) -> Computed {
    ops::softmax_axis(scores, -1, true)
}

/// Attention without a mask by its formula, in float32. The softmax is over keys, or over `axis`.
pub(super) fn attention(q: &Array, k: &Array, v: &Array, scale: f32, axis: i32) -> Computed {
    let (q32, k32, v32) = (wide(q)?, wide(k)?, wide(v)?);
    let scores = q32.matmul(flat(&k32)?)?.multiply(Array::from_f32(scale))?;
    ops::softmax_axis(&scores, axis, true)?.matmul(v32)?.as_dtype(q.dtype())
}
