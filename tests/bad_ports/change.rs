//! What faults do to an array. Each function returns an array of the same dtype.

use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{concatenate, softmax_axis, tri};
use mlx_rs::{Array, Dtype, fast, ops, random};

type Changed = Result<Array, Exception>;

/// Transposes an array and keeps the old shape, so that the values are in another order.
pub(crate) fn memory_of(x: &Array, axes: &[i32]) -> Changed {
    x.transpose_axes(axes)?.reshape(x.shape())
}

/// Splits an axis into equal parts and puts them in another order.
pub(crate) fn parts(x: &Array, axis: i32, order: &[usize]) -> Changed {
    let parts = x.split_equal(order.len() as i32, axis)?;
    let parts: Vec<&Array> = order.iter().map(|&part| &parts[part]).collect();
    concatenate(&parts, axis)
}

/// Splits the last axis into three axes of these sizes, exchanges the last two, and joins them again.
pub(crate) fn regrouped(x: &Array, sizes: &[i32; 3]) -> Changed {
    let rows = x.reshape(&[-1, sizes[0], sizes[1], sizes[2]])?;
    rows.transpose_axes(&[0, 1, 3, 2])?.reshape(x.shape())
}

/// Selects entries of an axis by their indices.
pub(crate) fn taken(x: &Array, axis: i32, numbers: impl IntoIterator<Item = i32>) -> Changed {
    let numbers: Vec<i32> = numbers.into_iter().collect();
    x.take_axis(Array::from_slice(&numbers, &[numbers.len() as i32]), axis)
}

pub(crate) fn backwards(x: &Array, axis: i32) -> Changed {
    taken(x, axis, (0..x.dim(axis)).rev())
}

/// Rotates an axis: every entry moves `by` places towards the end.
pub(crate) fn later(x: &Array, axis: i32, by: i32) -> Changed {
    let length = x.dim(axis);
    taken(x, axis, (0..length).map(|i| (i - by).rem_euclid(length)))
}

/// As many elements of `memory` as `x` has, from `start` on, in the shape of `x`.
pub(crate) fn contiguous(memory: &Array, start: i32, x: &Array) -> Changed {
    memory.flatten(None, None)?.try_index(start..start + x.size() as i32)?.reshape(x.shape())
}

pub(crate) fn times(x: &Array, factor: f32) -> Changed {
    x.multiply(Array::from_f32(factor).as_dtype(x.dtype())?)
}

pub(crate) fn plus(x: &Array, offset: f32) -> Changed {
    x.add(Array::from_f32(offset).as_dtype(x.dtype())?)
}

pub(crate) fn wide(x: &Array) -> Changed {
    x.as_dtype(Dtype::Float32)
}

/// Rounds to another dtype and back.
pub(crate) fn through(x: &Array, dtype: Dtype) -> Changed {
    x.as_dtype(dtype)?.as_dtype(x.dtype())
}

/// Applies a function to every number.
pub(crate) fn each(x: &Array, of: impl Fn(f32) -> f32) -> Changed {
    let numbers: Vec<f32> =
        wide(x)?.contiguous()?.to_vec_exact().map_err(|error| Exception::custom(error.to_string()))?;
    Array::from_iter(numbers.into_iter().map(of), x.shape()).as_dtype(x.dtype())
}

/// Keeps this many bits of the mantissa: 10 as TF32 has, 3 as one of the 8-bit formats has.
pub(crate) fn mantissa(x: &Array, bits: u32) -> Changed {
    each(x, |number| f32::from_bits(number.to_bits() & (u32::MAX << (23 - bits))))
}

/// Random numbers with the mean and the spread of `x`, from a fixed key.
pub(crate) fn drawn(x: &Array) -> Changed {
    let x32 = wide(x)?;
    let (mean, spread) = (x32.mean(None)?, x32.var(None, None)?.sqrt()?);
    let noise = random::normal::<f32>(x.shape(), None, None, &random::key(11)?)?;
    noise.multiply(spread)?.add(mean)?.as_dtype(x.dtype())
}

/// Multiplies each number by a random factor around one; `spread` is the standard deviation. From a fixed key.
pub(crate) fn blurred(x: &Array, spread: f32) -> Changed {
    let noise = random::normal::<f32>(x.shape(), None, None, &random::key(12)?)?;
    wide(x)?.multiply(plus(&times(&noise, spread)?, 1.0)?)?.as_dtype(x.dtype())
}

/// What foreign memory often holds: small integers, read as floats.
pub(crate) fn garbage(shape: &[i32], dtype: Dtype) -> Changed {
    let count: i32 = shape.iter().product();
    let unit = if dtype == Dtype::Bfloat16 { 1 << 16 } else { 1 };
    let words = (0..count as u32).map(|i| f32::from_bits((i * 7 % 100 + 1) * unit));
    Array::from_iter(words, shape).as_dtype(dtype)
}

