//! The operations of a comparison on one element, per dtype.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use num_complex::Complex32;

use super::fast_tier::Fast;
use super::tolerance::Tolerance;
use crate::number::ElementValue;

/// Whether an element is a finite number, NaN or an infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finiteness {
    Finite,
    Nan,
    PositiveInfinity,
    NegativeInfinity,
}

/// An element of one dtype. All results are exact, except where stated otherwise.
pub(super) trait Element: Pod + PartialEq + Send + Sync {
    /// Real numbers per element.
    const PARTS: usize = 1;
    /// Whether the dtype has ulps.
    const HAS_ULPS: bool = true;

    fn value(self) -> ElementValue;
    fn finiteness(self) -> Finiteness;
    /// The number in min, max, mean and standard deviation: for a complex number, its modulus. Integers beyond 2^53 are
    /// rounded.
    fn number(self) -> f64;
    /// One of the element's real numbers.
    #[inline]
    fn part(self, _part: usize) -> f64 {
        self.number()
    }
    /// The absolute value.
    #[inline]
    fn magnitude(self) -> f64 {
        self.number().abs()
    }
    /// `|actual - expected|`, rounded once: to float64, or for 16-bit floats to float32 unless that overflows.
    fn distance(self, actual: Self) -> f64;
    /// `|actual - expected| <= atol + rtol * |expected|`, for finite elements, in float64, where neither side overflows.
    #[inline]
    fn within(self, actual: Self, tolerance: &Tolerance) -> bool {
        tolerance.allows(self.distance(actual), self.magnitude())
    }
    /// The number of steps between representable numbers from one element to the other.
    #[inline]
    fn ulps(self, _actual: Self) -> u64 {
        0
    }
    #[inline]
    fn is_subnormal(self) -> bool {
        false
    }
}

#[inline]
fn float_finiteness(x: f64) -> Finiteness {
    match x {
        x if x.is_nan() => Finiteness::Nan,
        f64::INFINITY => Finiteness::PositiveInfinity,
        f64::NEG_INFINITY => Finiteness::NegativeInfinity,
        _ => Finiteness::Finite,
    }
}

macro_rules! float {
    ($type:ty, $bits:ty, $signed:ty, $normal:expr, $number:expr, { $($more:tt)* }) => {
        impl Element for $type {
            fn value(self) -> ElementValue {
                ElementValue::Float(self.number())
            }
            #[inline]
            fn finiteness(self) -> Finiteness {
                float_finiteness(self.number())
            }
            #[inline(always)]
            fn number(self) -> f64 {
                $number(self)
            }
            #[inline(always)]
            fn ulps(self, actual: Self) -> u64 {
                // Steps from zero, negative for negative numbers. Both zeros are the same.
                let place = |x: Self| {
                    let magnitude = (x.to_bits() & <$signed>::MAX as $bits) as $signed;
                    if x.is_sign_negative() { -magnitude } else { magnitude }
                };
                place(self).abs_diff(place(actual)).into()
            }
            #[inline(always)]
            fn is_subnormal(self) -> bool {
                let magnitude = self.to_bits() & <$signed>::MAX as $bits;
                magnitude > 0 && magnitude < $normal
            }
            $($more)*
        }
    };
}

/// The value, without a library call for finite ones.
#[inline(always)]
fn narrow_number<T: Fast + Into<f64>>(x: T) -> f64 {
    if x.is_finite() { f64::from(x.widen()) } else { x.into() }
}

/// `|actual - expected|` in float64, for dtypes whose [`Element::distance`] rounds to float32.
#[inline]
fn exact_distance<T: Element>(expected: T, actual: T) -> f64 {
    (actual.number() - expected.number()).abs()
}

macro_rules! narrow {
    ($type:ty, $normal:expr) => {
        float!($type, u16, i16, $normal, narrow_number, {
            #[inline(always)]
            fn distance(self, actual: Self) -> f64 {
                let distance = (actual.widen() - self.widen()).abs();
                if distance.is_finite() { f64::from(distance) } else { exact_distance(self, actual) }
            }
            #[inline]
            fn within(self, actual: Self, tolerance: &Tolerance) -> bool {
                tolerance.allows(exact_distance(self, actual), self.magnitude())
            }
        });
    };
}

macro_rules! wide {
    ($type:ty, $bits:ty, $signed:ty, $normal:expr) => {
        float!($type, $bits, $signed, $normal, f64::from, {
            #[inline(always)]
            fn distance(self, actual: Self) -> f64 {
                (actual.number() - self.number()).abs()
            }
        });
    };
}

