//! Rotary positions: each pair of features, one from each half of a head, is rotated by the position of the token.

use std::ops::Range;

use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, ops};

/// Frequencies of the pairs of a head's features.
#[derive(Debug, Clone)]
pub struct Rope {
    frequencies: Vec<f32>,
}

impl Rope {
    /// `theta^(-2 i / dim)` for each pair `i` of `dim` features.
    pub fn new(dim: i32, theta: f32) -> Self {
        let frequencies = (0..dim).step_by(2).map(|i| 1.0 / theta.powf(i as f32 / dim as f32)).collect();
        Self { frequencies }
    }

    /// One frequency per pair of features.
    pub fn frequencies(&self) -> Array {
        Array::from_slice(&self.frequencies, &[self.frequencies.len() as i32])
    }

    /// Cosines and sines `[1, positions, dim]`, the same in both halves.
    pub fn tables(&self, positions: Range<i32>, dtype: Dtype) -> Result<(Array, Array), Exception> {
        self.padded_tables(positions, &[0], dtype)
    }

    /// Cosines and sines `[batch, slots, dim]` where each sequence has so many tokens of padding before it. A sequence counts its
    /// positions from its own first token; padding has position 0.
    pub fn padded_tables(
        &self,
        slots: Range<i32>,
        padding: &[i32],
        dtype: Dtype,
    ) -> Result<(Array, Array), Exception> {
        let positions =
            padding.iter().flat_map(|before| slots.clone().map(move |slot| (slot - before).max(0)));
        let angles: Vec<f32> = positions
            .flat_map(|position| self.frequencies.iter().map(move |frequency| position as f32 * frequency))
            .collect();
        let shape = [padding.len() as i32, slots.len() as i32, self.frequencies.len() as i32];
        let angles = Array::from_slice(&angles, &shape);
        let angles = ops::concatenate(&[&angles, &angles], -1)?;
        Ok((angles.cos()?.as_dtype(dtype)?, angles.sin()?.as_dtype(dtype)?))
    }
}

/// Rotates features by tables that broadcast against them: `x cos + rotated(x) sin`, where `rotated` puts the second
/// half, negated, before the first.
pub fn rotate(x: &Array, (cos, sin): (&Array, &Array)) -> Result<Array, Exception> {
    let halves = x.split_equal(2, -1)?;
    let rotated = ops::concatenate(&[&halves[1].negative()?, &halves[0]], -1)?;
    x.multiply(cos)?.add(rotated.multiply(sin)?)
}
