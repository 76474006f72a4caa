//! The middle tier: whole blocks of float64, integers and bools, in float64.
//!
//! A run is first converted to float64, by plain code that compilers turn into vectors where they can, and then summed.
//! Results that float64 cannot hold, such as the distance of two integers, come from the elements themselves.

use pulp::{Arch, Simd, WithSimd};

use super::element::Element;
use super::fast_sums::BlockSums;
use super::fast_tier::Measured;
use super::float_bits::Places;
use super::thresholds::{self, RUN, Reached, Threshold, Thresholds};
use super::{BLOCK, HUGE};

/// Measures a block; `None` when an element is not finite or too large for the sums.
pub(super) fn measure<T: Element>(e: &[T; BLOCK], a: &[T; BLOCK], limits: &Thresholds) -> Option<Measured> {
    let thresholds = [limits.gate.low_wide(), limits.relative.low_wide()];
    let measured = Arch::new().dispatch(WideBlock { e, a, thresholds });
    let Measured { sums, places, .. } = &measured;
    // A NaN makes a sum NaN, and an infinity is an extreme.
    let finite = sums.expected.is_finite() && sums.actual.is_finite();
    let small = |extremes: [f64; 2]| extremes.iter().all(|x| x.abs() < HUGE);
    (finite && small(places.min) && small(places.max)).then_some(measured)
}

struct WideBlock<'a, T> {
    e: &'a [T; BLOCK],
    a: &'a [T; BLOCK],
    thresholds: [Threshold; 2],
}

impl<T: Element> WithSimd for WideBlock<'_, T> {
    type Output = Measured;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Measured {
        let mut lanes = WideLanes::new(simd);
        let (mut subnormal, mut equal, mut ulps) = ([0; 2], 0, 0);
        let mut reached = Reached::default();
        let (mut e_wide, mut a_wide, mut d_wide) = ([0.0; RUN], [0.0; RUN], [0.0; RUN]);
        for run in 0..thresholds::COUNT {
            let (e, a) = (&self.e.as_chunks::<RUN>().0[run], &self.a.as_chunks::<RUN>().0[run]);
            for i in 0..RUN {
                e_wide[i] = e[i].number();
                a_wide[i] = a[i].number();
                d_wide[i] = e[i].distance(a[i]);
            }
            let excess = lanes.add(&e_wide, &a_wide, &d_wide, self.thresholds);
            reached.gate.set(run, excess[0] >= self.thresholds[0].offset);
            reached.relative.set(run, excess[1] >= self.thresholds[1].offset);
            for i in 0..RUN {
                equal += u64::from(e[i] == a[i]);
            }
            if T::HAS_ULPS {
                for i in 0..RUN {
                    subnormal[0] += u64::from(e[i].is_subnormal());
                    subnormal[1] += u64::from(a[i].is_subnormal());
                    ulps = ulps.max(e[i].ulps(a[i]));
                }
            }
        }
        let (sums, [min, max]) = lanes.finish();
        let places = Places { min, max, subnormal, equal, ulps, rel_bound: f64::INFINITY };
        Measured { sums, places, reached, moduli: [0.0; 2] }
    }
}

struct WideLanes<S: Simd> {
    simd: S,
    expected: S::f64s,
    actual: S::f64s,
    error: S::f64s,
    distances: S::f64s,
    expected_squares: S::f64s,
    actual_squares: S::f64s,
    error_squares: S::f64s,
    max_distance: S::f64s,
    min: [S::f64s; 2],
    max: [S::f64s; 2],
}

impl<S: Simd> WideLanes<S> {
    #[inline(always)]
    fn new(simd: S) -> Self {
        let zero = simd.splat_f64s(0.0);
        Self {
            simd,
            expected: zero,
            actual: zero,
            error: zero,
            distances: zero,
            expected_squares: zero,
            actual_squares: zero,
            error_squares: zero,
            max_distance: zero,
            min: [simd.splat_f64s(f64::INFINITY); 2],
            max: [simd.splat_f64s(f64::NEG_INFINITY); 2],
        }
    }

