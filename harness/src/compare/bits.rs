//! What the bits of floats tell without arithmetic on them: extremes, distances in steps, subnormals.
//!
//! The loops are plain integer code inside functions compiled for the processor that runs them: integer minima, maxima
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
    /// No relative distance is above this. Told for 16-bit floats only.
    pub(super) rel_bound: f64,
}

/// What is found in a block of float32.
#[derive(Debug, Clone, Copy)]
pub(super) struct WideScan {
    pub(super) min: [f32; 2],
    pub(super) max: [f32; 2],
    /// The largest difference of bits, in either direction. It counts the steps where signs are the same, and is at
    /// least 2^23 where they are not and both are finite.
    pub(super) bits_apart: u32,
    pub(super) equal: u32,
    /// The least magnitude but zero, less one.
    pub(super) least: u32,
}

/// The places of a block, or `None` when an element is infinite, or at or above [`HUGE`] in magnitude. NaN is not seen.
pub(super) fn f32_places(scan: &WideScan, e: &[f32; BLOCK], a: &[f32; BLOCK]) -> Option<Places> {
    const NORMAL: u32 = 1 << 23;
    if scan.min.iter().any(|&min| f64::from(min) <= -HUGE)
        || scan.max.iter().any(|&max| f64::from(max) >= HUGE)
    {
        return None;
    }
    let (arch, blocks) = (Arch::new(), [cast_ref(e), cast_ref(a)]);
    let steps = || arch.dispatch(Steps(blocks[0], blocks[1]));
    let subnormal = |bits| arch.dispatch(Subnormal(bits, NORMAL));
    Some(Places {
        // A zero has no sign here.
        min: scan.min.map(|min| f64::from(min) + 0.0),
        max: scan.max.map(|max| f64::from(max) + 0.0),
        subnormal: if scan.least < NORMAL - 1 { blocks.map(subnormal) } else { [0; 2] },
        equal: scan.equal.into(),
        ulps: if scan.bits_apart < NORMAL { scan.bits_apart } else { steps() }.into(),
        has_tiny: scan.least < (127 - 60) << 23,
        rel_bound: f64::INFINITY,
    })
}

/// The most steps from one float32 to another.
struct Steps<'a>(&'a [u32; BLOCK], &'a [u32; BLOCK]);

impl NullaryFnOnce for Steps<'_> {
    type Output = u32;

    #[inline(always)]
    fn call(self) -> u32 {
        let mut steps = 0;
        for (&e, &a) in self.0.iter().zip(self.1) {
            // The place counts the steps from zero, down for negative numbers; both zeros are one place.
            let (e_sign, a_sign) = (e as i32 >> 31, a as i32 >> 31);
            let e = ((e & u32::MAX >> 1) as i32 ^ e_sign).wrapping_sub(e_sign);
            let a = ((a & u32::MAX >> 1) as i32 ^ a_sign).wrapping_sub(a_sign);
            steps = steps.max((e.max(a) as u32).wrapping_sub(e.min(a) as u32));
        }
        steps
    }
}

struct Subnormal<'a, T>(&'a [T; BLOCK], T);

macro_rules! subnormal {
    ($type:ty) => {
        impl NullaryFnOnce for Subnormal<'_, $type> {
            type Output = u64;

            #[inline(always)]
            fn call(self) -> u64 {
                let mut count: $type = 0;
                for &bits in self.0 {
                    let below = (bits & <$type>::MAX >> 1).wrapping_sub(1) < self.1 - 1;
                    count = count.wrapping_add(below.into());
                }
                count.into()
            }
        }
    };
}

subnormal!(u32);
subnormal!(u16);

/// What is found in a block of 16-bit floats. A bit pattern as a signed integer is the larger the larger a positive
/// number is; as an unsigned one it is larger for negative numbers than for all others, and the larger the further they
/// are from zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan {
    max_signed: [i16; 2],
    max_unsigned: [u16; 2],
    min_unsigned: [u16; 2],
    /// The most steps apart.
    steps: u16,
    equal: u16,
    /// The least magnitude but zero, less one.
    least: u16,
    /// The most steps between magnitudes, whatever the signs.
    ratio: u16,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            max_signed: [i16::MIN; 2],
            max_unsigned: [0; 2],
            min_unsigned: [u16::MAX; 2],
            steps: 0,
            equal: 0,
            least: u16::MAX,
            ratio: 0,
        }
    }
}