narrow!(f16, 1 << 10);
narrow!(bf16, 1 << 7);
wide!(f32, u32, i32, 1 << 23);
wide!(f64, u64, i64, 1 << 52);

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Element for $type {
            const HAS_ULPS: bool = false;
            fn value(self) -> ElementValue {
                i64::try_from(self).map_or(ElementValue::Uint(self as u64), ElementValue::Int)
            }
            #[inline]
            fn finiteness(self) -> Finiteness {
                Finiteness::Finite
            }
            #[inline(always)]
            fn number(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn distance(self, actual: Self) -> f64 {
                self.abs_diff(actual) as f64
            }
            #[inline(always)]
            fn within(self, actual: Self, tolerance: &Tolerance) -> bool {
                let magnitude = self.abs_diff(0) as u64;
                tolerance.integers.allows(self.abs_diff(actual) as u64, magnitude)
            }
        }
    )*};
}

integer!(u8, u16, u32, u64, i8, i16, i32, i64);

/// A bool as its byte. Every byte but zero is true.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Bool(u8);

impl Bool {
    #[inline(always)]
    pub(super) fn is_true(self) -> bool {
        self.0 != 0
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        (self.0 != 0) == (other.0 != 0)
    }
}

impl Element for Bool {
    const HAS_ULPS: bool = false;
    fn value(self) -> ElementValue {
        ElementValue::Bool(self.0 != 0)
    }
    #[inline]
    fn finiteness(self) -> Finiteness {
        Finiteness::Finite
    }
    #[inline]
    fn number(self) -> f64 {
        f64::from(u8::from(self.0 != 0))
    }
    #[inline(always)]
    fn distance(self, actual: Self) -> f64 {
        f64::from(u8::from(self != actual))
    }
}

/// The modulus of a complex number whose parts are in the range of float32, so that their squares neither overflow nor
/// vanish in float64. `hypot`, which also handles other parts, takes many times as long.
#[inline]
fn modulus(re: f64, im: f64) -> f64 {
    (re * re + im * im).sqrt()
}

impl Element for Complex32 {
    const PARTS: usize = 2;
    fn value(self) -> ElementValue {
        ElementValue::Complex(self.re.into(), self.im.into())
    }
    /// As in numpy, one NaN part makes a NaN; otherwise one infinite part makes an infinity, with the sign of the first
    /// infinite part.
    #[inline]
    fn finiteness(self) -> Finiteness {
        match (float_finiteness(self.re.into()), float_finiteness(self.im.into())) {
            (Finiteness::Nan, _) | (_, Finiteness::Nan) => Finiteness::Nan,
            (Finiteness::Finite, im) => im,
            (re, _) => re,
        }
    }
    #[inline]
    fn number(self) -> f64 {
        modulus(self.re.into(), self.im.into())
    }
    #[inline]
    fn part(self, part: usize) -> f64 {
        f64::from(if part == 0 { self.re } else { self.im })
    }
    #[inline]
    fn distance(self, actual: Self) -> f64 {
        modulus(f64::from(actual.re) - f64::from(self.re), f64::from(actual.im) - f64::from(self.im))
    }
    /// The ulps of the worse part.
    #[inline]
    fn ulps(self, actual: Self) -> u64 {
        self.re.ulps(actual.re).max(self.im.ulps(actual.im))
    }
    #[inline]
    fn is_subnormal(self) -> bool {
        Element::is_subnormal(self.re) || Element::is_subnormal(self.im)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ulps_count_the_steps_across_zero() {
        assert_eq!(1f32.ulps(1f32.next_up()), 1);
        assert_eq!((-0f32).ulps(0.0), 0);
        assert_eq!(f32::from_bits(1).ulps(-f32::from_bits(1)), 2);
        assert_eq!(f64::MAX.ulps(f64::MIN), 2 * 0x7fef_ffff_ffff_ffff);
        assert_eq!(bf16::ONE.ulps(bf16::from_f32(1.0078125)), 1);
        assert_eq!(f16::MAX.ulps(f16::MIN), 2 * 0x7bff);
        assert_eq!(Complex32 { re: 1.0, im: 1.0 }.ulps(Complex32 { re: 1.0, im: 1f32.next_down() }), 1);
    }

    #[test]
    fn complex_numbers_are_finite_as_in_numpy() {
        let finiteness = |re, im| Complex32 { re, im }.finiteness();
        assert_eq!(finiteness(f32::INFINITY, f32::NAN), Finiteness::Nan);
        assert_eq!(finiteness(1.0, f32::NEG_INFINITY), Finiteness::NegativeInfinity);
        assert_eq!(finiteness(f32::INFINITY, f32::NEG_INFINITY), Finiteness::PositiveInfinity);
        assert_eq!(finiteness(1.0, 2.0), Finiteness::Finite);
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        assert_eq!(Bool(2), Bool(1));
        assert_eq!(Bool(2).distance(Bool(0)), 1.0);
    }
}
