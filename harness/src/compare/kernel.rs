//! The fast tier: whole blocks of float32, bfloat16 or float16 at about the speed of memory.
//!
//! A block is read from memory once, by the loop that makes the sums ([`super::lanes`]); the loop over its bits
//! ([`super::bits`]) then finds it in the cache. What is costly and rare is not done there at all: the loops only tell whether a block *could* hold an element that is outside, or worse than the worst so far. Only such
//! a block is gone through once more, by [`recheck`], with a division for each element; and only where that finds
//! something worse does [`super::tally`] go looking for its place.
//!
//! Everything is written once, for every instruction set. `pulp` picks AVX2 or NEON when the program runs, without
//! compiler flags and without `unsafe` here.

use half::{bf16, f16};
use pulp::{Arch, NullaryFnOnce};

use super::REL_GUARD;
use super::bits::{self, Places};
use super::lanes::{Block, Excess, Narrow, Sums};

/// Elements in a block: enough that what is done once a block does not count, few enough to stay in a small cache.
pub(super) const BLOCK: usize = 4096;

/// `offset + slope * |expected|`: a distance above it has to be looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Line {
    pub(super) offset: f64,
    pub(super) slope: f64,
}

impl Line {
    /// The slope in float32, lower by more than the three roundings of `distance - slope * |expected|` can add up to.
    fn low_slope(self) -> f32 {
        (self.slope.min(1e30) * (1.0 - 1e-6)) as f32
    }

    /// Whether elements may lie above the line, when the largest `distance - slope * |expected|` is `excess`.
    fn below(self, excess: f32) -> bool {
        f64::from(excess) > self.offset.min(1e30) * (1.0 - 1e-6)
    }
}

/// The two lines above which a block has to be gone through once more.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Limits {
    /// For the gate; `None` where the largest distance alone can tell.
    pub(super) gate: Option<Line>,
    /// For the relative distance.
    pub(super) relative: Line,
}

/// What one block of finite elements holds. Extremes and counts are exact; see [`Sums`] for the rest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    pub(super) sums: Sums,
    /// What the bits of the elements tell; expected first where there are two.
    pub(super) places: Places,
    /// Whether an element may lie above one of the two lines.
    pub(super) above: bool,
}

/// What a closer look at a block of finite elements found.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rechecked {
    pub(super) max_rel: f64,
    /// The largest distance over its own bound; 0 over 0 is 0.
    pub(super) max_used: f64,
    /// Elements further apart than their own bound.
    pub(super) outside: u64,
}

/// A float whose blocks are measured fast.
pub(super) trait Fast: Copy {
    /// Whether it has 16 bits: distances are then rounded to float32, and [`Fast::measure`] leaves out the line of the
    /// relative distance, the bits telling a bound on it instead.
    const NARROW: bool = true;
    /// The value; only finite ones come back right.
    fn widen(self) -> f32;
    fn is_finite(self) -> bool;
    /// Sums and places; no places when an element is not finite or too large, and then the sums mean nothing.
    fn measure(e: &[Self; BLOCK], a: &[Self; BLOCK], slopes: [f32; 2]) -> (Sums, Excess, Option<Places>);
}

impl Fast for f32 {
    const NARROW: bool = false;
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        Self::is_finite(self)
    }
    fn measure(e: &[Self; BLOCK], a: &[Self; BLOCK], slopes: [f32; 2]) -> (Sums, Excess, Option<Places>) {
        let (sums, excess, scan) = Arch::new().dispatch(Block { e, a, slopes });
        // A NaN anywhere is a NaN in a sum.
        let finite = sums.expected.is_finite() && sums.actual.is_finite();
        (sums, excess, bits::f32_places(&scan, e, a).filter(|_| finite))
    }
}

impl Fast for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        Self::low(self.to_bits().into())
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        Self::is_finite(self)
    }
    fn measure(e: &[Self; BLOCK], a: &[Self; BLOCK], slopes: [f32; 2]) -> (Sums, Excess, Option<Places>) {
        let (sums, excess, scan) = Block { e, a, slopes }.measure_narrow();
        (sums, excess, bits::bf16_places(&scan, e, a))
    }
}

impl Fast for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        Self::low(self.to_bits().into())
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        Self::is_finite(self)
    }
    fn measure(e: &[Self; BLOCK], a: &[Self; BLOCK], slopes: [f32; 2]) -> (Sums, Excess, Option<Places>) {
        let (sums, excess, scan) = Block { e, a, slopes }.measure_narrow();
        (sums, excess, bits::f16_places(&scan, e, a))
    }
}

