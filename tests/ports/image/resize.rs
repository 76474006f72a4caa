//! Resizing, as Pillow and torch do it with antialiasing, and as torch and OpenCV do it without.

use mlx_rs::Array;
use mlx_rs::error::Exception;
use serde::Deserialize;

/// The function that weights old pixels by their distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// A triangle.
    Bilinear,
    /// Cubic convolution.
    Bicubic,
}

/// A way to resize.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Resampler {
    /// The function.
    pub kernel: Kernel,
    /// Whether the function is as wide as a new pixel where the picture shrinks, so that every old pixel counts.
    pub antialias: bool,
    /// `a` of cubic convolution: -0.5 in Pillow, and -0.75 in OpenCV and in torch without antialiasing.
    pub cubic: f64,
}

impl Resampler {
    /// Resizes `[height, width, channels]`.
    pub fn resize(&self, x: &Array, height: usize, width: usize) -> Result<Array, Exception> {
        let (rows, columns, channels) = (x.dim(0), x.dim(1), x.dim(2));
        // One product per axis: the weights are matrices of new by old pixels.
        let narrow = self.weights(columns as usize, width).matmul(x)?;
        let flat = narrow.reshape(&[rows, -1])?;
        let small = self.weights(rows as usize, height).matmul(&flat)?;
        small.reshape(&[height as i32, width as i32, channels])
    }

    /// The weights `[to, from]` of old pixels. Each row adds up to 1.
    fn weights(&self, from: usize, to: usize) -> Array {
        let mut all = vec![0.0; from * to];
        for (new, row) in all.chunks_exact_mut(from).enumerate() {
            self.weigh(new, from as f64 / to as f64, row);
        }
        Array::from_iter(all.into_iter().map(|weight| weight as f32), &[to as i32, from as i32])
    }

    fn weigh(&self, new: usize, scale: f64, row: &mut [f64]) {
        let radius = if self.kernel == Kernel::Bilinear { 1.0 } else { 2.0 };
        let width = if self.antialias { scale.max(1.0) } else { 1.0 };
        let centre = (new as f64 + 0.5) * scale;
        let first = (centre - radius * width + 0.5).floor() as i64;
        let end = (centre + radius * width + 0.5).floor() as i64;
        let last = row.len() as i64 - 1;
        for at in first..end {
            let weight = self.weight(((at as f64 + 0.5 - centre) / width).abs());
            // With antialiasing, pixels beyond the edges do not count. Without it, the outermost pixels repeat.
            if self.antialias && !(0..=last).contains(&at) {
                continue;
            }
            row[at.clamp(0, last) as usize] += weight;
        }
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|weight| *weight /= sum);
    }

    fn weight(&self, x: f64) -> f64 {
        let a = self.cubic;
        match self.kernel {
            Kernel::Bilinear => (1.0 - x).max(0.0),
            Kernel::Bicubic if x < 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            Kernel::Bicubic if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            Kernel::Bicubic => 0.0,
        }
    }
}
