//! Converts between MLX arrays and host tensors. No other module reads an array's memory.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use mlx_rs::error::{AsSliceError, Exception};
use mlx_rs::{Array, ArrayElement, Dtype as MlxDtype, complex64};
use thiserror::Error;

use super::source_place::without_places;
use mlx_parity_core::record;
use mlx_parity_core::tensor::{Dtype, Tensor, TensorView, ViewError};

/// Why an MLX array could not be copied to the host, or a host tensor could not become an array.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// MLX could not compute or return the values. The message is MLX's own.
    #[error("MLX: {0}")]
    Mlx(String),
    /// The tensor of this shape is too large: MLX counts the elements of an array in 32 bits.
    #[error("a tensor of shape {0:?} has more elements than an MLX array can have")]
    TooLarge(Vec<usize>),
    /// The bytes that MLX returned do not match the array's shape.
    #[error(transparent)]
    View(#[from] ViewError),
}

impl From<Exception> for ArrayError {
    fn from(exception: Exception) -> Self {
        Self::Mlx(mlx_message(exception.what()))
    }
}

impl From<AsSliceError> for ArrayError {
    fn from(error: AsSliceError) -> Self {
        Self::Mlx(mlx_message(&error.to_string()))
    }
}

/// Returns an MLX error message without the places that say nothing about the port.
pub(crate) fn mlx_message(text: &str) -> String {
    without_places(text)
}

/// Returns the dtype of an array.
pub(super) fn dtype_of(array: &Array) -> Dtype {
    match array.dtype() {
        MlxDtype::Bool => Dtype::Bool,
        MlxDtype::Uint8 => Dtype::Uint8,
        MlxDtype::Uint16 => Dtype::Uint16,
        MlxDtype::Uint32 => Dtype::Uint32,
        MlxDtype::Uint64 => Dtype::Uint64,
        MlxDtype::Int8 => Dtype::Int8,
        MlxDtype::Int16 => Dtype::Int16,
        MlxDtype::Int32 => Dtype::Int32,
        MlxDtype::Int64 => Dtype::Int64,
        MlxDtype::Float16 => Dtype::Float16,
        MlxDtype::Bfloat16 => Dtype::Bfloat16,
        MlxDtype::Float32 => Dtype::Float32,
        MlxDtype::Float64 => Dtype::Float64,
        MlxDtype::Complex64 => Dtype::Complex64,
    }
}

/// Returns the dtype and the shape of an array, without evaluating it.
pub(super) fn info_of(array: &Array) -> record::TensorInfo {
    let shape = array.shape().iter().map(|&length| length as usize).collect();
    record::TensorInfo { dtype: dtype_of(array), shape }
}

/// Evaluates `array` and copies it to the host in row-major order. The array can have any strides.
pub(crate) fn to_host(array: &Array) -> Result<Tensor, ArrayError> {
    let dtype = dtype_of(array);
    let shape: Vec<usize> = array.shape().iter().map(|&length| length as usize).collect();
    array.eval()?;
    let bytes = match bytes_of(array, dtype) {
        // Only if needed, because a second evaluation takes as long as a small stage.
        Err(AsSliceError::NotContiguous) => bytes_of(&array.contiguous()?, dtype)?,
        bytes => bytes?,
    };
    Ok(Tensor::from_vec(dtype, shape, bytes)?)
}

/// Returns the bytes of an array in row-major order, or an error if the array has another layout.
fn bytes_of(array: &Array, dtype: Dtype) -> Result<Vec<u8>, AsSliceError> {
    fn plain<T: ArrayElement + Pod>(array: &Array) -> Result<Vec<u8>, AsSliceError> {
        Ok(bytemuck::cast_slice(array.try_as_slice::<T>()?).to_vec())
    }
    match dtype {
        // MLX returns no slice for an empty array.
        _ if array.size() == 0 => Ok(Vec::new()),
        Dtype::Bool => Ok(array.try_as_slice::<bool>()?.iter().map(|&bit| u8::from(bit)).collect()),
        Dtype::Uint8 => plain::<u8>(array),
        Dtype::Uint16 => plain::<u16>(array),
        Dtype::Uint32 => plain::<u32>(array),
        Dtype::Uint64 => plain::<u64>(array),
        Dtype::Int8 => plain::<i8>(array),
        Dtype::Int16 => plain::<i16>(array),
        Dtype::Int32 => plain::<i32>(array),
        Dtype::Int64 => plain::<i64>(array),
        Dtype::Float16 => plain::<f16>(array),
        Dtype::Bfloat16 => plain::<bf16>(array),
        Dtype::Float32 => plain::<f32>(array),
        Dtype::Float64 => plain::<f64>(array),
        Dtype::Complex64 => Ok(array
            .try_as_slice::<complex64>()?
            .iter()
            .flat_map(|value| [value.re, value.im].map(f32::to_ne_bytes))
            .flatten()
            .collect()),
    }
}