/// Measures a block, or answers `None` when an element is not finite, or too large for the sums.
pub(super) fn measure<T: Fast>(e: &[T; BLOCK], a: &[T; BLOCK], limits: &Limits) -> Option<Measured> {
    let gate = limits.gate.unwrap_or_default();
    let (sums, excess, places) = T::measure(e, a, [gate.low_slope(), limits.relative.low_slope()]);
    let places = places?;
    let relative = if T::NARROW {
        let slope = limits.relative.low_slope();
        places.rel_bound > limits.relative.slope
            && limits.relative.below(Arch::new().dispatch(Above { e, a, slope }))
    } else {
        limits.relative.below(excess.relative)
    };
    // A line through the origin leaves no room for the rounding of the smallest products.
    let at_origin = |line: Line| line.offset < 1e-30;
    let tiny = places.has_tiny && (limits.gate.is_some_and(at_origin) || at_origin(limits.relative));
    let gate = limits.gate.is_some_and(|gate| gate.below(excess.gate));
    Some(Measured { sums, places, above: gate || relative || tiny && sums.max_distance > 0.0 })
}

struct Above<'a, T> {
    e: &'a [T; BLOCK],
    a: &'a [T; BLOCK],
    slope: f32,
}

impl<T: Fast> NullaryFnOnce for Above<'_, T> {
    /// The largest `distance - slope * |expected|`, or something below zero when there is none from zero up.
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        // As integers with a sign, the bits of floats from zero up are in their order and above those of all others; and
        // integers may be reordered into vectors.
        let mut most = i32::MIN;
        for (&e, &a) in self.e.iter().zip(self.a) {
            let (e, a) = (e.widen(), a.widen());
            most = most.max(((a - e).abs() - self.slope * e.abs()).to_bits() as i32);
        }
        f32::from_bits(most as u32)
    }
}

/// Goes through a block of finite elements once more, under the bound `atol + rtol * |expected|`.
pub(super) fn recheck<T: Fast>(e: &[T; BLOCK], a: &[T; BLOCK], rtol: f64, atol: f64) -> Rechecked {
    Arch::new().dispatch(Recheck { e, a, rtol, atol })
}

struct Recheck<'a, T> {
    e: &'a [T; BLOCK],
    a: &'a [T; BLOCK],
    rtol: f64,
    atol: f64,
}

impl<T: Fast> NullaryFnOnce for Recheck<'_, T> {
    type Output = Rechecked;

    #[inline(always)]
    fn call(self) -> Rechecked {
        // Numbers from zero up are in the order of their bits, and integers may be reordered into vectors.
        let (mut max_rel, mut max_used, mut outside) = (0i64, 0i64, 0i64);
        for (&e, &a) in self.e.iter().zip(self.a) {
            let (e, a) = (e.widen(), a.widen());
            let rounded = f64::from((a - e).abs());
            let exact = (f64::from(a) - f64::from(e)).abs();
            // As [`super::element::Element`] has it: what is measured is rounded, what is judged is not.
            let distance = if T::NARROW { rounded } else { exact };
            let magnitude = f64::from(e).abs();
            let bound = self.atol + self.rtol * magnitude;
            let used = if distance > 0.0 { distance / bound } else { 0.0 };
            max_rel = max_rel.max((distance / (magnitude + REL_GUARD)).to_bits() as i64);
            max_used = max_used.max(used.to_bits() as i64);
            outside = outside.wrapping_add(i64::from(exact > bound));
        }
        Rechecked {
            max_rel: f64::from_bits(max_rel as u64),
            max_used: f64::from_bits(max_used as u64),
            outside: outside as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_half_widens_to_itself() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
            let words = [u32::from(bits) | 0x1234_0000, u32::from(bits) << 16 | 0x4321];
            if half.is_finite() {
                assert_eq!(f16::low(words[0]).to_bits(), half.to_f32().to_bits());
                assert_eq!(f16::high(words[1]).to_bits(), half.to_f32().to_bits());
            }
            if brain.is_finite() {
                assert_eq!(bf16::low(words[0]).to_bits(), brain.to_f32().to_bits());
                assert_eq!(bf16::high(words[1]).to_bits(), brain.to_f32().to_bits());
            }
        }
    }

    #[test]
    fn a_block_is_above_a_line_only_where_an_element_may_be() {
        let e = [1f32; BLOCK];
        let mut a = e;
        a[700] = 1.25;
        let above = |offset, slope| {
            let limits =
                Limits { gate: Some(Line { offset, slope }), relative: Line { offset: 1.0, slope: 1.0 } };
            measure(&e, &a, &limits).unwrap().above
        };
        assert!(above(0.0, 0.25), "a tie has to be looked at");
        assert!(above(0.1, 0.1));
        assert!(!above(0.1, 0.1500001 * 1.00001));
        assert!(!above(0.25001, 0.0));
    }

    #[test]
    fn a_closer_look_is_exact() {
        let (mut e, mut a) = ([2f32; BLOCK], [2f32; BLOCK]);
        (e[5], a[5]) = (0.0, 1e-3);
        a[6] = 2.5;
        a[7] = 1.0;
        let found = recheck(&e, &a, 0.25, 0.0);
        assert_eq!((found.max_used, found.outside), (f64::INFINITY, 2));
        assert_eq!(found.max_rel, f64::from(1e-3f32) / 1e-8);
        let found = recheck(&e, &a, 0.25, 0.1);
        assert_eq!((found.max_used, found.outside), (1.0 / (0.1 + 0.25 * 2.0), 1));
    }
}
