//! What the bits of floats tell without arithmetic on them: extremes, distances in steps, subnormals.
//!
//! The loops are plain integer code inside a function compiled for the processor that runs it: integer minima, maxima
//! and counts may be reordered, so the compiler makes vectors of them, and 16-bit floats stay 16 bits wide.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use pulp::{Arch, NullaryFnOnce};

use super::HUGE;
use super::kernel::BLOCK;

/// What the bits of a block tell; expected first where there are two.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Places {
    pub(super) min: [f64; 2],
    pub(super) max: [f64; 2],
    pub(super) subnormal: [u64; 2],
    pub(super) equal: u64,
    pub(super) ulps: u64,
    /// Whether an element other than zero is below 2^-60 in magnitude.
    pub(super) has_tiny: bool,
}

/// The places of a block, or `None` when an element is not finite, or at or above [`HUGE`] in magnitude.
pub(super) fn f32_places(e: &[f32; BLOCK], a: &[f32; BLOCK]) -> Option<Places> {
    let value = |magnitude| f64::from(f32::from_bits(magnitude));
    let limit = (HUGE as f32).to_bits();
    Bits32(bytemuck::cast_ref(e), bytemuck::cast_ref(a)).places(limit, 1 << 23, (127 - 60) << 23, value)
}

/// See [`f32_places`].
pub(super) fn bf16_places(e: &[bf16; BLOCK], a: &[bf16; BLOCK]) -> Option<Places> {
    let value = |magnitude| f64::from(bf16::from_bits(magnitude));
    let (Some(e), Some(a)) = (e.reinterpret_cast().as_array(), a.reinterpret_cast().as_array()) else {
        return None;
    };
    // The first bfloat16 that is not below the limit.
    let limit = ((HUGE as f32).to_bits() >> 16) as u16 + 1;
    Bits16(e, a).places(limit, 1 << 7, (127 - 60) << 7, value)
}

/// See [`f32_places`].
pub(super) fn f16_places(e: &[f16; BLOCK], a: &[f16; BLOCK]) -> Option<Places> {
    let value = |magnitude| f64::from(f16::from_bits(magnitude));
    let (Some(e), Some(a)) = (e.reinterpret_cast().as_array(), a.reinterpret_cast().as_array()) else {
        return None;
    };
    Bits16(e, a).places(f16::INFINITY.to_bits(), 1 << 10, 0, value)
}