/// Returns a new, evaluated array with the same dtype, shape and elements.
pub(super) fn from_host(view: &TensorView<'_>) -> Result<Array, ArrayError> {
    let too_large = || ArrayError::TooLarge(view.shape().to_vec());
    let shape: Vec<i32> =
        view.shape().iter().map(|&d| i32::try_from(d)).collect::<Result<_, _>>().map_err(|_| too_large())?;
    i32::try_from(view.len()).map_err(|_| too_large())?;
    let mut bytes = vec![0; view.len() * view.dtype().size()];
    view.gather(0, &mut bytes);
    Ok(match view.dtype() {
        Dtype::Bool => Array::from_iter(bytes.iter().map(|&byte| byte != 0), &shape),
        Dtype::Uint8 => Array::from_slice(&elements::<u8>(&bytes), &shape),
        Dtype::Uint16 => Array::from_slice(&elements::<u16>(&bytes), &shape),
        Dtype::Uint32 => Array::from_slice(&elements::<u32>(&bytes), &shape),
        Dtype::Uint64 => Array::from_slice(&elements::<u64>(&bytes), &shape),
        Dtype::Int8 => Array::from_slice(&elements::<i8>(&bytes), &shape),
        Dtype::Int16 => Array::from_slice(&elements::<i16>(&bytes), &shape),
        Dtype::Int32 => Array::from_slice(&elements::<i32>(&bytes), &shape),
        Dtype::Int64 => Array::from_slice(&elements::<i64>(&bytes), &shape),
        Dtype::Float16 => Array::from_slice(&elements::<f16>(&bytes), &shape),
        Dtype::Bfloat16 => Array::from_slice(&elements::<bf16>(&bytes), &shape),
        Dtype::Float32 => Array::from_slice(&elements::<f32>(&bytes), &shape),
        Dtype::Float64 => Array::from_slice_f64(&elements::<f64>(&bytes), &shape),
        Dtype::Complex64 => {
            let values = elements::<[f32; 2]>(&bytes).into_iter().map(|[re, im]| complex64 { re, im });
            Array::from_iter(values, &shape)
        }
    })
}

fn elements<T: Pod + Zeroable>(bytes: &[u8]) -> Vec<T> {
    bytemuck::pod_collect_to_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_survives_a_round_trip() {
        for dtype in Dtype::ALL {
            // Bytes of 0 and 1 are valid elements of every dtype, and show a wrong order of bytes or elements.
            let bytes: Vec<u8> = (0..6 * dtype.size()).map(|i| u8::from(i % 3 == 0)).collect();
            let tensor = Tensor::from_vec(dtype, vec![2, 3], bytes.clone()).unwrap();
            let array = from_host(&tensor.view()).unwrap();
            assert_eq!(dtype_of(&array), dtype);
            let back = to_host(&array).unwrap();
            assert_eq!((back.dtype(), back.shape()), (dtype, &[2, 3][..]));
            assert_eq!(back.view().row_major_bytes(), Some(&bytes[..]), "{dtype}");
        }
    }

    #[test]
    fn views_scalars_and_empty_arrays_are_copied_in_logical_order() {
        let transposed = Array::from_slice(&[0i32, 1, 2, 3, 4, 5], &[2, 3]).transpose().unwrap();
        let host = to_host(&transposed).unwrap();
        assert_eq!(host.shape(), [3, 2]);
        assert_eq!(elements::<i32>(host.view().row_major_bytes().unwrap()), [0, 3, 1, 4, 2, 5]);
        assert_eq!(to_host(&Array::from_f32(2.0)).unwrap().shape(), [0; 0]);
        let empty = to_host(&Array::from_slice::<f32>(&[], &[0, 4])).unwrap();
        assert!(empty.is_empty() && empty.shape() == [0, 4]);
    }
}
