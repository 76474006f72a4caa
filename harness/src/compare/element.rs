//! What the comparison asks of one element, for each dtype.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use super::bound::IntegerBound;
use super::kernel::{self, Fast, Measured, Rechecked};
use super::number::Value;
use super::runs::Limits;
use super::{BLOCK, REL_GUARD, plain};

/// A tolerance, ready for floats and for integers.
#[derive(Debug, Clone)]
pub(super) struct Tolerance {
    pub(super) rtol: f64,
    pub(super) atol: f64,
    pub(super) integers: IntegerBound,
}

impl Tolerance {
    pub(super) fn new(rtol: f64, atol: f64) -> Self {
        Self { rtol, atol, integers: IntegerBound::new(rtol, atol) }
    }

    /// The bound of an element whose golden has that magnitude, with the two roundings that numpy has too.
    #[inline]
    pub(super) fn bound(&self, magnitude: f64) -> f64 {
        self.atol + self.rtol * magnitude
    }

    /// Whether a distance from a golden of that magnitude is inside its bound. A distance or a bound that float64 cannot
    /// hold is never inside: numpy's `inf <= inf` would let any two numbers agree.
    #[inline]
    fn allows(&self, distance: f64, magnitude: f64) -> bool {
        let bound = self.bound(magnitude);
        bound.is_finite() && distance <= bound
    }
}

/// Whether an element is a number, and if not, what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Finite,
    Nan,
    PositiveInfinity,
    NegativeInfinity,
}

/// An element of one dtype. Everything is exact but what is said not to be.
pub(super) trait Element: Pod + PartialEq + Send + Sync {
    /// How many real numbers make one element.
    const PARTS: usize = 1;
    /// Whether neighbouring numbers can be counted between two elements.
    const HAS_ULPS: bool = true;

    fn value(self) -> Value;
    fn kind(self) -> Kind;
    /// The number that min, max, mean and standard deviation are taken of: the modulus of a complex number. Integers
    /// beyond 2^53 are rounded.
    fn number(self) -> f64;
    /// One of the real numbers that make the element.
    #[inline]
    fn part(self, _part: usize) -> f64 {
        self.number()
    }
    /// The absolute value.
    #[inline]
    fn magnitude(self) -> f64 {
        self.number().abs()
    }
    /// `|actual - expected|`, rounded once: to float64, or to float32 for 16-bit floats where float32 can hold it.
    fn distance(self, actual: Self) -> f64;
    /// `|actual - expected| <= atol + rtol * |expected|`, for finite elements, in float64, where neither side overflows.
    #[inline]
    fn within(self, actual: Self, tolerance: &Tolerance) -> bool {
        tolerance.allows(self.distance(actual), self.magnitude())
    }
    /// How many steps from one representable number to the next lead from one element to the other.
    #[inline]
    fn ulps(self, _actual: Self) -> u64 {
        0
    }
    #[inline]
    fn is_subnormal(self) -> bool {
        false
    }
    /// The vector code over one whole block; `None` where the dtype has none, or where an element is not finite or too
    /// large for it.
    fn measure(_expected: &[Self; BLOCK], _actual: &[Self; BLOCK], _limits: &Limits) -> Option<Measured> {
        None
    }
    /// A closer look at a part of a block that [`Element::measure`] has measured.
    fn recheck(expected: &[Self], actual: &[Self], tolerance: &Tolerance) -> Rechecked {
        let mut found = Rechecked::default();
        for (&e, &a) in expected.iter().zip(actual) {
            let (distance, magnitude) = (e.distance(a), e.magnitude());
            if distance > 0.0 {
                found.max_rel = found.max_rel.max(distance / (magnitude + REL_GUARD));
                found.max_used = found.max_used.max(distance / tolerance.bound(magnitude));
                found.outside += u64::from(!e.within(a, tolerance));
            }
        }
        found
    }
}

#[inline]
fn float_kind(x: f64) -> Kind {
    match x {
        x if x.is_nan() => Kind::Nan,
        f64::INFINITY => Kind::PositiveInfinity,
        f64::NEG_INFINITY => Kind::NegativeInfinity,
        _ => Kind::Finite,
    }
}

