//! Rotary position embeddings: pairs of features are rotated by the position of their token.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::ops::stack;
use mlx_rs::{Array, Dtype};

/// Rotary position embedding over several axes.
#[derive(Debug, Clone)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// Features for each axis.
    pub axes: Vec<i32>,
}

/// Cosine and sine per token and feature, float32, `[tokens, features]`.
#[derive(Debug, Clone)]
pub struct Tables {
    cos: Array,
    sin: Array,
}

impl Rope {
    /// The tables for tokens at `ids`, `[tokens, axes]`.
    ///
    /// Angles are computed here and not by MLX: the reference computes them in float64, which no GPU of MLX does.
    pub fn tables(&self, ids: &Array) -> Result<Tables, Exception> {
        if ids.dim(-1) as usize != self.axes.len() {
            let (found, wanted) = (ids.shape(), self.axes.len());
            return Err(Exception::custom(format!("expected ids with {wanted} axes, found {found:?}")));
        }
        let ids = ids.as_dtype(Dtype::Float32)?.contiguous()?;
        let places: &[f32] = ids.try_as_slice().map_err(|error| Exception::custom(error.to_string()))?;
        let mut angles = Vec::new();
        for token in places.chunks_exact(self.axes.len()) {
            for (&place, &features) in token.iter().zip(&self.axes) {
                // Both features of a pair have the same angle.
                angles.extend((0..features).map(|feature| {
                    let exponent = f64::from(feature - feature % 2) / f64::from(features);
                    f64::from(place) / self.theta.powf(exponent)
                }));
            }
        }
        let shape = [ids.dim(0), self.axes.iter().sum()];
        let table =
            |of: fn(f64) -> f64| Array::from_iter(angles.iter().map(|&angle| of(angle) as f32), &shape);
        let _scope = scope("pos_embed", None);
        Ok(Tables { cos: tap("cos", table(f64::cos))?, sin: tap("sin", table(f64::sin))? })
    }
}

impl Tables {
    /// Rotates each pair of neighbouring features of `[batch, tokens, heads, features]`, in float32.
    pub(super) fn turn(&self, x: &Array) -> Result<Array, Exception> {
        let wide = x.as_dtype(Dtype::Float32)?;
        let pairs = wide.reshape(&[x.dim(0), x.dim(1), x.dim(2), -1, 2])?.split_equal(2, -1)?;
        let (real, imaginary) = (pairs[0].squeeze_axes(&[-1])?, pairs[1].squeeze_axes(&[-1])?);
        let turned = stack(&[&imaginary.negative()?, &real], -1)?.reshape(x.shape())?;
        let over_heads = |table: &Array| table.expand_dims(1);
        let sum = wide.multiply(over_heads(&self.cos)?)?.add(turned.multiply(over_heads(&self.sin)?)?)?;
        sum.as_dtype(x.dtype())
    }
}
