//! What the bits of floats tell without arithmetic on them: extremes, distances in steps, subnormals.
//!
//! The loops are plain integer code inside a function compiled for the processor that runs it: integer minima, maxima
//! and counts may be reordered, so the compiler makes vectors of them, and 16-bit floats stay 16 bits wide.

use bytemuck::cast_ref;
use half::{bf16, f16};
use pulp::{Arch, NullaryFnOnce};

use super::HUGE;
use super::kernel::BLOCK;
use super::lanes::STAGE;

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

/// What is found in bits: the smallest and the largest place of either side, the most steps apart, how many equal, and
/// the least magnitude but zero, less one. The place counts the steps from zero, down for negative numbers; both zeros
/// are one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan<Unsigned, Signed> {
    min: [Signed; 2],
    max: [Signed; 2],
    ulps: Unsigned,
    equal: Unsigned,
    least: Unsigned,
}

/// Where a dtype has its marks.
struct Marks<Unsigned> {
    /// The first magnitude that is too large.
    limit: Unsigned,
    /// The first that is not subnormal.
    normal: Unsigned,
    /// That of 2^-60.
    tiny: Unsigned,
}

/// The places of a scanned block, or `None` when an element is not finite, or at or above [`HUGE`] in magnitude.
pub(super) fn f32_places(scan: &Scan<u32, i32>, e: &[f32; BLOCK], a: &[f32; BLOCK]) -> Option<Places> {
    let marks = Marks { limit: (HUGE as f32).to_bits(), normal: 1 << 23, tiny: (127 - 60) << 23 };
    scan.places(&marks, |magnitude| f64::from(f32::from_bits(magnitude)), [cast_ref(e), cast_ref(a)])
}

/// See [`f32_places`].
pub(super) fn bf16_places(scan: &Scan<u16, i16>, e: &[bf16; BLOCK], a: &[bf16; BLOCK]) -> Option<Places> {
    // The first bfloat16 that is not below the limit.
    let limit = ((HUGE as f32).to_bits() >> 16) as u16 + 1;
    let marks = Marks { limit, normal: 1 << 7, tiny: (127 - 60) << 7 };
    scan.places(&marks, |magnitude| f64::from(bf16::from_bits(magnitude)), [cast_ref(e), cast_ref(a)])
}

/// See [`f32_places`].
pub(super) fn f16_places(scan: &Scan<u16, i16>, e: &[f16; BLOCK], a: &[f16; BLOCK]) -> Option<Places> {
    let marks = Marks { limit: f16::INFINITY.to_bits(), normal: 1 << 10, tiny: 0 };
    scan.places(&marks, |magnitude| f64::from(f16::from_bits(magnitude)), [cast_ref(e), cast_ref(a)])
}

