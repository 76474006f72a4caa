//! Extremes, distances in steps and subnormals, from the bits of floats without float arithmetic.
//!
//! [`super::fast_extremes`] scans every block, beside the sums. The loops here are for blocks that need more: plain integer
//! code in functions compiled for the processor that runs them. Compilers may reorder integer minima, maxima and counts,
//! so they use vectors, and 16-bit floats stay 16 bits wide.

use bytemuck::cast_ref;
use half::{bf16, f16};
use pulp::{Arch, NullaryFnOnce};

use super::fast_extremes::Ends;
use super::scan::{NarrowScan, WideScan};
use super::thresholds::RUN;
use super::widen::Narrow;
use super::{BLOCK, HUGE, REL_GUARD};

/// The bits of the smallest float32 that is not subnormal.
const NORMAL: u32 = 1 << 23;

/// Extremes and counts of a block; expected first in arrays of two.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Places {
    /// For an actual without a new extreme, `min` and `max` may be extremes seen earlier.
    pub(super) min: [f64; 2],
    pub(super) max: [f64; 2],
    pub(super) subnormal: [u64; 2],
    pub(super) equal: u64,
    pub(super) ulps: u64,
    /// An upper bound of relative distances; infinite except for 16-bit floats.
    pub(super) rel_bound: f64,
}

/// How far the actual of a block can reach, without scanning it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// The largest distance, or a little less.
    pub(super) max_distance: f64,
    /// See [`super::thresholds::Thresholds`].
    pub(super) seen: [f64; 2],
}

impl Reach {
    /// The extremes of an actual, from those of expected: the ones seen earlier when no element can be beyond them, else
    /// the result of `look`.
    fn ends(&self, [min, max]: [f64; 2], look: impl FnOnce() -> [f64; 2]) -> [f64; 2] {
        // The margin is far more than all roundings of a distance add up to.
        let reach = self.max_distance + 1e-6 * (self.max_distance + max.abs().max(min.abs()));
        let [low, high] = self.seen;
        if min - reach >= low && max + reach <= high { self.seen } else { look() }
    }
}

/// The places of a block; `None` when an element is infinite, or at or above [`HUGE`] in magnitude. NaN is not noticed.
pub(super) fn f32_places(
    scan: &WideScan,
    reach: Reach,
    e: &[f32; BLOCK],
    a: &[f32; BLOCK],
) -> Option<Places> {
    let (arch, blocks) = (Arch::new(), [cast_ref(e), cast_ref(a)]);
    let e_ends = [scan.min.into(), scan.max.into()];
    let a_ends = reach.ends(e_ends, || arch.dispatch(Ends(a)).map(f64::from));
    if [e_ends, a_ends].iter().any(|&[min, max]| min <= -HUGE || max >= HUGE) {
        return None;
    }
    let steps = || arch.dispatch(UlpSteps(blocks[0], blocks[1]));
    let subnormal = |bits| arch.dispatch(Subnormal(bits));
    Some(Places {
        // A zero has no sign here.
        min: [e_ends[0] + 0.0, a_ends[0] + 0.0],
        max: [e_ends[1] + 0.0, a_ends[1] + 0.0],
        subnormal: if scan.least < NORMAL - 1 { blocks.map(subnormal) } else { [0; 2] },
        equal: scan.equal.into(),
        ulps: if scan.bits_apart < NORMAL { scan.bits_apart } else { steps() }.into(),
        rel_bound: f64::INFINITY,
    })
}

/// The most steps from one float32 to another.
struct UlpSteps<'a>(&'a [u32; BLOCK], &'a [u32; BLOCK]);