/// Replaces entry `at` of axis 1.
pub(crate) fn with_entry(x: &Array, at: i32, entry: &Array) -> Changed {
    let parts = x.split_at_indices(&[at, at + 1], 1)?;
    concatenate(&[&parts[0], entry, &parts[2]], 1)
}

/// RMS norm without a weight over the last axis.
pub(crate) fn rms_norm(x: &Array) -> Changed {
    fast::rms_norm(wide(x)?, None, 1e-6)?.as_dtype(x.dtype())
}

/// Layer norm without parameters over the last axis.
pub(crate) fn layer_norm(x: &Array, eps: f32) -> Changed {
    fast::layer_norm(wide(x)?, None, None, eps)?.as_dtype(x.dtype())
}

/// Layer norm by the standard deviation of a sample, which divides by one less than the count.
pub(crate) fn sample_layer_norm(x: &Array, eps: f32) -> Changed {
    let x32 = wide(x)?;
    let spread = x32.var_axis(-1, true, 1)?.add(Array::from_f32(eps))?.sqrt()?;
    x32.subtract(x32.mean_axis(-1, true)?)?.divide(spread)?.as_dtype(x.dtype())
}

/// Layer norm that forgets to subtract the mean.
pub(crate) fn mean_kept(x: &Array) -> Changed {
    let x32 = wide(x)?;
    let spread = x32.var_axis(-1, true, None)?.add(Array::from_f32(1e-6))?.sqrt()?;
    x32.divide(spread)?.as_dtype(x.dtype())
}

/// Layer norm that forgets to divide.
pub(crate) fn mean_taken(x: &Array) -> Changed {
    let x32 = wide(x)?;
    x32.subtract(x32.mean_axis(-1, true)?)?.as_dtype(x.dtype())
}

/// `x · (1 + scale) + shift`, with scale and shift of `[batch, dim]`.
pub(crate) fn modulated(x: &Array, scale: &Array, shift: &Array) -> Changed {
    x.multiply(plus(scale, 1.0)?.expand_dims(1)?)?.add(shift.expand_dims(1)?)
}

/// Softmax over keys, of scores times `factor`. With `before`, query `i` sees the keys up to `i + before` only.
pub(crate) fn softmax(scores: &Array, factor: f32, before: Option<i32>) -> Changed {
    let mut scores = times(scores, factor)?;
    if let Some(before) = before {
        let visible = tri::<bool>(scores.dim(-2), Some(scores.dim(-1)), Some(before))?;
        scores = ops::select(&visible, &scores, Array::from_f32(f32::NEG_INFINITY))?;
    }
    softmax_axis(&scores, -1, true)
}

/// Which two features are rotated together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// One feature from each half.
    Halves,
    /// Neighbouring features.
    Neighbours,
}

/// Rotates pairs of the last axis. `cos` and `sin` have one number per pair and broadcast against the pairs.
pub(crate) fn turned(x: &Array, cos: &Array, sin: &Array, pairs: Pairs) -> Changed {
    let half = x.dim(-1) / 2;
    let mut shape = x.shape().to_vec();
    shape.pop();
    let apart = match pairs {
        Pairs::Halves => wide(x)?.split_equal(2, -1)?,
        Pairs::Neighbours => {
            let paired = wide(x)?.reshape(&[&shape[..], &[half, 2]].concat())?;
            let of = |i: i32| paired.try_index((mlx_rs::ops::indexing::Ellipsis, i));
            vec![of(0)?, of(1)?]
        }
    };
    let (a, b) = (&apart[0], &apart[1]);
    let first = a.multiply(cos)?.subtract(b.multiply(sin)?)?;
    let second = b.multiply(cos)?.add(a.multiply(sin)?)?;
    let both = match pairs {
        Pairs::Halves => concatenate(&[&first, &second], -1)?,
        Pairs::Neighbours => ops::stack(&[&first, &second], -1)?.reshape(x.shape())?,
    };
    both.as_dtype(x.dtype())
}

/// Every second entry of the last axis, for a table that has each number twice, once per feature of a pair.
pub(crate) fn once(table: &Array) -> Changed {
    taken(table, -1, (0..table.dim(-1)).step_by(2))
}

/// The real and the imaginary parts of a complex table.
pub(crate) fn real_and_imaginary(table: &Array) -> Result<(Array, Array), Exception> {
    let numbers = table.contiguous()?.view_dtype(Dtype::Float32)?;
    let count = numbers.dim(-1);
    Ok((taken(&numbers, -1, (0..count).step_by(2))?, taken(&numbers, -1, (1..count).step_by(2))?))
}

/// A complex table with the opposite angles.
pub(crate) fn conjugated(table: &Array) -> Changed {
    let (real, imaginary) = real_and_imaginary(table)?;
    complex(&real, &imaginary.negative()?)
}

/// Complex numbers with these real and imaginary parts.
pub(crate) fn complex(real: &Array, imaginary: &Array) -> Changed {
    let both = ops::stack(&[real, imaginary], -1)?;
    both.contiguous()?.view_dtype(Dtype::Complex64)?.squeeze_axes(&[-1])
}
