//! Windows. They are computed in float64, as libraries do, and then rounded.

use std::f64::consts::TAU;

use mlx_rs::Array;
use serde::Deserialize;

/// The shape of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// One period of a raised cosine.
    Hann,
    /// A raised cosine that does not reach 0.
    Hamming,
}

/// A window in the middle of a frame.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Window {
    /// Its shape.
    #[serde(default = "hann")]
    pub shape: Shape,
    /// Elements of the window.
    pub length: usize,
    /// Whether the element after the last one would be the first of the next period. Otherwise both ends are equal.
    pub periodic: bool,
}

fn hann() -> Shape {
    Shape::Hann
}

impl Window {
    /// The numbers of a frame of `n_fft` elements, with zeros on both sides of the window.
    pub fn numbers(&self, n_fft: usize) -> Vec<f64> {
        let steps = if self.periodic { self.length } else { self.length - 1 };
        let start = (n_fft - self.length) / 2;
        let mut frame = vec![0.0; n_fft];
        for (at, number) in frame[start..][..self.length].iter_mut().enumerate() {
            let cosine = (TAU * at as f64 / steps as f64).cos();
            *number = match self.shape {
                Shape::Hann => 0.5 - 0.5 * cosine,
                Shape::Hamming => 0.54 - 0.46 * cosine,
            };
        }
        frame
    }

    /// The same as a vector for MLX.
    pub fn array(&self, n_fft: usize) -> Array {
        Array::from_iter(self.numbers(n_fft).into_iter().map(|number| number as f32), &[n_fft as i32])
    }
}