impl NullaryFnOnce for UlpSteps<'_> {
    type Output = u32;

    #[inline(always)]
    fn call(self) -> u32 {
        let mut steps = 0;
        for (&e, &a) in self.0.iter().zip(self.1) {
            // Steps from zero, negative for negative numbers. Both zeros are the same.
            let (e_sign, a_sign) = (e as i32 >> 31, a as i32 >> 31);
            let e = ((e & u32::MAX >> 1) as i32 ^ e_sign).wrapping_sub(e_sign);
            let a = ((a & u32::MAX >> 1) as i32 ^ a_sign).wrapping_sub(a_sign);
            steps = steps.max((e.max(a) as u32).wrapping_sub(e.min(a) as u32));
        }
        steps
    }
}

/// The number of subnormal float32.
struct Subnormal<'a>(&'a [u32; BLOCK]);

impl NullaryFnOnce for Subnormal<'_> {
    type Output = u64;

    #[inline(always)]
    fn call(self) -> u64 {
        let mut count = 0u32;
        for &bits in self.0 {
            count += u32::from((bits & u32::MAX >> 1).wrapping_sub(1) < NORMAL - 1);
        }
        count.into()
    }
}

/// The number of pairs of 16-bit floats that are zeros with different signs, and the number of subnormals of each side.
/// The second field is the smallest magnitude that is not subnormal.
struct Small<'a>([&'a [u16; RUN]; 2], u16);

impl NullaryFnOnce for Small<'_> {
    type Output = (u16, [u16; 2]);

    #[inline(always)]
    fn call(self) -> Self::Output {
        let (mut zeros, mut subnormal, last) = (0u16, [0u16; 2], self.1 - 1);
        for (&e, &a) in self.0[0].iter().zip(self.0[1]) {
            let (e_magnitude, a_magnitude) = (e & u16::MAX >> 1, a & u16::MAX >> 1);
            zeros = zeros.wrapping_add(u16::from(e_magnitude | a_magnitude == 0 && e != a));
            subnormal[0] = subnormal[0].wrapping_add(u16::from(e_magnitude.wrapping_sub(1) < last));
            subnormal[1] = subnormal[1].wrapping_add(u16::from(a_magnitude.wrapping_sub(1) < last));
        }
        (zeros, subnormal)
    }
}

/// The smallest bits as an unsigned integer: for 16-bit floats of one sign, those of the float closest to zero.
struct Nearest<'a>(&'a [u16; BLOCK]);

impl NullaryFnOnce for Nearest<'_> {
    type Output = u16;

    #[inline(always)]
    fn call(self) -> u16 {
        let mut least = u16::MAX;
        for &bits in self.0 {
            least = least.min(bits);
        }
        least
    }
}

/// The largest bits of a block as signed and as unsigned integers; see [`NarrowScan`].
struct Largest<'a>(&'a [u16; BLOCK]);

impl NullaryFnOnce for Largest<'_> {
    type Output = (i16, u16);

    #[inline(always)]
    fn call(self) -> Self::Output {
        let (mut signed, mut unsigned) = (i16::MIN, 0);
        for &bits in self.0 {
            signed = signed.max(bits as i16);
            unsigned = unsigned.max(bits);
        }
        (signed, unsigned)
    }
}

