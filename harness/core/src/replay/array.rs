//! Values of a replay.

use std::sync::Arc;

use half::{bf16, f16};

use super::error::ReplayError;
use super::work::{Buffer, Work};
use crate::tensor::{Dtype, TensorView};

/// Numbers with a shape, in row-major order. A clone shares the numbers.
#[derive(Debug, Clone)]
pub struct Array {
    shape: Vec<usize>,
    values: Arc<Buffer>,
    complex: bool,
}

impl Array {
    /// An array of real numbers. Its memory is not counted. `None` if the shape has a different number of elements.
    pub fn new(shape: Vec<usize>, values: Vec<f64>) -> Option<Self> {
        (elements(&shape).ok()? == values.len()).then(|| Self {
            shape,
            values: Arc::new(Buffer::uncounted(values)),
            complex: false,
        })
    }

    /// A single number without axes.
    pub fn scalar(value: f64) -> Self {
        Self { shape: Vec::new(), values: Arc::new(Buffer::uncounted(vec![value])), complex: false }
    }

    /// The elements of a tensor.
    ///
    /// # Errors
    ///
    /// When too few steps or too little memory is left.
    pub fn of(view: &TensorView<'_>, work: &Work) -> Result<Self, ReplayError> {
        elements(view.shape())?;
        let complex = view.dtype() == Dtype::Complex64;
        let numbers = view.len() * if complex { 2 } else { 1 };
        // Reading takes far less time than an operation on each element.
        work.spend(numbers as u64)?;
        let mut values = work.buffer(numbers)?;
        let size = view.dtype().size();
        let mut bytes = vec![0; size * view.len().min(4096)];
        let mut start = 0;
        while start < view.len() {
            let count = (view.len() - start).min(4096);
            let part = &mut bytes[..count * size];
            view.gather(start, part);
            widen(view.dtype(), part, &mut values);
            start += count;
        }
        Ok(Self { shape: view.shape().to_vec(), values: Arc::new(values), complex })
    }

    /// An array of real numbers, or of complex ones with two numbers per element.
    pub(super) fn from_buffer(shape: Vec<usize>, values: Buffer, complex: bool) -> Self {
        debug_assert_eq!(elements(&shape), Ok(values.len() / if complex { 2 } else { 1 }));
        Self { shape, values: Arc::new(values), complex }
    }

    pub(super) fn real(shape: Vec<usize>, values: Buffer) -> Self {
        Self::from_buffer(shape, values, false)
    }

