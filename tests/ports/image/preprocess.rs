//! From the bytes of a picture to what a vision model is given.

use mlx_parity_tap::tap;
use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::ops::{clip, round};
use mlx_rs::{Array, Dtype};
use serde::Deserialize;

use super::patches::Patches;
use super::resize::Resampler;

/// A front-end.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// The size to resize to.
    pub size: Size,
    /// How pixels are resized.
    pub resampler: Resampler,
    /// The height and width of the part in the middle that is kept.
    pub crop: Option<usize>,
    /// The mean of each channel, of values from 0 to 1.
    pub mean: [f32; 3],
    /// The standard deviation of each channel.
    pub deviation: [f32; 3],
    /// How the picture is cut into patches. Otherwise the model is given the picture with its channels first.
    pub patches: Option<Patches>,
}

/// The size that a picture is resized to.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// The shorter side gets this length, and the other side keeps its ratio.
    Shortest(usize),
    /// Each side becomes the nearest multiple of this length.
    MultipleOf(usize),
}

impl Size {
    /// The new height and width of a picture.
    pub fn of(self, height: usize, width: usize) -> (usize, usize) {
        match self {
            Self::Shortest(length) if height <= width => (length, length * width / height),
            Self::Shortest(length) => (length * height / width, length),
            Self::MultipleOf(length) => {
                // As Python rounds: halves go to the even number.
                let nearest = |side: usize| (side as f64 / length as f64).round_ties_even() as usize * length;
                (nearest(height).max(length), nearest(width).max(length))
            }
        }
    }
}

/// Maps the bytes of a picture, `[height, width, 3]`, to what the model is given.
pub fn preprocess(config: &Config, bytes: &Array) -> Result<Array, Exception> {
    let (height, width) = config.size.of(bytes.dim(0) as usize, bytes.dim(1) as usize);
    let x = bytes.as_dtype(Dtype::Float32)?;
    let resized = tap("resized", config.resampler.resize(&x, height, width)?)?;
    // Cubic convolution overshoots. A picture has bytes again before anything else happens.
    let limits = (Array::from_f32(0.0), Array::from_f32(255.0));
    let pixels = tap("pixels", round(clip(resized, (&limits.0, &limits.1))?, None)?.as_dtype(Dtype::Uint8)?)?;
    let pixels = match config.crop {
        Some(side) => {
            let first = |length: usize| (length.saturating_sub(side) / 2) as i32;
            let (top, left, side) = (first(height), first(width), side as i32);
            pixels.try_index((top..top + side, left..left + side))?
        }
        None => pixels,
    };
    let scaled = pixels.as_dtype(Dtype::Float32)?.multiply(Array::from_f32(1.0 / 255.0))?;
    let (mean, deviation) =
        (Array::from_slice(&config.mean, &[3]), Array::from_slice(&config.deviation, &[3]));
    let normalised = tap("normalised", scaled.subtract(mean)?.divide(deviation)?)?;
    match &config.patches {
        Some(patches) => tap("patches", patches.cut(&normalised)?),
        None => tap("pixel_values", normalised.transpose_axes(&[2, 0, 1])?),
    }
}