impl NarrowScan {
    /// See [`f32_places`]. `limit` is the smallest magnitude that is too large, `normal` the smallest that is not
    /// subnormal.
    fn places(
        &self,
        reach: Reach,
        [limit, normal]: [u16; 2],
        value: impl Fn(u16) -> f64 + Copy,
        blocks: [&[u16; BLOCK]; 2],
    ) -> Option<Places> {
        const SIGN: u16 = 1 << 15;
        let ends = |(max_signed, max_unsigned): (i16, u16), block| {
            if max_signed >= limit as i16 || max_unsigned >= limit | SIGN {
                return [f64::NEG_INFINITY, f64::INFINITY];
            }
            let (low, high) = (max_unsigned, max_signed as u16);
            // A zero has no sign here.
            let negative = |bits: u16| 0.0 - value(bits & !SIGN);
            match (low & SIGN == 0, high & SIGN == 0) {
                (false, true) => [negative(low), value(high)],
                // When all have one sign, one extreme is the element closest to zero, which takes another scan.
                (true, _) => [value(Arch::new().dispatch(Nearest(block))), value(high)],
                (_, false) => [negative(low), negative(Arch::new().dispatch(Nearest(block)))],
            }
        };
        let e = ends((self.max_signed, self.max_unsigned), blocks[0]);
        let a = reach.ends(e, || ends(Arch::new().dispatch(Largest(blocks[1])), blocks[1]));
        if e[1].is_infinite() || a[1].is_infinite() {
            return None;
        }
        let (mut equal, mut subnormal) = (BLOCK as u64 - u64::from(self.differ), [0; 2]);
        // Zeros with different signs are equal, and subnormals are counted. Both take another scan.
        for run in self.small.iter() {
            let found = Arch::new().dispatch(Small(blocks.map(|block| &block.as_chunks().0[run]), normal));
            equal += u64::from(found.0);
            subnormal[0] += u64::from(found.1[0]);
            subnormal[1] += u64::from(found.1[1]);
        }
        Some(Places {
            min: [e[0], a[0]],
            max: [e[1], a[1]],
            subnormal,
            equal,
            // Across zero, the steps of both magnitudes add up, to more than the steps between them.
            ulps: self.ratio.max(self.across).into(),
            rel_bound: self.rel_bound(normal, e[1].max(-e[0]).max(a[1].max(-a[0])), value),
        })
    }

    /// A bound on `|a - e| / (|e| + guard)`, which is at most `1 + |a| / (|e| + guard)`, where `|a|` is at most `ratio`
    /// steps above `|e|` and not above `absmax`.
    ///
    /// Among normal numbers, a step multiplies by a power of two with exponent `1 / normal`, except for the excess of
    /// `log2(1 + x)` over `x`, which is below 0.0861. Among subnormals, `|e|` is linear in its steps and `|a|`, that many
    /// steps further, is convex. Such a quotient is largest at one end: at the smallest magnitude, or at the first normal
    /// number.
    fn rel_bound(&self, normal: u16, absmax: f64, value: impl Fn(u16) -> f64) -> f64 {
        let times = (f64::from(self.ratio) / f64::from(normal) + 0.0861).exp2();
        // A distance is rounded to float32.
        let rounded = |times: f64| (1.0 + times) * (1.0 + 1e-6);
        if self.least >= normal {
            return rounded(times);
        }
        let above = value(self.least.saturating_add(self.ratio).min(i16::MAX as u16));
        // Past the largest number come infinity and NaN, which `min` ignores.
        rounded(times.max(above.min(absmax) / (value(self.least) + REL_GUARD)))
    }
}

/// See [`f32_places`].
pub(super) fn bf16_places(
    scan: &NarrowScan,
    reach: Reach,
    e: &[bf16; BLOCK],
    a: &[bf16; BLOCK],
) -> Option<Places> {
    // The smallest bfloat16 at or above the limit.
    let limit = ((HUGE as f32).to_bits() >> 16) as u16 + 1;
    let value = |magnitude| f64::from(bf16::from_bits(magnitude));
    scan.places(reach, [limit, bf16::NORMAL], value, [cast_ref(e), cast_ref(a)])
}

/// See [`f32_places`].
pub(super) fn f16_places(
    scan: &NarrowScan,
    reach: Reach,
    e: &[f16; BLOCK],
    a: &[f16; BLOCK],
) -> Option<Places> {
    let value = |magnitude| f64::from(f16::from_bits(magnitude));
    scan.places(reach, [f16::INFINITY.to_bits(), f16::NORMAL], value, [cast_ref(e), cast_ref(a)])
}

#[cfg(test)]
mod tests {
    use super::super::fast_tier::{self, Fast};
    use super::super::thresholds::Thresholds;
    use super::*;

