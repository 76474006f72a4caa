//! What the bits of floats tell without arithmetic on them: extremes, distances in steps, subnormals.
//!
//! The loops are plain integer code inside functions compiled for the processor that runs them: integer minima, maxima
//! and counts may be reordered, so the compiler makes vectors of them, and 16-bit floats stay 16 bits wide.

use bytemuck::cast_ref;
use half::{bf16, f16};
use pulp::{Arch, NullaryFnOnce};

use super::{BLOCK, HUGE, REL_GUARD};

/// The first float32 that is not subnormal.
const NORMAL: u32 = 1 << 23;

/// What the bits of a block tell; expected first where there are two.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Places {
    pub(super) min: [f64; 2],
    pub(super) max: [f64; 2],
    pub(super) subnormal: [u64; 2],
    pub(super) equal: u64,
    pub(super) ulps: u64,
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
    if scan.min.iter().any(|&min| f64::from(min) <= -HUGE)
        || scan.max.iter().any(|&max| f64::from(max) >= HUGE)
    {
        return None;
    }
    let (arch, blocks) = (Arch::new(), [cast_ref(e), cast_ref(a)]);
    let steps = || arch.dispatch(Steps(blocks[0], blocks[1]));
    let subnormal = |bits| arch.dispatch(Subnormal(bits));
    Some(Places {
        // A zero has no sign here.
        min: scan.min.map(|min| f64::from(min) + 0.0),
        max: scan.max.map(|max| f64::from(max) + 0.0),
        subnormal: if scan.least < NORMAL - 1 { blocks.map(subnormal) } else { [0; 2] },
        equal: scan.equal.into(),
        ulps: if scan.bits_apart < NORMAL { scan.bits_apart } else { steps() }.into(),
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

/// How many float32 are subnormal.
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

/// How many pairs of 16-bit floats are equal, and how many of either side are subnormal, given the first magnitude that
/// is not.
struct Small<'a>([&'a [u16; BLOCK]; 2], u16);

impl NullaryFnOnce for Small<'_> {
    type Output = (u16, [u16; 2]);

    #[inline(always)]
    fn call(self) -> Self::Output {
        let (mut equal, mut subnormal, last) = (0u16, [0u16; 2], self.1 - 1);
        for (&e, &a) in self.0[0].iter().zip(self.0[1]) {
            let (e_magnitude, a_magnitude) = (e & u16::MAX >> 1, a & u16::MAX >> 1);
            equal = equal.wrapping_add(u16::from(e == a || e_magnitude | a_magnitude == 0));
            subnormal[0] = subnormal[0].wrapping_add(u16::from(e_magnitude.wrapping_sub(1) < last));
            subnormal[1] = subnormal[1].wrapping_add(u16::from(a_magnitude.wrapping_sub(1) < last));
        }
        (equal, subnormal)
    }
}

/// The least bits as an unsigned integer: of 16-bit floats of one sign those of the one nearest to zero.
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

/// What is found in a block of 16-bit floats. A bit pattern as a signed integer is the larger the larger a positive
/// number is; as an unsigned one it is larger for negative numbers than for all others, and the larger the further they
/// are from zero.
#[derive(Debug, Clone, Copy)]
struct Scan {
    max_signed: [i16; 2],
    max_unsigned: [u16; 2],
    /// Elements whose bits are the same.
    same: u16,
    /// The least magnitude.
    least: u16,
    /// The most steps between magnitudes, whatever the signs.
    ratio: u16,
    /// The most steps across zero.
    across: u16,
}

/// Scans a block, right after its sums were made: it is in the cache then. On its own, since the loop needs all of the
/// registers.
struct Scanned<'a>([&'a [u16; BLOCK]; 2]);

impl NullaryFnOnce for Scanned<'_> {
    type Output = Scan;

    #[inline(always)]
    fn call(self) -> Scan {
        let (mut max_signed, mut max_unsigned) = ([i16::MIN; 2], [0; 2]);
        let (mut same, mut least, mut ratio, mut across) = (0u16, u16::MAX, 0, 0);
        for (&e, &a) in self.0[0].iter().zip(self.0[1]) {
            max_signed = [max_signed[0].max(e as i16), max_signed[1].max(a as i16)];
            max_unsigned = [max_unsigned[0].max(e), max_unsigned[1].max(a)];
            same = same.wrapping_add(u16::from(e == a));
            let signs_differ = ((e ^ a) as i16 >> 15) as u16;
            let (e, a) = (e & u16::MAX >> 1, a & u16::MAX >> 1);
            let lesser = e.min(a);
            least = least.min(lesser);
            ratio = ratio.max(e.max(a).wrapping_sub(lesser));
            across = across.max(e.wrapping_add(a) & signs_differ);
        }
        Scan { max_signed, max_unsigned, same, least, ratio, across }
    }
}

