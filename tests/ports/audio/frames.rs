//! Overlapping frames of a signal, and their sum.

use mlx_rs::error::Exception;
use mlx_rs::ops::{as_strided, concatenate, indexing, zeros};
use mlx_rs::{Array, ops};
use serde::Deserialize;

/// What stands before the first element of a signal and after its last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Padding {
    /// Zeros.
    Constant,
    /// The mirror image without the outermost element. mlx-rs has no such mode.
    Reflect,
}

/// Adds `count` elements on both sides of a vector.
pub fn padded(x: &Array, count: usize, padding: Padding) -> Result<Array, Exception> {
    let (count, length) = (count as i32, x.dim(0));
    match padding {
        _ if count == 0 => Ok(x.clone()),
        Padding::Constant => ops::pad(x, count, None, None),
        Padding::Reflect if count >= length => {
            Err(Exception::custom(format!("{length} elements have no mirror image of {count}")))
        }
        Padding::Reflect => {
            let before: Vec<i32> = (1..=count).rev().collect();
            let after: Vec<i32> = (length - 1 - count..length - 1).rev().collect();
            let taken = |at: Vec<i32>| x.take_axis(Array::from_slice(&at, &[count]), 0);
            concatenate(&[&taken(before)?, x, &taken(after)?], 0)
        }
    }
}

/// The frames of a vector: `[frames, size]`. Frame `i` starts at element `i * hop`.
pub fn framed(x: &Array, size: usize, hop: usize) -> Result<Array, Exception> {
    let length = x.dim(0) as usize;
    if length < size {
        return Err(Exception::custom(format!("{length} elements are less than a frame of {size}")));
    }
    let count = (length - size) / hop + 1;
    // The frames share memory. Strides count elements of a contiguous array.
    as_strided(x.contiguous()?, &[count as i32, size as i32][..], &[hop as i64, 1][..], 0)
}

/// The sum of frames `[frames, size]` at the places that they were taken from.
pub fn overlapped(frames: &Array, hop: usize) -> Result<Array, Exception> {
    let (count, size) = (frames.dim(0), frames.dim(1));
    let length = (count - 1) * hop as i32 + size;
    let places: Vec<i32> =
        (0..count).flat_map(|frame| (0..size).map(move |at| frame * hop as i32 + at)).collect();
    let places = Array::from_slice(&places, &[count * size]);
    // Every update is a slice of one element.
    let updates = frames.reshape(&[count * size, 1])?;
    indexing::scatter_add_single(zeros::<f32>(&[length])?, places, updates, 0)
}