    fn places<T: Fast>(e: &[T; BLOCK], a: &[T; BLOCK]) -> Option<Places> {
        places_after([0.0; 2], e, a)
    }

    fn places_after<T: Fast>(seen: [f64; 2], e: &[T; BLOCK], a: &[T; BLOCK]) -> Option<Places> {
        fast_tier::measure(e, a, &Thresholds { seen, ..Thresholds::default() })
            .map(|measured| measured.places)
    }

    #[test]
    fn the_first_element_that_is_too_large_is_seen() {
        let e = [bf16::ONE; BLOCK];
        for bits in 0..=u16::MAX {
            let mut a = e;
            a[BLOCK - 1] = bf16::from_bits(bits);
            let small = a[BLOCK - 1].to_f64().abs() < HUGE;
            assert_eq!(places(&e, &a).is_some(), small, "{bits:#06x}");
            assert_eq!(places_after([-9e29, 9e29], &e, &a).is_some(), small, "{bits:#06x}");
        }
        let e = [1f32; BLOCK];
        for (x, small) in
            [(HUGE as f32, false), ((HUGE as f32).next_down(), true), (f32::NAN, false), (-f32::NAN, false)]
        {
            let mut a = e;
            a[0] = x;
            assert_eq!(places(&e, &a).is_some(), small, "{x}");
            assert_eq!(places(&a, &e).is_some(), small, "{x}");
            assert_eq!(places_after([-9e29, 9e29], &e, &a).is_some(), small, "{x}");
        }
        let mut half = [f16::ONE; BLOCK];
        half[5] = f16::MAX;
        assert_eq!(places(&half, &half).unwrap().max, [65504.0; 2]);
        for bad in [f16::INFINITY, f16::NEG_INFINITY, f16::NAN] {
            let e = half;
            half[5] = bad;
            assert_eq!(places(&half, &half), None);
            assert_eq!(places_after([-65504.0, 65504.0], &e, &half), None);
        }
    }

    #[test]
    fn an_actual_is_looked_at_where_it_may_go_beyond_what_was_seen() {
        fn check<T: Fast>(new: fn(f32) -> T) {
            let e: [T; BLOCK] = std::array::from_fn(|i| new(if i == 7 { -2.0 } else { 2.0 }));
            let mut a = e;
            let ends =
                |seen, a: &[T; BLOCK]| places_after(seen, &e, a).map(|places| [places.min[1], places.max[1]]);
            assert_eq!(ends([-2.5, 3.0], &a), Some([-2.5, 3.0]), "nothing can be beyond");
            assert_eq!(ends([-2.0, 3.0], &a), Some([-2.0, 2.0]), "too near to tell");
            a[9] = new(3.5);
            assert_eq!(ends([-4.0, 3.25], &a), Some([-2.0, 3.5]));
            a[9] = new(-4.5);
            assert_eq!(ends([-4.25, 9.0], &a), Some([-4.5, 2.0]));
            assert_eq!(ends([f64::INFINITY, f64::NEG_INFINITY], &a), Some([-4.5, 2.0]), "nothing seen yet");
        }
        check(|x| x);
        check(f16::from_f32);
        check(bf16::from_f32);
    }

    #[test]
    fn small_halves_are_counted_in_any_run() {
        let mut e = [f16::ONE; BLOCK];
        let mut a = e;
        (e[3], a[3]) = (f16::NEG_ZERO, f16::ZERO);
        (e[4], a[4]) = (f16::ZERO, f16::ZERO);
        (e[300], a[300]) = (f16::from_bits(0x3ff), f16::from_bits(0x400));
        (e[4095], a[4095]) = (f16::from_bits(5), f16::from_bits(0x8002));
        let places = places(&e, &a).unwrap();
        assert_eq!((places.equal, places.ulps), (BLOCK as u64 - 2, 7));
        assert_eq!(places.subnormal, [2, 1]);
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
    }
}
