//! Casting a tensor to another dtype, which happens only where a spec or a user asks for it.

use half::{bf16, f16};
use thiserror::Error;

use super::{Dtype, Tensor, TensorView, ViewError};

/// Why a tensor cannot be cast.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
#[non_exhaustive]
pub enum CastError {
    /// One is complex and the other is not.
    #[error("{from} cannot be cast to {to}")]
    Dtypes { from: Dtype, to: Dtype },
    /// The cast would change an element by more than rounding.
    #[error("{value} at {index:?} is not a valid {to}")]
    Value { value: String, index: Vec<usize>, to: Dtype },
    #[error(transparent)]
    View(#[from] ViewError),
}

/// One element of any dtype but complex64, without loss.
#[derive(Clone, Copy)]
enum Element {
    Whole(i128),
    Real(f64),
}

/// A new tensor of dtype `to` with the same elements.
///
/// Floats are rounded to nearest, ties to even, and may overflow to infinity, as in every framework.
///
/// # Errors
///
/// When an element would change by more than rounding: a whole number that does not fit, or a fraction that would become
/// whole. Also when exactly one of the two dtypes is complex.
pub fn cast(view: &TensorView<'_>, to: Dtype) -> Result<Tensor, CastError> {
    let from = view.dtype();
    if (from == Dtype::Complex64) != (to == Dtype::Complex64) {
        return Err(CastError::Dtypes { from, to });
    }
    let mut bytes = vec![0; view.len() * from.size()];
    view.gather(0, &mut bytes);
    if from == to {
        return Ok(Tensor::from_vec(to, view.shape().to_vec(), bytes)?);
    }
    let mut out = Vec::with_capacity(view.len() * to.size());
    for (position, element) in bytes.chunks_exact(from.size()).enumerate() {
        let number = read(from, element);
        if write(to, number, &mut out).is_none() {
            let value = match number {
                Element::Whole(value) => value.to_string(),
                Element::Real(value) => value.to_string(),
            };
            return Err(CastError::Value { value, index: view.index_of(position), to });
        }
    }
    Ok(Tensor::from_vec(to, view.shape().to_vec(), out)?)
}

/// Reads one element in native byte order. complex64 is only cast to itself and never comes here.
fn read(dtype: Dtype, bytes: &[u8]) -> Element {
    macro_rules! element {
        ($type:ty) => {
            bytemuck::pod_read_unaligned::<$type>(bytes)
        };
    }
    match dtype {
        Dtype::Bool => Element::Whole(i128::from(bytes[0] != 0)),
        Dtype::Uint8 => Element::Whole(element!(u8).into()),
        Dtype::Uint16 => Element::Whole(element!(u16).into()),
        Dtype::Uint32 => Element::Whole(element!(u32).into()),
        Dtype::Uint64 => Element::Whole(element!(u64).into()),
        Dtype::Int8 => Element::Whole(element!(i8).into()),
        Dtype::Int16 => Element::Whole(element!(i16).into()),
        Dtype::Int32 => Element::Whole(element!(i32).into()),
        Dtype::Int64 => Element::Whole(element!(i64).into()),
        Dtype::Float16 => Element::Real(element!(f16).to_f64()),
        Dtype::Bfloat16 => Element::Real(element!(bf16).to_f64()),
        Dtype::Float32 | Dtype::Complex64 => Element::Real(element!(f32).into()),
        Dtype::Float64 => Element::Real(element!(f64)),
    }
}

/// Appends the number as an element of `dtype`; `None`, without appending, when `dtype` cannot hold it.
fn write(dtype: Dtype, number: Element, out: &mut Vec<u8>) -> Option<()> {
    let whole = || match number {
        Element::Whole(value) => Some(value),
        // No integer dtype holds a number at or above 2^64 in magnitude.
        Element::Real(value) => {
            (value.fract() == 0.0 && value.abs() < 2f64.powi(64)).then_some(value as i128)
        }
    };
    let real = match number {
        Element::Whole(value) => value as f64,
        Element::Real(value) => value,
    };
    macro_rules! put {
        ($value:expr) => {
            out.extend_from_slice(&$value.to_ne_bytes())
        };
    }
    match dtype {
        Dtype::Bool => put!(u8::try_from(whole()?).ok().filter(|&value| value <= 1)?),
        Dtype::Uint8 => put!(u8::try_from(whole()?).ok()?),
        Dtype::Uint16 => put!(u16::try_from(whole()?).ok()?),
        Dtype::Uint32 => put!(u32::try_from(whole()?).ok()?),
        Dtype::Uint64 => put!(u64::try_from(whole()?).ok()?),
        Dtype::Int8 => put!(i8::try_from(whole()?).ok()?),
        Dtype::Int16 => put!(i16::try_from(whole()?).ok()?),
        Dtype::Int32 => put!(i32::try_from(whole()?).ok()?),
        Dtype::Int64 => put!(i64::try_from(whole()?).ok()?),
        Dtype::Float16 => put!(f16::from_f64(real)),
        Dtype::Bfloat16 => put!(nearest_bf16(real)),
        Dtype::Float32 => put!((real as f32)),
        Dtype::Float64 => put!(real),
        Dtype::Complex64 => return None,
    }
    Some(())
}

/// The nearest bfloat16; of two that are equally near, the even one.
///
/// `bf16::from_f64` is not used: it ignores the lower half of a float64, so some float32 numbers just above the middle of
/// two bfloat16 numbers would become the lower one.
pub fn nearest_bf16(x: f64) -> bf16 {
    let near = x as f32;
    if f64::from(near) == x || !near.is_finite() {
        return bf16::from_f32(near);
    }
    // Rounded towards zero, with the last bit set if anything was cut off, so that rounding once more is right.
    let below = if f64::from(near).abs() > x.abs() { near.to_bits() - 1 } else { near.to_bits() };
    bf16::from_f32(f32::from_bits(below | 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor<T: bytemuck::Pod>(dtype: Dtype, values: &[T]) -> Tensor {
        Tensor::from_vec(dtype, vec![values.len()], bytemuck::cast_slice(values).to_vec()).unwrap()
    }

    fn values<T: bytemuck::Pod>(tensor: &Tensor) -> Vec<T> {
        bytemuck::pod_collect_to_vec(tensor.view().row_major_bytes().unwrap())
    }

    #[test]
    fn floats_are_rounded_to_even_and_may_overflow() {
        let step = 1f32 / 256.0;
        let wide = tensor(Dtype::Float32, &[1.0 + step, 1.0 + 3.0 * step, f32::MAX, f32::NEG_INFINITY]);
        let narrow = cast(&wide.view(), Dtype::Bfloat16).unwrap();
        // 1 + 2^-8 lies halfway and goes down to 1, 1 + 3 * 2^-8 halfway and up to 1 + 2^-6.
        assert_eq!(values::<u16>(&narrow), [0x3f80, 0x3f82, 0x7f80, 0xff80]);
    }

    #[test]
    fn what_lies_a_little_above_the_middle_goes_up() {
        // One of the float32 numbers that `bf16::from_f64` gets wrong, and one that only float64 has.
        let close = f32::from_bits(0x3f8c_8001);
        let wide = tensor(Dtype::Float32, &[close, -close]);
        assert_eq!(values::<u16>(&cast(&wide.view(), Dtype::Bfloat16).unwrap()), [0x3f8d, 0xbf8d]);
        let closer = f64::from(f32::from_bits(0x3f8c_8000));
        for (x, wanted) in [(closer, 0x3f8c), (closer.next_up(), 0x3f8d), (closer.next_down(), 0x3f8c)] {
            assert_eq!(nearest_bf16(x).to_bits(), wanted, "{x}");
        }
        assert_eq!(nearest_bf16(f64::MAX), bf16::INFINITY);
        assert_eq!(nearest_bf16(1e-300).to_bits(), 0);
    }

    #[test]
    fn token_ids_change_their_width_but_never_their_value() {
        let ids = tensor(Dtype::Int64, &[0i64, 31999, -1]);
        assert_eq!(values::<i32>(&cast(&ids.view(), Dtype::Int32).unwrap()), [0, 31999, -1]);
        let error = cast(&ids.view(), Dtype::Uint32).unwrap_err();
        assert_eq!(error.to_string(), "-1 at [2] is not a valid uint32");
        let mask = tensor(Dtype::Float32, &[0f32, 1.0, 0.5]);
        assert_eq!(
            cast(&mask.view(), Dtype::Bool).unwrap_err().to_string(),
            "0.5 at [2] is not a valid bool"
        );
    }

    #[test]
    fn complex_numbers_stay_complex() {
        let complex = tensor(Dtype::Complex64, &[[1f32, 2.0]]);
        assert_eq!(values::<[f32; 2]>(&cast(&complex.view(), Dtype::Complex64).unwrap()), [[1.0, 2.0]]);
        assert!(matches!(cast(&complex.view(), Dtype::Float32), Err(CastError::Dtypes { .. })));
    }
}
