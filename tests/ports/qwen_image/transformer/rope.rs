//! Rotary positions in frames, rows and columns. A pair of features is a complex number, which is multiplied by another one.

use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, ops};

/// Rotary position embedding over three axes.
#[derive(Debug, Clone)]
pub struct Rope {
    /// Features per head for frame, row and column.
    pub axes: [i32; 3],
    /// Base of the frequencies.
    pub theta: f32,
}

impl Rope {
    /// Tables `[tokens, pairs of features]` of patches and of text tokens.
    ///
    /// Rows and columns are counted from the middle of an image. The frame of an image is its number. Text tokens continue
    /// on the diagonal after the end of the largest image.
    pub fn tables(&self, shapes: &[[i32; 3]], words: i32) -> Result<(Array, Array), Exception> {
        let middle = |length: i32| length - length / 2;
        let mut patches = Vec::new();
        for (number, &[frames, height, width]) in (0..).zip(shapes) {
            for frame in number..number + frames {
                for row in 0..height {
                    let place = |column| [frame, row - middle(height), column - middle(width)];
                    patches.extend((0..width).map(place));
                }
            }
        }
        let end = shapes.iter().map(|[_, height, width]| (height / 2).max(width / 2)).max().unwrap_or(0);
        let words: Vec<_> = (end..end + words).map(|place| [place; 3]).collect();
        Ok((self.table(&patches)?, self.table(&words)?))
    }

    fn table(&self, places: &[[i32; 3]]) -> Result<Array, Exception> {
        // The axis and the frequency of each pair.
        let pairs: Vec<(usize, f32)> = (0..3)
            .flat_map(|axis| {
                let dim = self.axes[axis];
                (0..dim).step_by(2).map(move |i| (axis, 1.0 / self.theta.powf(i as f32 / dim as f32)))
            })
            .collect();
        let angles: Vec<f32> = places
            .iter()
            .flat_map(|place| pairs.iter().map(|&(axis, frequency)| place[axis] as f32 * frequency))
            .collect();
        let angles = Array::from_slice(&angles, &[places.len() as i32, pairs.len() as i32]);
        ops::stack(&[angles.cos()?, angles.sin()?], -1)?.view_dtype(Dtype::Complex64)?.squeeze_axes(&[-1])
    }
}

/// Rotates `[batch, tokens, heads, features]` by a table, in float32.
pub fn rotate(x: &Array, table: &Array) -> Result<Array, Exception> {
    let pairs = x.as_dtype(Dtype::Float32)?.contiguous()?.view_dtype(Dtype::Complex64)?;
    let turned = pairs.multiply(table.expand_dims(1)?)?;
    turned.view_dtype(Dtype::Float32)?.as_dtype(x.dtype())
}