    /// Adds a run, and returns the largest `distance - slope * |expected|` for each threshold.
    #[inline(always)]
    fn add(
        &mut self,
        e: &[f64; RUN],
        a: &[f64; RUN],
        d: &[f64; RUN],
        thresholds: [Threshold; 2],
    ) -> [f64; 2] {
        let simd = self.simd;
        let magnitude = simd.splat_f64s(f64::from_bits(u64::MAX >> 1));
        let slopes = [simd.splat_f64s(-thresholds[0].slope), simd.splat_f64s(-thresholds[1].slope)];
        let mut above = [simd.splat_f64s(f64::NEG_INFINITY); 2];
        let pairs = S::as_simd_f64s(e).0.iter().zip(S::as_simd_f64s(a).0);
        for ((&e, &a), &d) in pairs.zip(S::as_simd_f64s(d).0) {
            let error = simd.sub_f64s(a, e);
            self.expected = simd.add_f64s(self.expected, e);
            self.actual = simd.add_f64s(self.actual, a);
            self.error = simd.add_f64s(self.error, error);
            self.distances = simd.add_f64s(self.distances, d);
            self.expected_squares = simd.mul_add_e_f64s(e, e, self.expected_squares);
            self.actual_squares = simd.mul_add_e_f64s(a, a, self.actual_squares);
            self.error_squares = simd.mul_add_e_f64s(error, error, self.error_squares);
            self.max_distance = simd.max_f64s(self.max_distance, d);
            self.min = [simd.min_f64s(self.min[0], e), simd.min_f64s(self.min[1], a)];
            self.max = [simd.max_f64s(self.max[0], e), simd.max_f64s(self.max[1], a)];
            let m = simd.and_f64s(e, magnitude);
            above[0] = simd.max_f64s(above[0], simd.mul_add_e_f64s(slopes[0], m, d));
            above[1] = simd.max_f64s(above[1], simd.mul_add_e_f64s(slopes[1], m, d));
        }
        [simd.reduce_max_f64s(above[0]), simd.reduce_max_f64s(above[1])]
    }

    /// The sums, and the smallest and the largest element of both sides.
    #[inline(always)]
    fn finish(self) -> (BlockSums, [[f64; 2]; 2]) {
        let simd = self.simd;
        let sums = BlockSums {
            expected: simd.reduce_sum_f64s(self.expected),
            actual: simd.reduce_sum_f64s(self.actual),
            error: simd.reduce_sum_f64s(self.error),
            expected_squares: simd.reduce_sum_f64s(self.expected_squares),
            actual_squares: simd.reduce_sum_f64s(self.actual_squares),
            error_squares: simd.reduce_sum_f64s(self.error_squares),
            distances: simd.reduce_sum_f64s(self.distances),
            max_distance: simd.reduce_max_f64s(self.max_distance),
        };
        // Adding zero removes the sign of a zero.
        let min = [simd.reduce_min_f64s(self.min[0]) + 0.0, simd.reduce_min_f64s(self.min[1]) + 0.0];
        let max = [simd.reduce_max_f64s(self.max[0]) + 0.0, simd.reduce_max_f64s(self.max[1]) + 0.0];
        (sums, [min, max])
    }
}

#[cfg(test)]
mod tests {
    use pulp::Scalar;

    use super::super::thresholds::Runs;
    use super::*;

    fn both<T: Element>(e: &[T; BLOCK], a: &[T; BLOCK], limits: &Thresholds) -> Measured {
        let thresholds = [limits.gate.low_wide(), limits.relative.low_wide()];
        let (wide, one) = (measure(e, a, limits).unwrap(), WideBlock { e, a, thresholds }.with_simd(Scalar));
        assert_eq!((wide.reached, wide.places), (one.reached, one.places));
        assert_eq!(wide.sums.max_distance, one.sums.max_distance);
        assert!((wide.sums.error_squares - one.sums.error_squares).abs() <= 1e-12 * one.sums.error_squares);
        wide
    }

    #[test]
    fn integers_past_float64_keep_their_distance() {
        let e = [i64::MAX; BLOCK];
        let mut a = e;
        a[300] -= 3;
        let gate = Threshold { offset: 3.0, slope: 0.0 };
        let found = both(&e, &a, &Thresholds { gate, ..Thresholds::default() });
        assert_eq!((found.sums.max_distance, found.places.equal), (3.0, BLOCK as u64 - 1));
        assert_eq!(found.reached.gate.iter().collect::<Vec<_>>(), [1]);
        let found = both(&[u64::MAX; BLOCK], &[0; BLOCK], &Thresholds::default());
        assert_eq!(found.sums.max_distance, u64::MAX as f64);
    }

    #[test]
    fn float64_is_seen_in_full() {
        let mut e: [f64; BLOCK] = std::array::from_fn(|i| 1e15 + i as f64);
        let mut a = e;
        a[9] += 0.125;
        a[4095] = -f64::from_bits(3);
        e[4095] = f64::from_bits(2);
        let (gate, relative) =
            (Threshold { offset: 0.2, slope: 0.0 }, Threshold { offset: 0.0, slope: 1e-17 });
        let limits = Thresholds { gate, relative, ..Thresholds::default() };
        let found = both(&e, &a, &limits);
        assert_eq!((found.sums.error, found.sums.distances), (0.125, 0.125));
        assert_eq!((found.places.ulps, found.places.subnormal), (5, [1, 1]));
        assert_eq!(found.reached.gate, Runs::NONE);
        assert_eq!(found.reached.relative.iter().collect::<Vec<_>>(), [0, 15]);
        for bad in [f64::NAN, f64::INFINITY, -HUGE] {
            a[77] = bad;
            assert!(measure(&e, &a, &Thresholds::default()).is_none());
            assert!(measure(&a, &e, &Thresholds::default()).is_none());
        }
    }
}
