//! Between MLX's arrays and tensors as bytes. Nothing else here reads an array's memory.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use mlx_rs::error::{AsSliceError, Exception};
use mlx_rs::{Array, ArrayElement, Dtype as MlxDtype, complex64};
use thiserror::Error;

use crate::record;
use crate::tensor::{Dtype, Tensor, TensorView, ViewError};

/// Why an array and a tensor could not become each other.
#[derive(Debug, Error)]
pub enum ArrayError {
    /// MLX could not compute or hand over the values.
    #[error("MLX: {0}")]
    Mlx(String),
    /// MLX counts the elements of an array in 32 bits.
    #[error("a tensor of shape {0:?} has more elements than an MLX array can have")]
    TooLarge(Vec<usize>),
    /// What MLX handed over does not fit its own shape.
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

/// MLX's words without the path inside mlx-c that they end in, which tells a port's author nothing.
pub(crate) fn mlx_message(text: &str) -> String {
    let is_source = |tail: &str| {
        let line = tail.rsplit(':').next().unwrap_or_default();
        tail.contains(".cpp:") && !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
    };
    let end = text.rfind(" at /").filter(|&end| is_source(text[end..].trim_end()));
    end.map_or(text, |end| &text[..end]).trim().to_owned()
}

/// The dtype of an array, in our words.
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

/// The dtype and the shape of an array, which are known before it is evaluated.
pub(super) fn form_of(array: &Array) -> record::Tensor {
    let shape = array.shape().iter().map(|&length| length as usize).collect();
    record::Tensor { dtype: dtype_of(array), shape }
}

/// Evaluates `array` and copies it to the host in row-major order, whatever its strides are.
pub(super) fn to_host(array: &Array) -> Result<Tensor, ArrayError> {
    let dtype = dtype_of(array);
    let shape: Vec<usize> = array.shape().iter().map(|&length| length as usize).collect();
    array.eval()?;
    let bytes = match bytes_of(array, dtype) {
        // Only now: a second evaluation takes as long as a small stage does.
        Err(AsSliceError::NotContiguous) => bytes_of(&array.contiguous()?, dtype)?,
        bytes => bytes?,
    };
    Ok(Tensor::from_vec(dtype, shape, bytes)?)
}

/// The elements of an array that lies in row-major order.
fn bytes_of(array: &Array, dtype: Dtype) -> Result<Vec<u8>, AsSliceError> {
    fn plain<T: ArrayElement + Pod>(array: &Array) -> Result<Vec<u8>, AsSliceError> {
        Ok(bytemuck::cast_slice(array.try_as_slice::<T>()?).to_vec())
    }
    match dtype {
        // MLX hands over no slice of an empty array.
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

/// A new, evaluated array of the same elements, made on the calling thread.
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
    fn every_dtype_goes_there_and_back() {
        for dtype in Dtype::ALL {
            // Bytes of 0 and 1 are valid elements of every dtype, and tell the order of bytes and elements.
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
    fn views_scalars_and_empty_arrays_are_copied_as_they_read() {
        let turned = Array::from_slice(&[0i32, 1, 2, 3, 4, 5], &[2, 3]).transpose().unwrap();
        let host = to_host(&turned).unwrap();
        assert_eq!(host.shape(), [3, 2]);
        assert_eq!(elements::<i32>(host.view().row_major_bytes().unwrap()), [0, 3, 1, 4, 2, 5]);
        assert_eq!(to_host(&Array::from_f32(2.0)).unwrap().shape(), [0; 0]);
        let empty = to_host(&Array::from_slice::<f32>(&[], &[0, 4])).unwrap();
        assert!(empty.is_empty() && empty.shape() == [0, 4]);
    }

    #[test]
    fn what_mlx_says_is_told_without_its_own_paths() {
        assert_eq!(
            mlx_message("[matmul] Last dimension at 3 differs at /x/mlx/c/ops.cpp:22"),
            "[matmul] Last dimension at 3 differs"
        );
        assert_eq!(mlx_message("plain"), "plain");
        assert_eq!(mlx_message("no tokenizer at /models/x: denied"), "no tokenizer at /models/x: denied");
    }
}