macro_rules! bits {
    ($name:ident, $subnormal:ident, $unsigned:ty, $signed:ty) => {
        #[derive(Clone, Copy)]
        struct $name<'a>(&'a [$unsigned; BLOCK], &'a [$unsigned; BLOCK]);

        impl $name<'_> {
            /// `limit` is the first magnitude that is too large, `normal` the first that is not subnormal.
            fn places(
                self,
                limit: $unsigned,
                normal: $unsigned,
                tiny: $unsigned,
                value: impl Fn($unsigned) -> f64,
            ) -> Option<Places> {
                let arch = Arch::new();
                let (min, max, ulps, equal, least) = arch.dispatch(self);
                let limit = limit as $signed;
                if min.iter().any(|&min| min <= -limit) || max.iter().any(|&max| max >= limit) {
                    return None;
                }
                let number = |place: $signed| value(place.unsigned_abs()).copysign(f64::from(place));
                let subnormal = if least < normal - 1 {
                    [self.0, self.1].map(|bits| u64::from(arch.dispatch($subnormal(bits, normal))))
                } else {
                    [0; 2]
                };
                Some(Places {
                    min: min.map(number),
                    max: max.map(number),
                    subnormal,
                    equal: u64::from(equal),
                    ulps: u64::from(ulps),
                    has_tiny: least < tiny,
                })
            }
        }

        impl NullaryFnOnce for $name<'_> {
            /// Smallest and largest place of either side, most steps apart, how many equal, the least magnitude but
            /// zero, less one.
            type Output = ([$signed; 2], [$signed; 2], $unsigned, $unsigned, $unsigned);

            #[inline(always)]
            fn call(self) -> Self::Output {
                let (mut min, mut max) = ([<$signed>::MAX; 2], [<$signed>::MIN; 2]);
                let (mut ulps, mut equal, mut least) = (0, 0, <$unsigned>::MAX);
                for (&e, &a) in self.0.iter().zip(self.1) {
                    let (e_magnitude, a_magnitude) = (e & <$unsigned>::MAX >> 1, a & <$unsigned>::MAX >> 1);
                    // The place counts the steps from zero, down for negative numbers; both zeros are one place.
                    let place = |bits: $unsigned, magnitude: $unsigned| {
                        let sign = bits as $signed >> (<$signed>::BITS - 1);
                        (magnitude as $signed ^ sign).wrapping_sub(sign)
                    };
                    let (e, a) = (place(e, e_magnitude), place(a, a_magnitude));
                    min = [min[0].min(e), min[1].min(a)];
                    max = [max[0].max(e), max[1].max(a)];
                    let apart = (e.max(a) as $unsigned).wrapping_sub(e.min(a) as $unsigned);
                    ulps = ulps.max(apart);
                    equal += <$unsigned>::from(apart == 0);
                    least = least.min(e_magnitude.wrapping_sub(1)).min(a_magnitude.wrapping_sub(1));
                }
                (min, max, ulps, equal, least)
            }
        }

        struct $subnormal<'a>(&'a [$unsigned; BLOCK], $unsigned);

        impl NullaryFnOnce for $subnormal<'_> {
            type Output = $unsigned;

            #[inline(always)]
            fn call(self) -> $unsigned {
                let below = |bits: $unsigned| (bits & <$unsigned>::MAX >> 1).wrapping_sub(1) < self.1 - 1;
                self.0.iter().map(|&bits| <$unsigned>::from(below(bits))).sum()
            }
        }
    };
}

bits!(Bits32, Subnormal32, u32, i32);
bits!(Bits16, Subnormal16, u16, i16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_element_that_is_too_large_is_seen() {
        let e = [bf16::ONE; BLOCK];
        for bits in 0..=u16::MAX {
            let mut a = e;
            a[BLOCK - 1] = bf16::from_bits(bits);
            let small = a[BLOCK - 1].to_f64().abs() < HUGE;
            assert_eq!(bf16_places(&e, &a).is_some(), small, "{bits:#06x}");
        }
        let e = [1f32; BLOCK];
        for (x, small) in
            [(HUGE as f32, false), ((HUGE as f32).next_down(), true), (f32::NAN, false), (-f32::NAN, false)]
        {
            let mut a = e;
            a[0] = x;
            assert_eq!(f32_places(&e, &a).is_some(), small, "{x}");
            assert_eq!(f32_places(&a, &e).is_some(), small, "{x}");
        }
        let mut half = [f16::ONE; BLOCK];
        half[5] = f16::MAX;
        assert_eq!(f16_places(&half, &half).unwrap().max, [65504.0; 2]);
        half[5] = f16::NEG_INFINITY;
        assert_eq!(f16_places(&half, &half), None);
    }

    #[test]
    fn places_count_what_is_there() {
        let mut e = [1f32; BLOCK];
        let mut a = e;
        (e[3], a[3]) = (-0.0, 0.0);
        (e[9], a[9]) = (f32::from_bits(5), f32::from_bits(0x8000_0002));
        e[10] = 1f32.next_down();
        let places = f32_places(&e, &a).unwrap();
        assert_eq!(places.equal, BLOCK as u64 - 2);
        assert_eq!(places.ulps, 7);
        assert_eq!(places.subnormal, [1, 1]);
        assert_eq!((places.min, places.max), ([0.0, -f64::from(f32::from_bits(2))], [1.0, 1.0]));
        assert!(places.has_tiny);
    }
}
