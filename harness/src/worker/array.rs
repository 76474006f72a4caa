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

/// Evaluates `array` and returns its elements in row-major order. The array can have any strides.
///
/// Elements that lie in this order are not copied: the tensor holds the array and reads MLX's memory. While it does, MLX
/// cannot reuse that memory, so drop the tensor as early as possible.
pub(crate) fn to_host(array: &Array) -> Result<Tensor, ArrayError> {
    let dtype = dtype_of(array);
    let shape: Vec<usize> = array.shape().iter().map(|&length| length as usize).collect();
    array.eval()?;
    let held = match HeldArray::new(array.clone(), dtype) {
        // Only if needed, because a second evaluation takes as long as a small stage.
        Err(AsSliceError::NotContiguous) => HeldArray::new(array.contiguous()?, dtype)?,
        held => held?,
    };
    // A small tensor is copied in less time than it takes to share it.
    if held.as_ref().len() <= COPIED {
        return Ok(Tensor::from_vec(dtype, shape, held.as_ref().to_vec())?);
    }
    Ok(Tensor::from_holder(dtype, shape, held)?)
}

/// Bytes up to which an array is copied to the host.
const COPIED: usize = 16 << 10;

/// An evaluated array, and where its elements lie in row-major order.
struct HeldArray {
    /// Keeps the memory alive. MLX writes to the memory of an evaluated array only if nobody else holds the array.
    _array: Array,
    bytes: *const [u8],
}

// SAFETY: other threads only read the bytes, which do not change while the array is held. They do not use the array, except to
// drop it, for which it is `Send`.
#[expect(unsafe_code, reason = "tensors are compared on all cores where MLX holds them")]
unsafe impl Send for HeldArray {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "tensors are compared on all cores where MLX holds them")]
unsafe impl Sync for HeldArray {}

impl AsRef<[u8]> for HeldArray {
    #[expect(unsafe_code, reason = "a struct cannot borrow from its own field")]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `new` took the pointer from a slice of the array, which lives as long as `self` and is not written to.
        unsafe { &*self.bytes }
    }
}

impl HeldArray {
    /// Returns an error if the elements are not in row-major order.
    fn new(array: Array, dtype: Dtype) -> Result<Self, AsSliceError> {
        let bytes = row_major_bytes(&array, dtype)?;
        Ok(Self { _array: array, bytes })
    }
}

/// Returns the bytes of an array in row-major order, or an error if the array has another layout.
fn row_major_bytes(array: &Array, dtype: Dtype) -> Result<*const [u8], AsSliceError> {
    fn bytes<T: ArrayElement>(array: &Array) -> Result<*const [u8], AsSliceError> {
        let elements = array.try_as_slice::<T>()?;
        Ok(std::ptr::slice_from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)))
    }
    match dtype {
        // MLX returns no slice for an empty array.
        _ if array.size() == 0 => Ok(&[]),
        Dtype::Bool => bytes::<bool>(array),
        Dtype::Uint8 => bytes::<u8>(array),
        Dtype::Uint16 => bytes::<u16>(array),
        Dtype::Uint32 => bytes::<u32>(array),
        Dtype::Uint64 => bytes::<u64>(array),
        Dtype::Int8 => bytes::<i8>(array),
        Dtype::Int16 => bytes::<i16>(array),
        Dtype::Int32 => bytes::<i32>(array),
        Dtype::Int64 => bytes::<i64>(array),
        Dtype::Float16 => bytes::<f16>(array),
        Dtype::Bfloat16 => bytes::<bf16>(array),
        Dtype::Float32 => bytes::<f32>(array),
        Dtype::Float64 => bytes::<f64>(array),
        Dtype::Complex64 => bytes::<complex64>(array),
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
    fn a_large_array_is_read_in_place_and_keeps_its_elements() {
        let length = COPIED as i32;
        let array = Array::arange::<_, i32>(None, length, None).unwrap();
        let host = to_host(&array).unwrap();
        let place = array.try_as_slice::<i32>().unwrap().as_ptr();
        assert_eq!(host.view().row_major_bytes().unwrap().as_ptr(), place.cast());
        // Nobody else holds the array now, so MLX may want to write a sum where the array is.
        let sum = array.add(Array::from_int(1)).unwrap();
        drop(array);
        sum.eval().unwrap();
        drop(sum);
        let expected: Vec<i32> = (0..length).collect();
        let seen = std::thread::spawn(move || elements::<i32>(host.view().row_major_bytes().unwrap())).join();
        assert_eq!(seen.unwrap(), expected);
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
