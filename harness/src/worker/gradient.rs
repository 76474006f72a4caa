//! Injection under `grad`: a golden that the gradient of the port's own array still flows through.

use mlx_rs::error::Exception;
use mlx_rs::{Array, ops, stop_gradient};

/// Returns the golden with the gradient of `array`: `golden + (x - stop_gradient(x))`.
///
/// The difference is exactly zero, so every element of the golden stays the same, and the derivative by `x` is one.
/// Where `x` is not finite, nothing is added. An array of another shape or without a gradient returns the golden alone.
///
/// A tap cannot see whether the port is being differentiated, so this is done for every injected golden.
pub(super) fn with_gradient(golden: Array, array: &Array) -> Result<Array, Exception> {
    if golden.shape() != array.shape() || !golden.dtype().is_float() || !array.dtype().is_float() {
        return Ok(golden);
    }
    let x = array.as_dtype(golden.dtype())?;
    let none = x.subtract(stop_gradient(&x)?)?;
    let finite = x.is_finite()?;
    golden.add(ops::select(&finite, &none, Array::from_f32(0.0).as_dtype(golden.dtype())?)?)
}

#[cfg(test)]
mod tests {
    use mlx_rs::transforms::value_and_grad;

    use super::*;

    /// The values of `with_gradient`, and the gradient of the sum of their squares, by the port's array.
    fn injected(golden: &[f32], array: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let shape = [golden.len() as i32];
        let golden = Array::from_slice(golden, &shape);
        let loss = |x: &[Array]| -> Result<Vec<Array>, Exception> {
            let out = with_gradient(golden.clone(), &x[0])?;
            Ok(vec![out.square()?.sum(None)?, out])
        };
        let (values, gradients) = value_and_grad(loss)(&[Array::from_slice(array, &shape)]).unwrap();
        (values[1].to_vec_exact().unwrap(), gradients[0].to_vec_exact().unwrap())
    }

    #[test]
    fn the_golden_is_exact_and_its_gradient_flows() {
        let golden = [1e-30, 0.1, -3.0];
        let (values, gradient) = injected(&golden, &[1e30, 7.7, 0.3]);
        assert_eq!(values, golden);
        assert_eq!(gradient, golden.map(|x| 2.0 * x), "as if the port had computed the golden");
    }

    #[test]
    fn what_is_not_finite_does_not_reach_the_golden() {
        let (values, gradient) = injected(&[1.0, 2.0, 3.0], &[f32::NAN, f32::INFINITY, 0.0]);
        assert_eq!(values, [1.0, 2.0, 3.0]);
        assert_eq!(gradient[2], 6.0);
        assert!(gradient.iter().all(|x| x.is_finite()), "{gradient:?}");
    }

    #[test]
    fn another_shape_returns_the_golden_alone() {
        let golden = Array::from_slice(&[1.0f32, 2.0], &[2]);
        let out = with_gradient(golden, &Array::from_slice(&[5.0f32], &[1])).unwrap();
        assert_eq!(out.to_vec_exact::<f32>().unwrap(), [1.0, 2.0]);
    }
}