    /// Lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers. A complex element is two of them: its real and its imaginary part.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Whether the elements are complex.
    pub fn is_complex(&self) -> bool {
        self.complex
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.values.len() / self.units()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The number of axes.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Bytes that the numbers take.
    pub fn bytes(&self) -> u64 {
        size_of_val::<[f64]>(self.values()) as u64
    }

    /// Numbers per element.
    pub(super) fn units(&self) -> usize {
        if self.complex { 2 } else { 1 }
    }

    /// The length of an axis.
    pub(super) fn length(&self, axis: usize) -> Result<usize, ReplayError> {
        self.shape.get(axis).copied().ok_or_else(|| {
            ReplayError::operands(format!("axis {axis} does not exist in shape {:?}", self.shape))
        })
    }

    /// The same numbers with another shape of as many elements.
    pub(super) fn reshaped(&self, shape: Vec<usize>) -> Result<Self, ReplayError> {
        if elements(&shape)? != self.len() {
            return Err(ReplayError::operands(format!("shape {:?} cannot become {shape:?}", self.shape)));
        }
        Ok(Self { shape, values: Arc::clone(&self.values), complex: self.complex })
    }

    /// Complex numbers as real ones, with one more axis of length 2. Real numbers are returned as they are.
    pub(super) fn as_real(&self) -> Self {
        let mut shape = self.shape.clone();
        shape.extend(self.complex.then_some(2));
        Self { shape, values: Arc::clone(&self.values), complex: false }
    }

    /// Real numbers as complex ones: the last axis, of length 2, holds the parts.
    pub(super) fn as_complex(&self) -> Result<Self, ReplayError> {
        match self.shape.split_last() {
            Some((2, rest)) if !self.complex => {
                Ok(Self { shape: rest.to_vec(), values: Arc::clone(&self.values), complex: true })
            }
            _ => Err(ReplayError::operands(format!(
                "shape {:?} is not that of pairs of real numbers",
                self.shape
            ))),
        }
    }

    /// Fails for complex numbers.
    pub(super) fn check_real(&self) -> Result<(), ReplayError> {
        if self.complex { Err(ReplayError::operands("it does not take complex numbers")) } else { Ok(()) }
    }
}

/// The number of elements of a shape: 1 without axes, 0 when any axis is empty.
///
/// Fails if the product of the axes that are not empty is too large. The product of any axes of an array therefore never
/// overflows, and neither does a small multiple of it.
pub(super) fn elements(shape: &[usize]) -> Result<usize, ReplayError> {
    let mut others = shape.iter().filter(|length| **length > 0);
    let product = others.try_fold(1usize, |all, &length| all.checked_mul(length));
    match product.filter(|&product| product < usize::MAX / 64) {
        Some(_) if shape.contains(&0) => Ok(0),
        Some(product) => Ok(product),
        None => Err(ReplayError::operands(format!("shape {shape:?} has too many elements"))),
    }
}

fn widen(dtype: Dtype, bytes: &[u8], out: &mut Buffer) {
    macro_rules! read {
        ($type:ty, $convert:expr) => {{
            const SIZE: usize = size_of::<$type>();
            let (elements, _) = bytes.as_chunks::<SIZE>();
            out.extend(elements.iter().map(|element| $convert(<$type>::from_ne_bytes(*element))));
        }};
    }
    match dtype {
        Dtype::Bool => out.extend(bytes.iter().map(|&byte| f64::from(u8::from(byte != 0)))),
        Dtype::Uint8 => read!(u8, f64::from),
        Dtype::Uint16 => read!(u16, f64::from),
        Dtype::Uint32 => read!(u32, f64::from),
        Dtype::Uint64 => read!(u64, |x| x as f64),
        Dtype::Int8 => read!(i8, f64::from),
        Dtype::Int16 => read!(i16, f64::from),
        Dtype::Int32 => read!(i32, f64::from),
        Dtype::Int64 => read!(i64, |x| x as f64),
        Dtype::Float16 => read!(f16, f16::to_f64),
        Dtype::Bfloat16 => read!(bf16, bf16::to_f64),
        Dtype::Float32 | Dtype::Complex64 => read!(f32, f64::from),
        Dtype::Float64 => read!(f64, |x| x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn tensors_of_any_dtype_and_order_become_numbers() {
        let work = Work::new(1 << 20, 1 << 20);
        let bytes: Vec<u8> = (-3..3i16).flat_map(i16::to_le_bytes).collect();
        let tensor = Tensor::from_vec(Dtype::Int16, vec![2, 3], bytes).unwrap();
        let array = Array::of(&tensor.view().permute(&[1, 0]).unwrap(), &work).unwrap();
        assert_eq!((array.shape(), array.values()), (&[3, 2][..], &[-3., 0., -2., 1., -1., 2.][..]));
        let bytes: Vec<u8> = [1f32, 2., 3., 4.].iter().flat_map(|x| x.to_le_bytes()).collect();
        let complex = Tensor::from_vec(Dtype::Complex64, vec![2], bytes).unwrap();
        let array = Array::of(&complex.view(), &work).unwrap();
        assert_eq!((array.len(), array.values()), (2, &[1., 2., 3., 4.][..]));
        assert!(array.is_complex());
        let large = Tensor::from_vec(Dtype::Uint8, vec![10_000], vec![7; 10_000]).unwrap();
        let array = Array::of(&large.view(), &work).unwrap();
        assert!(array.values().iter().all(|&x| x == 7.0) && array.len() == 10_000);
        assert!(work.bytes_left() < (1 << 20) - 80_000);
        drop(array);
        assert!(work.bytes_left() > (1 << 20) - 80_000);
    }

    #[test]
    fn a_shape_has_as_many_elements_as_numbers() {
        assert!(Array::new(vec![2, 2], vec![0.0; 3]).is_none());
        assert!(Array::new(vec![usize::MAX, 2], vec![]).is_none());
        assert_eq!(elements(&[0, 7, 3]), Ok(0));
        assert!(elements(&[0, usize::MAX, 3]).is_err());
        assert!(elements(&[1 << 40, 1 << 40]).is_err());
    }
}
