//! The tier of complex64: whole blocks, in float64.
//!
//! Real and imaginary parts are the numbers of sums and errors. Moduli are those of extremes, means and distances. Squares of
//! moduli are exact enough for extremes: a square root keeps their order. Only sums and thresholds need the root of every
//! element. The roots of distances are taken in float64. For the moduli, whose sums only give a mean and a deviation, a root in
//! float32 takes a third of the time. Its relative error is at most 1e-7, unless the square leaves the range of float32; then the
//! block is measured with all roots in float64.

use num_complex::Complex32;
use pulp::{Arch, NullaryFnOnce};

use super::element::Element;
use super::fast_sums::BlockSums;
use super::fast_tier::Measured;
use super::float_bits::Places;
use super::thresholds::{RUN, Reached, Thresholds};
use super::{BLOCK, HUGE};

/// Independent additions, as many as vectors of 512 bits hold.
const LANES: usize = 8;
/// Squares of moduli whose roots float32 can take.
const IN_FLOAT32: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// Measures a block; `None` when an element is not finite or too large for the sums.
pub(super) fn measure(
    e: &[Complex32; BLOCK],
    a: &[Complex32; BLOCK],
    limits: &Thresholds,
) -> Option<Measured> {
    let block = |exact| ComplexBlock { e, a, limits, exact };
    let (mut measured, squares) = Arch::new().dispatch(block(false));
    // A NaN or an infinity shows in a sum of squares.
    let finite = measured.sums.expected_squares.is_finite() && measured.sums.actual_squares.is_finite();
    if !finite || measured.places.max.iter().any(|&max| max >= HUGE) {
        return None;
    }
    if !(IN_FLOAT32.contains(&squares[0]) && IN_FLOAT32.contains(&squares[1])) {
        measured = Arch::new().dispatch(block(true)).0;
    }
    Some(measured)
}

struct ComplexBlock<'a> {
    e: &'a [Complex32; BLOCK],
    a: &'a [Complex32; BLOCK],
    limits: &'a Thresholds,
    /// Whether the roots of moduli are taken in float64.
    exact: bool,
}

impl NullaryFnOnce for ComplexBlock<'_> {
    /// The measurements, and the smallest square except zero and the largest square.
    type Output = (Measured, [f64; 2]);

    #[inline(always)]
    fn call(self) -> Self::Output {
        match self.exact {
            true => self.sum::<true>(),
            false => self.sum::<false>(),
        }
    }
}

impl ComplexBlock<'_> {
    #[inline(always)]
    fn sum<const EXACT: bool>(&self) -> (Measured, [f64; 2]) {
        let (mut lanes, mut reached) = (Lanes::new(), Reached::default());
        let (mut equal, mut subnormal, mut ulps) = (0, [0; 2], 0);
        let thresholds = self.limits.low();
        for run in 0..BLOCK / RUN {
            let (e, a) = (&self.e.as_chunks::<RUN>().0[run], &self.a.as_chunks::<RUN>().0[run]);
            let mut above = [[f64::NEG_INFINITY; LANES]; 2];
            let slopes = thresholds.map(|threshold| f64::from(threshold.slope));
            for (e, a) in e.as_chunks::<LANES>().0.iter().zip(a.as_chunks::<LANES>().0) {
                lanes.add::<EXACT>(e, a, slopes, &mut above);
            }
            let above = above.map(|lanes| lanes.into_iter().fold(f64::NEG_INFINITY, f64::max));
            reached.gate.set(run, above[0] >= f64::from(thresholds[0].offset));
            reached.relative.set(run, above[1] >= f64::from(thresholds[1].offset));
            let (mut same, mut small, mut most) = (0u32, [0u32; 2], 0u32);
            for (e, a) in e.iter().zip(a) {
                same += u32::from((e.re == a.re) & (e.im == a.im));
                small[0] += u32::from(is_subnormal(e.re) | is_subnormal(e.im));
                small[1] += u32::from(is_subnormal(a.re) | is_subnormal(a.im));
                most = most.max(ulps_between(e.re, a.re)).max(ulps_between(e.im, a.im));
            }
            equal += u64::from(same);
            subnormal = [subnormal[0] + u64::from(small[0]), subnormal[1] + u64::from(small[1])];
            ulps = most.max(ulps);
        }
        let (sums, moduli, [min, max], squares) = lanes.finish();
        let places = Places { min, max, subnormal, equal, ulps: ulps.into(), rel_bound: f64::INFINITY };
        (Measured { sums, places, reached, moduli }, squares)
    }
}

#[inline(always)]
fn is_subnormal(x: f32) -> bool {
    Element::is_subnormal(x)
}