impl Scan {
    #[inline(always)]
    pub(super) fn add(&mut self, e: &[u16; STAGE], a: &[u16; STAGE]) {
        let Self { mut max_signed, mut max_unsigned, mut min_unsigned, .. } = *self;
        let Self { mut steps, mut equal, mut least, mut ratio, .. } = *self;
        for (&e, &a) in e.iter().zip(a) {
            max_signed = [max_signed[0].max(e as i16), max_signed[1].max(a as i16)];
            max_unsigned = [max_unsigned[0].max(e), max_unsigned[1].max(a)];
            min_unsigned = [min_unsigned[0].min(e), min_unsigned[1].min(a)];
            let signs_differ = ((e ^ a) as i16 >> 15) as u16;
            let (e, a) = (e & u16::MAX >> 1, a & u16::MAX >> 1);
            least = least.min(e.wrapping_sub(1)).min(a.wrapping_sub(1));
            let between = (e as i16).wrapping_sub(a as i16).unsigned_abs();
            ratio = ratio.max(between);
            // Across zero the steps are those of both; otherwise those between.
            let apart = between.max(e.wrapping_add(a) & signs_differ);
            steps = steps.max(apart);
            equal = equal.wrapping_add(u16::from(apart == 0));
        }
        *self = Self { max_signed, max_unsigned, min_unsigned, steps, equal, least, ratio };
    }

    /// See [`f32_places`]; NaN is seen, too. `limit` is the first magnitude that is too large, `normal` the first that
    /// is not subnormal, `tiny` that of 2^-60.
    fn places(
        &self,
        [limit, normal, tiny]: [u16; 3],
        value: impl Fn(u16) -> f64,
        blocks: [&[u16; BLOCK]; 2],
    ) -> Option<Places> {
        const SIGN: u16 = 1 << 15;
        if self.max_signed.iter().any(|&max| max >= limit as i16)
            || self.max_unsigned.iter().any(|&max| max >= limit | SIGN)
        {
            return None;
        }
        let extremes = |side: usize| {
            let [low, high, near] =
                [self.max_unsigned, self.max_signed.map(|max| max as u16), self.min_unsigned]
                    .map(|found| found[side]);
            // A zero has no sign here.
            let min = if low & SIGN == 0 { value(near) } else { 0.0 - value(low & !SIGN) };
            let max = if high & SIGN == 0 { value(high) } else { 0.0 - value(near & !SIGN) };
            (min, max)
        };
        let (e, a) = (extremes(0), extremes(1));
        let has_subnormals = self.least < normal - 1;
        let subnormal = |bits| Arch::new().dispatch(Subnormal(bits, normal));
        Some(Places {
            min: [e.0, a.0],
            max: [e.1, a.1],
            subnormal: if has_subnormals { blocks.map(subnormal) } else { [0; 2] },
            equal: self.equal.into(),
            ulps: self.steps.into(),
            has_tiny: self.least < tiny,
            rel_bound: if has_subnormals {
                f64::INFINITY
            } else {
                // |a - e| / |e| is at most 1 + |a| / |e|, and a step is one in `normal` of a power of two, but for how
                // far log2(1 + x) rises above x, which is less than 0.0861.
                1.0 + (f64::from(self.ratio) / f64::from(normal) + 0.0861).exp2()
            },
        })
    }
}

/// See [`f32_places`]; NaN is seen, too.
pub(super) fn bf16_places(scan: &Scan, e: &[bf16; BLOCK], a: &[bf16; BLOCK]) -> Option<Places> {
    // The first bfloat16 that is not below the limit.
    let limit = ((HUGE as f32).to_bits() >> 16) as u16 + 1;
    let value = |magnitude| f64::from(bf16::from_bits(magnitude));
    scan.places([limit, 1 << 7, (127 - 60) << 7], value, [cast_ref(e), cast_ref(a)])
}

/// See [`f32_places`]; NaN is seen, too.
pub(super) fn f16_places(scan: &Scan, e: &[f16; BLOCK], a: &[f16; BLOCK]) -> Option<Places> {
    let value = |magnitude| f64::from(f16::from_bits(magnitude));
    scan.places([f16::INFINITY.to_bits(), 1 << 10, 0], value, [cast_ref(e), cast_ref(a)])
}

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
