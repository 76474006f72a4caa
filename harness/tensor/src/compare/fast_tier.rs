//! The fast tier: whole blocks of float32, bfloat16 or float16 at about the speed of memory.
//!
//! A block is read from memory once. The loop that makes the sums ([`super::fast_sums`]) also scans the bits
//! ([`super::fast_extremes`]) when the registers suffice for both. Otherwise a second loop does, with the elements in the
//! cache. [`recheck`] visits the few [runs](super::thresholds) above a threshold again. Only when it finds a worse element
//! does [`super::pair_tally`] search for its position.
//!
//! The code is written once for all instruction sets. `pulp` selects NEON, AVX2 or AVX-512 at run time, without compiler
//! flags and without `unsafe` here.

use half::{bf16, f16};
use pulp::{Arch, NullaryFnOnce};

use super::fast_sums::{BlockSums, FastBlock};
use super::float_bits::{self, Places, Reach};
use super::thresholds::{self, LowThreshold, RUN, Reached, Runs, Thresholds};
use super::tolerance::Tolerance;
use super::widen::Narrow;
use super::{BLOCK, REL_GUARD};

/// The measurements of one block of finite elements. Extremes and counts are exact; see [`BlockSums`] for the rest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    pub(super) sums: BlockSums,
    /// Extremes and counts from the bits of the elements.
    pub(super) places: Places,
    pub(super) reached: Reached,
    /// The sums of the moduli of both sides, for complex numbers, whose other sums are over the parts.
    pub(super) moduli: [f64; 2],
}

/// The result of checking finite elements again.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rechecked {
    pub(super) max_rel: f64,
    /// The largest distance divided by its bound; 0 divided by 0 is 0.
    pub(super) max_used: f64,
    /// Elements further apart than their own bound.
    pub(super) outside: u64,
}

/// A float whose blocks are measured fast.
pub(super) trait Fast: Copy {
    /// Whether it has 16 bits. Distances are then rounded to float32, and [`Fast::measure`] ignores the threshold of the
    /// relative distance, because the bits give a bound on it.
    const NARROW: bool = true;
    /// The value; only correct for finite ones.
    fn widen(self) -> f32;
    fn is_finite(self) -> bool;
    /// Sums and places; no places when an element is not finite or too large, and then the sums are meaningless.
    fn measure(
        e: &[Self; BLOCK],
        a: &[Self; BLOCK],
        limits: &Thresholds,
    ) -> (BlockSums, Reached, Option<Places>);
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
    #[inline]
    fn measure(
        e: &[Self; BLOCK],
        a: &[Self; BLOCK],
        limits: &Thresholds,
    ) -> (BlockSums, Reached, Option<Places>) {
        let (sums, reached, scan) = Arch::new().dispatch(FastBlock { e, a, thresholds: limits.low() });
        let places = reach(&sums, limits).and_then(|reach| float_bits::f32_places(&scan, reach, e, a));
        (sums, reached, places)
    }
}

macro_rules! narrow {
    ($type:ty, $places:path) => {
        impl Fast for $type {
            #[inline(always)]
            fn widen(self) -> f32 {
                Self::low(self.to_bits().into())
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                Self::is_finite(self)
            }
            #[inline]
            fn measure(
                e: &[Self; BLOCK],
                a: &[Self; BLOCK],
                limits: &Thresholds,
            ) -> (BlockSums, Reached, Option<Places>) {
                let (sums, gate, scan) = FastBlock { e, a, thresholds: limits.low() }.measure_narrow();
                let places = reach(&sums, limits).and_then(|reach| $places(&scan, reach, e, a));
                (sums, Reached { gate, relative: Runs::NONE }, places)
            }
        }
    };
}

narrow!(bf16, float_bits::bf16_places);
narrow!(f16, float_bits::f16_places);

/// How far the actual reaches; `None` when an element is NaN, which makes a sum NaN.
fn reach(sums: &BlockSums, limits: &Thresholds) -> Option<Reach> {
    let finite = sums.expected.is_finite() && sums.actual.is_finite();
    finite.then_some(Reach { max_distance: sums.max_distance, seen: limits.seen })
}

/// Measures a block; `None` when an element is not finite or too large for the sums.
#[inline]
pub(super) fn measure<T: Fast>(e: &[T; BLOCK], a: &[T; BLOCK], limits: &Thresholds) -> Option<Measured> {
    let (sums, mut reached, places) = T::measure(e, a, limits);
    let places = places?;
    if T::NARROW && places.rel_bound > limits.relative.slope {
        reached.relative = Arch::new().dispatch(Above { e, a, threshold: limits.relative.low() });
    }
    Some(Measured { sums, places, reached, moduli: [0.0; 2] })
}