/// As [`Element::ulps`] of float32, in 32 bits, of which vectors hold twice as many. Distances of NaN have no meaning here.
#[inline(always)]
fn ulps_between(e: f32, a: f32) -> u32 {
    let place = |x: f32| {
        let magnitude = (x.to_bits() & (u32::MAX >> 1)) as i32;
        if (x.to_bits() as i32) < 0 { -magnitude } else { magnitude }
    };
    place(e).abs_diff(place(a))
}

type Lane = [f64; LANES];

struct Lanes {
    expected: Lane,
    actual: Lane,
    error: Lane,
    expected_squares: Lane,
    actual_squares: Lane,
    error_squares: Lane,
    moduli: [Lane; 2],
    distances: Lane,
    min: [Lane; 2],
    max: [Lane; 2],
    max_distance: Lane,
    /// The smallest square of a modulus, except zero.
    least: Lane,
}

impl Lanes {
    #[inline(always)]
    fn new() -> Self {
        let (zero, infinite) = ([0.0; LANES], [f64::INFINITY; LANES]);
        Self {
            expected: zero,
            actual: zero,
            error: zero,
            expected_squares: zero,
            actual_squares: zero,
            error_squares: zero,
            moduli: [zero; 2],
            distances: zero,
            min: [infinite; 2],
            max: [zero; 2],
            max_distance: zero,
            least: infinite,
        }
    }

    #[inline(always)]
    fn add<const EXACT: bool>(
        &mut self,
        e: &[Complex32; LANES],
        a: &[Complex32; LANES],
        slopes: [f64; 2],
        above: &mut [Lane; 2],
    ) {
        for i in 0..LANES {
            let (e_re, e_im) = (f64::from(e[i].re), f64::from(e[i].im));
            let (a_re, a_im) = (f64::from(a[i].re), f64::from(a[i].im));
            let (d_re, d_im) = (a_re - e_re, a_im - e_im);
            let e_square = e_re * e_re + e_im * e_im;
            let a_square = a_re * a_re + a_im * a_im;
            let d_square = d_re * d_re + d_im * d_im;
            let (m, d) = (root::<EXACT>(e_square), d_square.sqrt());
            self.expected[i] += e_re + e_im;
            self.actual[i] += a_re + a_im;
            self.error[i] += d_re + d_im;
            self.expected_squares[i] += e_square;
            self.actual_squares[i] += a_square;
            self.error_squares[i] += d_square;
            self.moduli[0][i] += m;
            self.moduli[1][i] += root::<EXACT>(a_square);
            self.distances[i] += d;
            self.min = [lesser(self.min[0], i, e_square), lesser(self.min[1], i, a_square)];
            self.max = [greater(self.max[0], i, e_square), greater(self.max[1], i, a_square)];
            self.max_distance = greater(self.max_distance, i, d_square);
            for square in [e_square, a_square] {
                self.least = lesser(self.least, i, if square == 0.0 { f64::INFINITY } else { square });
            }
            above[0] = greater(above[0], i, d - slopes[0] * m);
            above[1] = greater(above[1], i, d - slopes[1] * m);
        }
    }

    /// The sums, the sums of the moduli, the smallest and the largest modulus of both sides, and the smallest square except zero
    /// and the largest square.
    #[inline(always)]
    fn finish(self) -> (BlockSums, [f64; 2], [[f64; 2]; 2], [f64; 2]) {
        let sum = |lane: Lane| lane.iter().sum::<f64>();
        let most = |lane: Lane| lane.into_iter().fold(0.0, f64::max);
        let least = |lane: Lane| lane.into_iter().fold(f64::INFINITY, f64::min);
        let sums = BlockSums {
            expected: sum(self.expected),
            actual: sum(self.actual),
            error: sum(self.error),
            expected_squares: sum(self.expected_squares),
            actual_squares: sum(self.actual_squares),
            error_squares: sum(self.error_squares),
            distances: sum(self.distances),
            max_distance: most(self.max_distance).sqrt(),
        };
        let (min, max) = (self.min.map(|lane| least(lane).sqrt()), self.max.map(|lane| most(lane).sqrt()));
        let largest = most(self.max[0]).max(most(self.max[1]));
        // Of a block of zeros, no square is the smallest.
        let smallest = least(self.least).min(*IN_FLOAT32.end());
        (sums, self.moduli.map(sum), [min, max], [smallest, largest.max(*IN_FLOAT32.start())])
    }
}

#[inline(always)]
fn root<const EXACT: bool>(square: f64) -> f64 {
    if EXACT { square.sqrt() } else { f64::from((square as f32).sqrt()) }
}

#[inline(always)]
fn lesser(mut lane: Lane, i: usize, x: f64) -> Lane {
    lane[i] = if x < lane[i] { x } else { lane[i] };
    lane
}

