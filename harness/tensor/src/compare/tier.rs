//! Which tier measures the blocks of a dtype: the fast tier, the byte tier, the float64 tier or the complex tier.

use half::{bf16, f16};
use num_complex::Complex32;

use super::element::{Bool, Element};
use super::fast_tier::{self, Measured, Rechecked};
use super::thresholds::Thresholds;
use super::tolerance::Tolerance;
use super::{BLOCK, REL_GUARD, byte_tier, complex_tier, float64_tier};

/// An element of a dtype, with the tier that measures its blocks.
pub(super) trait BlockElement: Element {
    /// One of the real numbers that an element consists of, in the order of its parts.
    type Part: Element;
    /// Measures one whole block with vector code; `None` when an element is not finite or too large.
    fn measure(expected: &[Self; BLOCK], actual: &[Self; BLOCK], limits: &Thresholds) -> Option<Measured>;
    /// Measures a part of a block again, after [`BlockElement::measure`], under the bounds of its elements.
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

macro_rules! fast {
    ($($type:ty),*) => {$(
        impl BlockElement for $type {
            type Part = Self;
            #[inline]
            fn measure(e: &[Self; BLOCK], a: &[Self; BLOCK], limits: &Thresholds) -> Option<Measured> {
                fast_tier::measure(e, a, limits)
            }
            fn recheck(e: &[Self], a: &[Self], tolerance: &Tolerance) -> Rechecked {
                fast_tier::recheck(e, a, tolerance)
            }
        }
    )*};
}

macro_rules! float64 {
    ($($type:ty),*) => {$(
        impl BlockElement for $type {
            type Part = Self;
            fn measure(e: &[Self; BLOCK], a: &[Self; BLOCK], limits: &Thresholds) -> Option<Measured> {
                float64_tier::measure(e, a, limits)
            }
        }
    )*};
}

macro_rules! byte {
    ($($type:ty),*) => {$(
        impl BlockElement for $type {
            type Part = Self;
            fn measure(e: &[Self; BLOCK], a: &[Self; BLOCK], limits: &Thresholds) -> Option<Measured> {
                Some(byte_tier::measure(e, a, limits))
            }
        }
    )*};
}

fast!(f16, bf16, f32);
byte!(u8, i8, Bool);
float64!(f64, u16, u32, u64, i16, i32, i64);

impl BlockElement for Complex32 {
    type Part = f32;
    fn measure(e: &[Self; BLOCK], a: &[Self; BLOCK], limits: &Thresholds) -> Option<Measured> {
        complex_tier::measure(e, a, limits)
    }
}