/// The runs of a block at or above a threshold.
struct Above<'a, T> {
    e: &'a [T; BLOCK],
    a: &'a [T; BLOCK],
    threshold: LowThreshold,
}

impl<T: Fast> NullaryFnOnce for Above<'_, T> {
    type Output = Runs;

    #[inline(always)]
    fn call(self) -> Runs {
        let (e, a) = (self.e.as_chunks::<RUN>().0, self.a.as_chunks::<RUN>().0);
        let mut above = Runs::NONE;
        for run in 0..thresholds::COUNT {
            // As signed integers, the bits of floats from zero up have the order of the floats and are above those of
            // negative floats. Compilers may reorder integer operations into vectors.
            let mut most = i32::MIN;
            for (&e, &a) in e[run].iter().zip(&a[run]) {
                let (e, a) = (e.widen(), a.widen());
                most = most.max(((a - e).abs() - self.threshold.slope * e.abs()).to_bits() as i32);
            }
            above.set(run, f32::from_bits(most as u32) >= self.threshold.offset);
        }
        above
    }
}

/// Checks finite elements again, each under its bound.
pub(super) fn recheck<T: Fast>(e: &[T], a: &[T], tolerance: &Tolerance) -> Rechecked {
    Arch::new().dispatch(Recheck { e, a, rtol: tolerance.rtol, atol: tolerance.atol })
}

struct Recheck<'a, T> {
    e: &'a [T],
    a: &'a [T],
    rtol: f64,
    atol: f64,
}

impl<T: Fast> NullaryFnOnce for Recheck<'_, T> {
    type Output = Rechecked;

    #[inline(always)]
    fn call(self) -> Rechecked {
        // Numbers from zero up have the order of their bits, and compilers may reorder integer operations into vectors.
        let (mut max_rel, mut max_used, mut outside) = (0i64, 0i64, 0i64);
        for (&e, &a) in self.e.iter().zip(self.a) {
            let (e, a) = (e.widen(), a.widen());
            let rounded = f64::from((a - e).abs());
            let exact = (f64::from(a) - f64::from(e)).abs();
            // As in [`super::element::Element`]: measurements are rounded, verdicts are not.
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
    use super::super::thresholds::Threshold;
    use super::*;

    #[test]
    fn a_run_is_above_a_line_only_where_an_element_may_be() {
        let e = [1f32; BLOCK];
        let mut a = e;
        a[700] = 1.25;
        let above = |offset, slope| {
            let relative = Threshold { offset: 1.0, slope: 1.0 };
            let limits = Thresholds { gate: Threshold { offset, slope }, relative, ..Thresholds::default() };
            measure(&e, &a, &limits).unwrap().reached.gate.iter().collect::<Vec<_>>()
        };
        assert_eq!(above(0.0, 0.25), [2], "a tie has to be looked at");
        assert_eq!(above(0.1, 0.1), [2]);
        assert_eq!(above(0.1, 0.1500001 * 1.00001), [0; 0]);
        assert_eq!(above(0.25001, 0.0), [0; 0]);
    }

    /// Every pair of magnitudes that a 16-bit float can have is below the bound that the scan reports.
    #[test]
    fn no_relative_distance_is_above_its_bound() {
        fn check<T: Fast>(new: fn(u16) -> T, finite: u16, steps: usize) {
            for e in (0..finite).step_by(steps) {
                for a in (0..finite).step_by(steps * 7 + 1) {
                    let (e, a) = ([new(e); BLOCK], [new(a | 1 << 15); BLOCK]);
                    let Some(places) = T::measure(&e, &a, &Thresholds::default()).2 else { continue };
                    let found = recheck(&e[..1], &a[..1], &Tolerance::new(0.0, 0.0)).max_rel;
                    assert!(found <= places.rel_bound, "{found} {}", places.rel_bound);
                }
            }
        }
        check(f16::from_bits, 0x7c00, 619);
        check(bf16::from_bits, 0x7f80, 619);
        check(f16::from_bits, 0x800, 97);
    }

    #[test]
    fn a_closer_look_is_exact() {
        let (mut e, mut a) = ([2f32; RUN], [2f32; RUN]);
        (e[5], a[5]) = (0.0, 1e-3);
        a[6] = 2.5;
        a[7] = 1.0;
        let found = recheck(&e, &a, &Tolerance::new(0.25, 0.0));
        assert_eq!((found.max_used, found.outside), (f64::INFINITY, 2));
        assert_eq!(found.max_rel, f64::from(1e-3f32) / 1e-8);
        let found = recheck(&e, &a, &Tolerance::new(0.25, 0.1));
        assert_eq!((found.max_used, found.outside), (1.0 / (0.1 + 0.25 * 2.0), 1));
    }
}
