//! What mistakes do to an array. Each gives back the dtype that it was given.

use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{concatenate, softmax_axis, tri};
use mlx_rs::{Array, Dtype, fast, ops, random};

type Changed = Result<Array, Exception>;

/// The values of a transposed array, read in the order of its memory under the shape that it had before.
pub(crate) fn memory_of(x: &Array, axes: &[i32]) -> Changed {
    x.transpose_axes(axes)?.reshape(x.shape())
}

/// Equal parts of an axis in another order.
pub(crate) fn parts(x: &Array, axis: i32, order: &[usize]) -> Changed {
    let parts = x.split_equal(order.len() as i32, axis)?;
    let parts: Vec<&Array> = order.iter().map(|&part| &parts[part]).collect();
    concatenate(&parts, axis)
}

/// The last axis, which is `sizes` of each other, with the last two of these exchanged.
pub(crate) fn regrouped(x: &Array, sizes: &[i32; 3]) -> Changed {
    let rows = x.reshape(&[-1, sizes[0], sizes[1], sizes[2]])?;
    rows.transpose_axes(&[0, 1, 3, 2])?.reshape(x.shape())
}

/// Entries of an axis by their numbers.
pub(crate) fn taken(x: &Array, axis: i32, numbers: impl IntoIterator<Item = i32>) -> Changed {
    let numbers: Vec<i32> = numbers.into_iter().collect();
    x.take_axis(Array::from_slice(&numbers, &[numbers.len() as i32]), axis)
}

pub(crate) fn backwards(x: &Array, axis: i32) -> Changed {
    taken(x, axis, (0..x.dim(axis)).rev())
}

/// Every entry of an axis `by` places later, and those that fall off the end first.
pub(crate) fn later(x: &Array, axis: i32, by: i32) -> Changed {
    let length = x.dim(axis);
    taken(x, axis, (0..length).map(|i| (i - by).rem_euclid(length)))
}

/// The first elements of `memory` from one on, under the shape of `x`.
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

/// Rounded to another dtype and back.
pub(crate) fn through(x: &Array, dtype: Dtype) -> Changed {
    x.as_dtype(dtype)?.as_dtype(x.dtype())
}

/// Every number by itself.
pub(crate) fn each(x: &Array, of: impl Fn(f32) -> f32) -> Changed {
    let numbers: Vec<f32> =
        wide(x)?.contiguous()?.to_vec_exact().map_err(|error| Exception::custom(error.to_string()))?;
    Array::from_iter(numbers.into_iter().map(of), x.shape()).as_dtype(x.dtype())
}

/// With so many bits of the mantissa, the others cut off: 10 are TF32, 3 are one of the formats of 8 bits.
pub(crate) fn mantissa(x: &Array, bits: u32) -> Changed {
    each(x, |number| f32::from_bits(number.to_bits() & (u32::MAX << (23 - bits))))
}

/// As many numbers with the same mean and spread, from a generator of its own.
pub(crate) fn drawn(x: &Array) -> Changed {
    let x32 = wide(x)?;
    let (mean, spread) = (x32.mean(None)?, x32.var(None, None)?.sqrt()?);
    let noise = random::normal::<f32>(x.shape(), None, None, &random::key(11)?)?;
    noise.multiply(spread)?.add(mean)?.as_dtype(x.dtype())
}

/// Each number off by a part of itself, `spread` on average, from a generator of its own.
pub(crate) fn blurred(x: &Array, spread: f32) -> Changed {
    let noise = random::normal::<f32>(x.shape(), None, None, &random::key(12)?)?;
    wide(x)?.multiply(plus(&times(&noise, spread)?, 1.0)?)?.as_dtype(x.dtype())
}

/// What lies in memory that belongs to something else: small integers, read as floats.
pub(crate) fn garbage(shape: &[i32], dtype: Dtype) -> Changed {
    let count: i32 = shape.iter().product();
    let unit = if dtype == Dtype::Bfloat16 { 1 << 16 } else { 1 };
    let words = (0..count as u32).map(|i| f32::from_bits((i * 7 % 100 + 1) * unit));
    Array::from_iter(words, shape).as_dtype(dtype)
}

/// With entry `at` of axis 1 replaced.
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

/// Layer norm that forgets to take the mean away.
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

/// Softmax over keys, of scores times `factor`; with `before` no key sees that entry's own number plus it, or more.
pub(crate) fn softmax(scores: &Array, factor: f32, before: Option<i32>) -> Changed {
    let mut scores = times(scores, factor)?;
    if let Some(before) = before {
        let visible = tri::<bool>(scores.dim(-2), Some(scores.dim(-1)), Some(before))?;
        scores = ops::select(&visible, &scores, Array::from_f32(f32::NEG_INFINITY))?;
    }
    softmax_axis(&scores, -1, true)
}

/// Which features make a pair that is turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// One from each half.
    Halves,
    /// Neighbours.
    Neighbours,
}

/// Turns pairs of the last axis by angles whose cosines and sines, one a pair, broadcast against the pairs.
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

/// Every second entry of the last axis: a table that has the same number for both features of a pair, once.
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
    let both = ops::stack(&[&real, &imaginary.negative()?], -1)?;
    both.contiguous()?.view_dtype(Dtype::Complex64)?.squeeze_axes(&[-1])
}