#[inline(always)]
fn greater(mut lane: Lane, i: usize, x: f64) -> Lane {
    lane[i] = if x > lane[i] { x } else { lane[i] };
    lane
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::thresholds::Threshold;
    use super::*;

    /// A float32 of any size, often near 1.
    fn part() -> impl Strategy<Value = f32> {
        prop_oneof![4 => -2f32..2.0, 1 => Just(0.0), 1 => -1e-12f32..1e-12, 1 => -1e20f32..1e20, 1 => -1e-39f32..1e-39]
    }

    /// A block that repeats a few pairs, of which some differ.
    fn blocks() -> impl Strategy<Value = (Vec<Complex32>, Vec<Complex32>)> {
        let number = || (part(), part()).prop_map(|(re, im)| Complex32 { re, im });
        let near = (number(), -1e-6f32..1e-6, any::<bool>()).prop_map(|(e, by, is_same)| {
            let by = if is_same { 0.0 } else { by };
            (e, Complex32 { re: e.re * (1.0 + by), im: e.im * (1.0 - by) })
        });
        let pair = prop_oneof![5 => near, 1 => (number(), number())];
        prop::collection::vec(pair, 1..700).prop_map(|pairs| pairs.into_iter().cycle().take(BLOCK).unzip())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn vectors_measure_what_single_elements_measure(
            (e, a) in blocks(),
            offsets in [0.0..1e-5, 0.0..1.0],
            slopes in [0.0..1e-5, 0.0..1.0],
        ) {
            let (e, a): (&[_; BLOCK], &[_; BLOCK]) = (e.as_array().unwrap(), a.as_array().unwrap());
            let threshold = |index: usize| Threshold { offset: offsets[index], slope: slopes[index] };
            let limits = Thresholds { gate: threshold(0), relative: threshold(1), ..Thresholds::default() };
            let found = measure(e, a, &limits).unwrap();
            let pairs = || e.iter().zip(a);
            let number = |x: &[Complex32; BLOCK]| x.map(|x| x.number());
            let ends = |x: [f64; BLOCK]| {
                (x.iter().copied().fold(f64::INFINITY, f64::min), x.iter().copied().fold(0.0, f64::max))
            };
            let ((e_min, e_max), (a_min, a_max)) = (ends(number(e)), ends(number(a)));
            prop_assert_eq!((found.places.min, found.places.max), ([e_min, a_min], [e_max, a_max]));
            prop_assert_eq!(found.places.equal, pairs().filter(|(e, a)| e == a).count() as u64);
            prop_assert_eq!(found.places.ulps, pairs().map(|(e, a)| e.ulps(*a)).max().unwrap());
            let subnormal = |x: &[Complex32; BLOCK]| x.iter().filter(|x| x.is_subnormal()).count() as u64;
            prop_assert_eq!(found.places.subnormal, [subnormal(e), subnormal(a)]);
            let distances: Vec<f64> = pairs().map(|(e, a)| e.distance(*a)).collect();
            prop_assert_eq!(found.sums.max_distance, distances.iter().copied().fold(0.0, f64::max));

            let close = |found: f64, exact: f64, scale: f64| {
                prop_assert!((found - exact).abs() <= 2e-7 * scale, "{} {}", found, exact);
                Ok(())
            };
            let total: f64 = distances.iter().sum();
            close(found.sums.distances, total, 1e-5 * total)?;
            for (sum, squares, moduli, x) in [
                (found.sums.expected, found.sums.expected_squares, found.moduli[0], e),
                (found.sums.actual, found.sums.actual_squares, found.moduli[1], a),
            ] {
                let parts = || x.iter().flat_map(|x| [f64::from(x.re), f64::from(x.im)]);
                let (exact, scale) = (parts().sum::<f64>(), parts().map(f64::abs).sum::<f64>());
                close(sum, exact, 1e-5 * scale)?;
                let exact: f64 = parts().map(|x| x * x).sum();
                close(squares, exact, 1e-5 * exact)?;
                let exact: f64 = number(x).iter().sum();
                close(moduli, exact, exact)?;
            }
            // No run with an element above a threshold is left out.
            for (index, (e, a)) in pairs().enumerate() {
                let (distance, run) = (e.distance(*a), index / RUN);
                for (runs, limit) in [(found.reached.gate, limits.gate), (found.reached.relative, limits.relative)] {
                    if distance > limit.offset + limit.slope * e.magnitude() {
                        prop_assert!(runs.contains(run), "{} {}", e, a);
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite_or_too_large_is_left_to_single_elements() {
        let e = [Complex32 { re: 1.0, im: -2.0 }; BLOCK];
        let mut a = e;
        assert!(measure(&e, &a, &Thresholds::default()).is_some());
        for bad in [f32::NAN, f32::INFINITY, 2e30] {
            a[4000].im = bad;
            assert!(measure(&e, &a, &Thresholds::default()).is_none());
            assert!(measure(&a, &e, &Thresholds::default()).is_none());
        }
    }
}