impl Scan {
    /// See [`f32_places`]; NaN is seen, too. `limit` is the first magnitude that is too large, `normal` the first that
    /// is not subnormal.
    fn places(
        &self,
        [limit, normal]: [u16; 2],
        value: impl Fn(u16) -> f64 + Copy,
        blocks: [&[u16; BLOCK]; 2],
    ) -> Option<Places> {
        const SIGN: u16 = 1 << 15;
        if self.max_signed.iter().any(|&max| max >= limit as i16)
            || self.max_unsigned.iter().any(|&max| max >= limit | SIGN)
        {
            return None;
        }
        let extremes = |side: usize| {
            let (low, high) = (self.max_unsigned[side], self.max_signed[side] as u16);
            // A zero has no sign here.
            let negative = |bits: u16| 0.0 - value(bits & !SIGN);
            match (low & SIGN == 0, high & SIGN == 0) {
                (false, true) => (negative(low), value(high)),
                // Where all have one sign, one end is the nearest to zero, which takes another look.
                (true, _) => (value(Arch::new().dispatch(Nearest(blocks[side]))), value(high)),
                (_, false) => (negative(low), negative(Arch::new().dispatch(Nearest(blocks[side])))),
            }
        };
        let (e, a) = (extremes(0), extremes(1));
        // Zeros of two signs are equal, subnormals are counted: both take another look.
        let (equal, subnormal) = if self.least < normal {
            Arch::new().dispatch(Small(blocks, normal))
        } else {
            (self.same, [0; 2])
        };
        Some(Places {
            min: [e.0, a.0],
            max: [e.1, a.1],
            subnormal: subnormal.map(u64::from),
            equal: equal.into(),
            // Across zero the steps are those of both, which are more than those between.
            ulps: self.ratio.max(self.across).into(),
            rel_bound: self.rel_bound(normal, e.1.max(-e.0).max(a.1.max(-a.0)), value),
        })
    }

    /// A bound on `|a - e| / (|e| + guard)`, which is at most `1 + |a| / (|e| + guard)`, where `|a|` is at most `ratio`
    /// steps above `|e|` and not above `absmax`.
    ///
    /// Of normal numbers a step is one in `normal` of a power of two, but for how far `log2(1 + x)` rises above `x`,
    /// which is less than 0.0861. Below them `|e|` is linear in its place and `|a|`, so many steps further, is convex;
    /// such a quotient is largest at one end: at the least magnitude, or where the normal numbers begin.
    fn rel_bound(&self, normal: u16, absmax: f64, value: impl Fn(u16) -> f64) -> f64 {
        let times = (f64::from(self.ratio) / f64::from(normal) + 0.0861).exp2();
        // A distance is rounded to float32.
        let rounded = |times: f64| (1.0 + times) * (1.0 + 1e-6);
        if self.least >= normal {
            return rounded(times);
        }
        let above = value(self.least.saturating_add(self.ratio).min(i16::MAX as u16));
        // Past the largest number there is NaN or infinity, which `min` leaves out.
        rounded(times.max(above.min(absmax) / (value(self.least) + REL_GUARD)))
    }
}

/// See [`f32_places`]; NaN is seen, too.
pub(super) fn bf16_places(e: &[bf16; BLOCK], a: &[bf16; BLOCK]) -> Option<Places> {
    // The first bfloat16 that is not below the limit.
    let limit = ((HUGE as f32).to_bits() >> 16) as u16 + 1;
    let value = |magnitude| f64::from(bf16::from_bits(magnitude));
    let blocks = [cast_ref(e), cast_ref(a)];
    Arch::new().dispatch(Scanned(blocks)).places([limit, 1 << 7], value, blocks)
}

/// See [`f32_places`]; NaN is seen, too.
pub(super) fn f16_places(e: &[f16; BLOCK], a: &[f16; BLOCK]) -> Option<Places> {
    let value = |magnitude| f64::from(f16::from_bits(magnitude));
    let blocks = [cast_ref(e), cast_ref(a)];
    Arch::new().dispatch(Scanned(blocks)).places([f16::INFINITY.to_bits(), 1 << 10], value, blocks)
}

#[cfg(test)]
mod tests {
    use super::super::kernel::Fast;
    use super::super::runs::LowLine;
    use super::*;

    fn places<T: Fast>(e: &[T; BLOCK], a: &[T; BLOCK]) -> Option<Places> {
        T::measure(e, a, [LowLine { offset: 0.0, slope: 0.0 }; 2]).2
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
    }
}
