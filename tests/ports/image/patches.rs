//! Patches of a picture as rows, in the order in which Qwen-VL merges them.

use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::ops::broadcast_to;
use serde::Deserialize;

/// How a picture is cut.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Patches {
    /// Pixels along each side of a patch.
    pub size: i32,
    /// Patches along each side of a square that the model merges into one token.
    pub merge: i32,
    /// How often a picture is repeated, to be as long as a patch of a video.
    pub frames: i32,
}

impl Patches {
    /// Maps `[height, width, channels]` to `[patches, channels * frames * size * size]`. The patches of a square follow one
    /// another.
    pub fn cut(&self, x: &Array) -> Result<Array, Exception> {
        let Self { size, merge, frames } = *self;
        let (height, width, channels) = (x.dim(0), x.dim(1), x.dim(2));
        let side = size * merge;
        if height % side != 0 || width % side != 0 {
            return Err(Exception::custom(format!("{height} by {width} pixels are no multiple of {side}")));
        }
        let (rows, columns) = (height / side, width / side);
        let parts = x.reshape(&[rows, merge, size, columns, merge, size, channels])?;
        // Squares, patches of a square, channels, and the pixels of a patch.
        let parts = parts.transpose_axes(&[0, 3, 1, 4, 6, 2, 5])?.expand_dims(5)?;
        let shape = [rows, columns, merge, merge, channels, frames, size, size];
        broadcast_to(&parts, &shape)?.reshape(&[-1, channels * frames * size * size])
    }
}
