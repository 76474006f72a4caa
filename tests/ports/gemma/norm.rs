//! RMSNorm whose weight is stored minus one.

use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::{Module, Param};
use mlx_rs::{Array, Dtype, fast, ops};

/// `x / rms(x) · (1 + weight)`, computed in float32 and rounded once.
#[derive(Debug, Clone, ModuleParameters)]
pub struct Norm {
    /// Factor per feature, minus one.
    #[param]
    pub weight: Param<Array>,
    /// Added to the mean square.
    pub eps: f32,
}

impl Norm {
    /// Creates a norm with a factor of one.
    ///
    /// # Errors
    /// When MLX cannot make the weight.
    pub fn new(dim: i32, eps: f32) -> Result<Self, Exception> {
        Ok(Self { weight: Param::new(ops::zeros::<f32>(&[dim])?), eps })
    }
}

impl Module<&Array> for Norm {
    type Error = Exception;
    type Output = Array;

    fn forward(&mut self, x: &Array) -> Result<Array, Exception> {
        let factor = self.weight.as_dtype(Dtype::Float32)?.add(Array::from_f32(1.0))?;
        fast::rms_norm(x.as_dtype(Dtype::Float32)?, Some(&factor), self.eps)?.as_dtype(x.dtype())
    }

    fn training_mode(&mut self, _: bool) {}
}