macro_rules! scan {
    ($unsigned:ty, $signed:ty, $subnormal:ident) => {
        impl Default for Scan<$unsigned, $signed> {
            fn default() -> Self {
                let (min, max) = ([<$signed>::MAX; 2], [<$signed>::MIN; 2]);
                Self { min, max, ulps: 0, equal: 0, least: <$unsigned>::MAX }
            }
        }

        impl Scan<$unsigned, $signed> {
            #[inline(always)]
            pub(super) fn add(&mut self, e: &[$unsigned; STAGE], a: &[$unsigned; STAGE]) {
                let Self { mut min, mut max, mut ulps, mut equal, mut least } = *self;
                for (&e, &a) in e.iter().zip(a) {
                    let (e_magnitude, a_magnitude) = (e & <$unsigned>::MAX >> 1, a & <$unsigned>::MAX >> 1);
                    let (e_sign, a_sign) =
                        (e as $signed >> (<$signed>::BITS - 1), a as $signed >> (<$signed>::BITS - 1));
                    let e = (e_magnitude as $signed ^ e_sign).wrapping_sub(e_sign);
                    let a = (a_magnitude as $signed ^ a_sign).wrapping_sub(a_sign);
                    min = [min[0].min(e), min[1].min(a)];
                    max = [max[0].max(e), max[1].max(a)];
                    let apart = (e.max(a) as $unsigned).wrapping_sub(e.min(a) as $unsigned);
                    ulps = ulps.max(apart);
                    equal = <$unsigned>::wrapping_add(equal, (apart == 0).into());
                    least = least.min(e_magnitude.wrapping_sub(1)).min(a_magnitude.wrapping_sub(1));
                }
                *self = Self { min, max, ulps, equal, least };
            }

            fn places(
                &self,
                marks: &Marks<$unsigned>,
                value: impl Fn($unsigned) -> f64,
                blocks: [&[$unsigned; BLOCK]; 2],
            ) -> Option<Places> {
                let limit = marks.limit as $signed;
                if self.min.iter().any(|&min| min <= -limit) || self.max.iter().any(|&max| max >= limit) {
                    return None;
                }
                let number = |place: $signed| value(place.unsigned_abs()).copysign(f64::from(place));
                let subnormal = if self.least < marks.normal - 1 {
                    blocks.map(|bits| u64::from(Arch::new().dispatch($subnormal(bits, marks.normal))))
                } else {
                    [0; 2]
                };
                Some(Places {
                    min: self.min.map(number),
                    max: self.max.map(number),
                    subnormal,
                    equal: self.equal.into(),
                    ulps: self.ulps.into(),
                    has_tiny: self.least < marks.tiny,
                })
            }
        }

        struct $subnormal<'a>(&'a [$unsigned; BLOCK], $unsigned);

        impl NullaryFnOnce for $subnormal<'_> {
            type Output = $unsigned;

            #[inline(always)]
            fn call(self) -> $unsigned {
                let mut count = 0;
                for &bits in self.0 {
                    let below = (bits & <$unsigned>::MAX >> 1).wrapping_sub(1) < self.1 - 1;
                    count = <$unsigned>::wrapping_add(count, below.into());
                }
                count
            }
        }
    };
}

scan!(u32, i32, Subnormal32);
scan!(u16, i16, Subnormal16);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::kernel::Fast;

    fn places<T: Fast>(e: &[T; BLOCK], a: &[T; BLOCK]) -> Option<Places> {
        T::measure(e, a, [0.0; 2]).2
    }

    #[test]
    fn the_first_element_that_is_too_large_is_seen() {
        let e = [bf16::ONE; BLOCK];
        for bits in 0..=u16::MAX {
            let mut a = e;
            a[BLOCK - 1] = bf16::from_bits(bits);
            let small = a[BLOCK - 1].to_f64().abs() < HUGE;
            assert_eq!(places(&e, &a).is_some(), small, "{bits:#06x}");
        }
        let e = [1f32; BLOCK];
        for (x, small) in
            [(HUGE as f32, false), ((HUGE as f32).next_down(), true), (f32::NAN, false), (-f32::NAN, false)]
        {
            let mut a = e;
            a[0] = x;
            assert_eq!(places(&e, &a).is_some(), small, "{x}");
            assert_eq!(places(&a, &e).is_some(), small, "{x}");
        }
        let mut half = [f16::ONE; BLOCK];
        half[5] = f16::MAX;
        assert_eq!(places(&half, &half).unwrap().max, [65504.0; 2]);
        half[5] = f16::NEG_INFINITY;
        assert_eq!(places(&half, &half), None);
    }

    #[test]
    fn places_count_what_is_there() {
        let mut e = [1f32; BLOCK];
        let mut a = e;
        (e[3], a[3]) = (-0.0, 0.0);
        (e[9], a[9]) = (f32::from_bits(5), f32::from_bits(0x8000_0002));
        e[10] = 1f32.next_down();
        let places = places(&e, &a).unwrap();
        assert_eq!(places.equal, BLOCK as u64 - 2);
        assert_eq!(places.ulps, 7);
        assert_eq!(places.subnormal, [1, 1]);
        assert_eq!((places.min, places.max), ([0.0, -f64::from(f32::from_bits(2))], [1.0, 1.0]));
        assert!(places.has_tiny);
    }
}