macro_rules! float {
    ($type:ty, $bits:ty, $signed:ty, $normal:expr, $number:expr, { $($more:tt)* }) => {
        impl Element for $type {
            fn value(self) -> Value {
                Value::Float(self.number())
            }
            #[inline]
            fn kind(self) -> Kind {
                float_kind(self.number())
            }
            #[inline(always)]
            fn number(self) -> f64 {
                $number(self)
            }
            #[inline(always)]
            fn ulps(self, actual: Self) -> u64 {
                // Counted from zero, down for negative numbers; both zeros are the same place.
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

macro_rules! fast {
    () => {
        #[inline]
        fn measure(e: &[Self; BLOCK], a: &[Self; BLOCK], limits: &Limits) -> Option<Measured> {
            kernel::measure(e, a, limits)
        }
        fn recheck(e: &[Self], a: &[Self], tolerance: &Tolerance) -> Rechecked {
            kernel::recheck(e, a, tolerance)
        }
    };
}

macro_rules! plain {
    () => {
        fn measure(e: &[Self; BLOCK], a: &[Self; BLOCK], limits: &Limits) -> Option<Measured> {
            plain::measure(e, a, limits)
        }
    };
}

/// The value, without a library call for those that are finite.
#[inline(always)]
fn narrow_number<T: Fast + Into<f64>>(x: T) -> f64 {
    if x.is_finite() { f64::from(x.widen()) } else { x.into() }
}

/// `|actual - expected|` in float64, for elements that are rounded to less elsewhere.
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
            fast!();
        });
    };
}

macro_rules! wide {
    ($type:ty, $bits:ty, $signed:ty, $normal:expr, { $($more:tt)* }) => {
        float!($type, $bits, $signed, $normal, f64::from, {
            #[inline(always)]
            fn distance(self, actual: Self) -> f64 {
                (actual.number() - self.number()).abs()
            }
            $($more)*
        });
    };
}

narrow!(f16, 1 << 10);
narrow!(bf16, 1 << 7);
wide!(f32, u32, i32, 1 << 23, {
    fast!();
});
wide!(f64, u64, i64, 1 << 52, {
    plain!();
});

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Element for $type {
            const HAS_ULPS: bool = false;
            fn value(self) -> Value {
                i64::try_from(self).map_or(Value::Uint(self as u64), Value::Int)
            }
            #[inline]
            fn kind(self) -> Kind {
                Kind::Finite
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
            plain!();
        }
    )*};
}

integer!(u8, u16, u32, u64, i8, i16, i32, i64);

/// A bool as its byte; any byte but zero is true.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Bool(u8);

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        (self.0 != 0) == (other.0 != 0)
    }
}

impl Element for Bool {
    const HAS_ULPS: bool = false;
    fn value(self) -> Value {
        Value::Bool(self.0 != 0)
    }
    #[inline]
    fn kind(self) -> Kind {
        Kind::Finite
    }
    #[inline]
    fn number(self) -> f64 {
        f64::from(u8::from(self.0 != 0))
    }
    #[inline(always)]
    fn distance(self, actual: Self) -> f64 {
        f64::from(u8::from(self != actual))
    }
    plain!();
}

/// The modulus of a complex number whose parts are in the range of float32: their squares neither overflow nor vanish
/// in float64. `hypot`, which is made for parts that do, takes many times as long.
#[inline]
fn modulus(re: f64, im: f64) -> f64 {
    (re * re + im * im).sqrt()
}

/// A complex number of two float32.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Complex {
    re: f32,
    im: f32,
}

impl Element for Complex {
    const PARTS: usize = 2;
    fn value(self) -> Value {
        Value::Complex(self.re.into(), self.im.into())
    }
    /// As numpy has it, one part that is NaN makes a NaN, and otherwise one infinite part makes an infinity; its sign
    /// is that of the first infinite part.
    #[inline]
    fn kind(self) -> Kind {
        match (float_kind(self.re.into()), float_kind(self.im.into())) {
            (Kind::Nan, _) | (_, Kind::Nan) => Kind::Nan,
            (Kind::Finite, im) => im,
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
    /// Those of the worse part.
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
        assert_eq!(Complex { re: 1.0, im: 1.0 }.ulps(Complex { re: 1.0, im: 1f32.next_down() }), 1);
    }

    #[test]
    fn complex_kinds_are_numpys() {
        let kind = |re, im| Complex { re, im }.kind();
        assert_eq!(kind(f32::INFINITY, f32::NAN), Kind::Nan);
        assert_eq!(kind(1.0, f32::NEG_INFINITY), Kind::NegativeInfinity);
        assert_eq!(kind(f32::INFINITY, f32::NEG_INFINITY), Kind::PositiveInfinity);
        assert_eq!(kind(1.0, 2.0), Kind::Finite);
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        assert_eq!(Bool(2), Bool(1));
        assert_eq!(Bool(2).distance(Bool(0)), 1.0);
    }
}
