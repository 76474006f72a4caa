//! Reads the elements of a tensor as float64, one at a time and without a copy.

use half::{bf16, f16};

use super::{Dtype, TensorView, row_major};

/// A tensor as float64 numbers in row-major order. A complex tensor gets one more axis, of length two.
///
/// Nothing is copied: explanations read sampled positions only, so that their memory does not grow with the tensor.
#[derive(Debug, Clone)]
pub struct Float64View<'a> {
    dtype: Dtype,
    shape: Vec<usize>,
    strides: Vec<usize>,
    /// Whether the elements are in row-major order, so that a position is an index into memory.
    in_order: bool,
    swapped: bool,
    bytes: &'a [u8],
}

impl<'a> Float64View<'a> {
    /// Looks at `view`.
    pub fn new(view: &TensorView<'a>) -> Self {
        let (bytes, strides, swapped) = view.parts();
        let (mut shape, mut strides) = (view.shape().to_vec(), strides.to_vec());
        let mut dtype = view.dtype();
        if dtype == Dtype::Complex64 {
            strides.iter_mut().for_each(|stride| *stride *= 2);
            strides.push(1);
            shape.push(2);
            dtype = Dtype::Float32;
        }
        let in_order = row_major(&shape)
            .iter()
            .zip(&strides)
            .zip(&shape)
            .all(|((wanted, stride), &length)| length <= 1 || wanted == stride);
        Self { dtype, shape, strides, in_order, swapped, bytes }
    }

    /// The dtype of one number, which is float32 for a complex tensor.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there is no number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of the last axis; 1 for a scalar.
    pub fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The number at a row-major position.
    pub fn at(&self, position: usize) -> f64 {
        let place = if self.in_order {
            position
        } else {
            let (mut rest, mut place) = (position, 0);
            for (&length, &stride) in self.shape.iter().zip(&self.strides).rev() {
                place += rest % length * stride;
                rest /= length;
            }
            place
        };
        macro_rules! read {
            ($type:ty) => {{
                const SIZE: usize = size_of::<$type>();
                let mut bytes = [0; SIZE];
                bytes.copy_from_slice(&self.bytes[place * SIZE..][..SIZE]);
                if self.swapped {
                    bytes.reverse();
                }
                <$type>::from_ne_bytes(bytes)
            }};
        }
        match self.dtype {
            Dtype::Bool | Dtype::Uint8 => read!(u8).into(),
            Dtype::Uint16 => read!(u16).into(),
            Dtype::Uint32 => read!(u32).into(),
            Dtype::Uint64 => read!(u64) as f64,
            Dtype::Int8 => read!(i8).into(),
            Dtype::Int16 => read!(i16).into(),
            Dtype::Int32 => read!(i32).into(),
            Dtype::Int64 => read!(i64) as f64,
            Dtype::Float16 => read!(f16).to_f64(),
            Dtype::Bfloat16 => read!(bf16).to_f64(),
            Dtype::Float32 | Dtype::Complex64 => read!(f32).into(),
            Dtype::Float64 => read!(f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn a_position_is_read_in_any_order_and_complex_numbers_as_two() {
        let bytes: Vec<u8> = (0..6i16).flat_map(i16::to_le_bytes).collect();
        let tensor = Tensor::from_vec(Dtype::Int16, vec![2, 3], bytes).unwrap();
        let view = tensor.view().permute(&[1, 0]).unwrap();
        let numbers = Float64View::new(&view);
        assert_eq!((0..6).map(|i| numbers.at(i)).collect::<Vec<_>>(), [0., 3., 1., 4., 2., 5.]);
        let bytes: Vec<u8> = [1f32, 2., 3., 4.].iter().flat_map(|x| x.to_le_bytes()).collect();
        let complex = Tensor::from_vec(Dtype::Complex64, vec![2], bytes).unwrap();
        let view = complex.view();
        let numbers = Float64View::new(&view);
        assert_eq!((numbers.shape(), numbers.at(3)), ([2, 2].as_slice(), 4.0));
    }
}
