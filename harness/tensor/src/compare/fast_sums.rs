//! The sums of the fast tier, in vectors of any width.
//!
//! Lanes are explicit, through `pulp`, because a compiler may not reorder float additions into lanes. When the compiler
//! grouped unrolled statements itself, the same sums ran at half the speed. Nothing here is a closure: closures are
//! compiled without the instructions that `pulp` selects.

use std::hint::black_box;
use std::marker::PhantomData;

use bytemuck::{cast, cast_slice};
use pulp::{Arch, Simd, WithSimd};

use super::fast_extremes::{Extremes, NarrowExtremes};
use super::scan::{NarrowScan, WideScan};
use super::thresholds::{LowThreshold, RUN, Reached, Runs};
use super::widen::{Narrow, add_wide, unpack, widen};
use super::{BLOCK, thresholds};

/// Vectors of words of two 16-bit floats that are summed in float32 before float64 takes over.
const GROUP: usize = 8;

/// The sums of a block, and its largest distance.
///
/// Float32 is summed in float64. Of 16-bit floats, sixteen are first summed in float32. It has 24 bits for their 8 or 11
/// bits, and for the 16 or 22 bits of a square, so this is exact unless they differ a thousandfold in size; then the error
/// is at most a few in 1e8. Their largest distance is rounded to float32, too.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct BlockSums {
    pub(super) expected: f64,
    pub(super) actual: f64,
    /// Of `actual - expected`.
    pub(super) error: f64,
    pub(super) expected_squares: f64,
    pub(super) actual_squares: f64,
    pub(super) error_squares: f64,
    pub(super) distances: f64,
    pub(super) max_distance: f64,
}

/// A pair of blocks and the two thresholds.
pub(super) struct FastBlock<'a, T> {
    pub(super) e: &'a [T; BLOCK],
    pub(super) a: &'a [T; BLOCK],
    pub(super) thresholds: [LowThreshold; 2],
}

impl WithSimd for FastBlock<'_, f32> {
    type Output = (BlockSums, Reached, WideScan);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let (mut lanes, mut extremes) = (FastLanes::new(simd), Extremes::new(simd));
        let mut excess = [[simd.splat_f32s(0.0); thresholds::COUNT]; 2];
        let slopes = [simd.splat_f32s(-self.thresholds[0].slope), simd.splat_f32s(-self.thresholds[1].slope)];
        let stages = self.e.as_chunks::<RUN>().0.iter().zip(self.a.as_chunks::<RUN>().0);
        for (run, (e, a)) in stages.enumerate() {
            let mut above = [simd.splat_f32s(f32::NEG_INFINITY); 2];
            let (e, a) = (S::as_simd_f32s(e).0, S::as_simd_f32s(a).0);
            if at_once::<S>() {
                for (&e, &a) in e.iter().zip(a) {
                    lanes.add(e, a);
                    extremes.add(e, a, slopes, &mut above);
                }
            } else {
                for (&e, &a) in e.iter().zip(a) {
                    lanes.add(e, a);
                }
                for (&e, &a) in e.iter().zip(a) {
                    extremes.add(e, a, slopes, &mut above);
                }
            }
            [excess[0][run], excess[1][run]] = above;
        }
        let gate = reached(simd, &excess[0], self.thresholds[0].offset);
        let relative = reached(simd, &excess[1], self.thresholds[1].offset);
        (lanes.finish(), Reached { gate, relative }, extremes.finish())
    }
}

/// Whether the registers suffice to sum a vector and scan it in one loop, which saves a second loop. Without vector
/// instructions a word is not scanned as two halves.
#[inline(always)]
fn at_once<S: Simd>() -> bool {
    S::REGISTER_COUNT >= 32 && S::U32_LANES > 1
}

/// A pair of blocks of 16-bit floats, two per word.
struct Words<'a, T> {
    e: &'a [u32; BLOCK / 2],
    a: &'a [u32; BLOCK / 2],
    threshold: LowThreshold,
    narrow: PhantomData<T>,
}

impl<T: Narrow> FastBlock<'_, T> {
    /// Sums a block of 16-bit floats, and finds the runs that reach the gate's threshold, but not the other threshold.
    pub(super) fn measure_narrow(&self) -> (BlockSums, Runs, NarrowScan) {
        match (as_words(self.e), as_words(self.a)) {
            (Some(e), Some(a)) => self.measure_words(e, a),
            _ => self.measure_copies(),
        }
    }

    fn measure_words(&self, e: &[u32; BLOCK / 2], a: &[u32; BLOCK / 2]) -> (BlockSums, Runs, NarrowScan) {
        Arch::new().dispatch(Words::<T> { e, a, threshold: self.thresholds[0], narrow: PhantomData })
    }

    /// Words need twice the alignment of 16-bit floats. Where the data lacks it, as in the middle of some files, copies
    /// have it. This is a separate function, because reserving the stack for the copies takes time.
    #[cold]
    fn measure_copies(&self) -> (BlockSums, Runs, NarrowScan) {
        let (mut e, mut a) = ([0u32; BLOCK / 2], [0u32; BLOCK / 2]);
        bytemuck::cast_slice_mut::<u32, T>(&mut e).copy_from_slice(self.e);
        bytemuck::cast_slice_mut::<u32, T>(&mut a).copy_from_slice(self.a);
        self.measure_words(&e, &a)
    }
}

fn as_words<T: Narrow>(block: &[T; BLOCK]) -> Option<&[u32; BLOCK / 2]> {
    bytemuck::try_cast_slice::<T, u32>(block).ok()?.as_array()
}

impl<T: Narrow> WithSimd for Words<'_, T> {
    type Output = (BlockSums, Runs, NarrowScan);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let (mut lanes, mut extremes) = (FastLanes::new(simd), NarrowExtremes::new(simd));
        let mut excess = [simd.splat_f32s(0.0); thresholds::COUNT];
        let mut least = [simd.splat_u16s(0); thresholds::COUNT];
        let (e, a) = (self.e.as_chunks::<{ RUN / 2 }>().0, self.a.as_chunks::<{ RUN / 2 }>().0);
        for (run, (e, a)) in e.iter().zip(a).enumerate() {
            excess[run] = lanes.add_words::<T>(e, a, self.threshold, &mut extremes);
            least[run] = extremes.end_run();
        }
        if !at_once::<S>() {
            for (run, (e, a)) in e.iter().zip(a).enumerate() {
                let (e, a) = (S::as_simd_u16s(cast_slice(e)).0, S::as_simd_u16s(cast_slice(a)).0);
                for (&e, &a) in e.iter().zip(a) {
                    extremes.add(e, a);
                }
                least[run] = extremes.end_run();
            }
        }
        (lanes.finish(), reached(simd, &excess, self.threshold.offset), extremes.finish(&least, T::NORMAL))
    }
}

struct FastLanes<S: Simd> {
    simd: S,
    /// [`GROUP`], hidden from the compiler, which would unroll the loop and run short of registers.
    group: usize,
    expected: S::f64s,
    actual: S::f64s,
    distances: S::f64s,
    expected_squares: S::f64s,
    actual_squares: S::f64s,
    error_squares: S::f64s,
    max_distance: S::f64s,
    max_narrow: S::f32s,
}

impl<S: Simd> FastLanes<S> {
    #[inline(always)]
    fn new(simd: S) -> Self {
        let zero = simd.splat_f64s(0.0);
        Self {
            simd,
            group: black_box(GROUP),
            expected: zero,
            actual: zero,
            distances: zero,
            expected_squares: zero,
            actual_squares: zero,
            error_squares: zero,
            max_distance: zero,
            max_narrow: simd.splat_f32s(0.0),
        }
    }

    /// Adds a vector of float32, in float64.
    #[inline(always)]
    fn add(&mut self, e: S::f32s, a: S::f32s) {
        let simd = self.simd;
        let magnitude = simd.splat_f64s(f64::from_bits(u64::MAX >> 1));
        let (e, a) = (widen::<S>(e), widen::<S>(a));
        for i in 0..2 {
            let d = simd.and_f64s(simd.sub_f64s(a[i], e[i]), magnitude);
            self.expected = simd.add_f64s(self.expected, e[i]);
            self.actual = simd.add_f64s(self.actual, a[i]);
            self.distances = simd.add_f64s(self.distances, d);
            self.expected_squares = simd.mul_add_e_f64s(e[i], e[i], self.expected_squares);
            self.actual_squares = simd.mul_add_e_f64s(a[i], a[i], self.actual_squares);
            self.error_squares = simd.mul_add_e_f64s(d, d, self.error_squares);
            self.max_distance = simd.max_f64s(self.max_distance, d);
        }
    }

    /// Adds a run of words of two 16-bit floats each: a group of vectors in float32, and their sums in float64. Returns
    /// the largest `distance - slope * |expected|`.
    #[inline(always)]
    fn add_words<T: Narrow>(
        &mut self,
        e: &[u32; RUN / 2],
        a: &[u32; RUN / 2],
        threshold: LowThreshold,
        extremes: &mut NarrowExtremes<S>,
    ) -> S::f32s {
        let (simd, zero) = (self.simd, self.simd.splat_f32s(0.0));
        let magnitude = simd.splat_f32s(f32::from_bits(u32::MAX >> 1));
        let slope = simd.splat_f32s(-threshold.slope);
        let (mut above, mut max) = (simd.splat_f32s(f32::NEG_INFINITY), self.max_narrow);
        let (e, a) =
            (S::as_simd_u32s(e).0.as_chunks::<GROUP>().0, S::as_simd_u32s(a).0.as_chunks::<GROUP>().0);
        for (e, a) in e.iter().zip(a) {
            let (mut sum_e, mut sum_a, mut sum_d) = (zero, zero, zero);
            let (mut squares_e, mut squares_a, mut squares_d) = (zero, zero, zero);
            for (&e, &a) in e[..self.group].iter().zip(a) {
                if at_once::<S>() {
                    extremes.add(cast(e), cast(a));
                }
                let (e, a) = (unpack::<S, T>(e), unpack::<S, T>(a));
                for i in 0..2 {
                    let d = simd.and_f32s(simd.sub_f32s(a[i], e[i]), magnitude);
                    sum_e = simd.add_f32s(sum_e, e[i]);
                    sum_a = simd.add_f32s(sum_a, a[i]);
                    sum_d = simd.add_f32s(sum_d, d);
                    squares_e = simd.mul_add_e_f32s(e[i], e[i], squares_e);
                    squares_a = simd.mul_add_e_f32s(a[i], a[i], squares_a);
                    squares_d = simd.mul_add_e_f32s(d, d, squares_d);
                    max = simd.max_f32s(max, d);
                    let m = simd.and_f32s(e[i], magnitude);
                    above = simd.max_f32s(above, simd.mul_add_e_f32s(slope, m, d));
                }
            }
            self.expected = add_wide(simd, self.expected, sum_e);
            self.actual = add_wide(simd, self.actual, sum_a);
            self.distances = add_wide(simd, self.distances, sum_d);
            self.expected_squares = add_wide(simd, self.expected_squares, squares_e);
            self.actual_squares = add_wide(simd, self.actual_squares, squares_a);
            self.error_squares = add_wide(simd, self.error_squares, squares_d);
        }
        self.max_narrow = max;
        above
    }

    #[inline(always)]
    fn finish(self) -> BlockSums {
        let simd = self.simd;
        let max_narrow = f64::from(simd.reduce_max_f32s(self.max_narrow));
        let (expected, actual) = (simd.reduce_sum_f64s(self.expected), simd.reduce_sum_f64s(self.actual));
        BlockSums {
            expected,
            actual,
            error: actual - expected,
            expected_squares: simd.reduce_sum_f64s(self.expected_squares),
            actual_squares: simd.reduce_sum_f64s(self.actual_squares),
            error_squares: simd.reduce_sum_f64s(self.error_squares),
            distances: simd.reduce_sum_f64s(self.distances),
            max_distance: simd.reduce_max_f64s(self.max_distance).max(max_narrow),
        }
    }
}

/// The runs with a lane at or above `offset`.
#[inline(always)]
fn reached<S: Simd>(simd: S, excess: &[S::f32s; thresholds::COUNT], offset: f32) -> Runs {
    let mut most = excess[0];
    for &run in &excess[1..] {
        most = simd.max_f32s(most, run);
    }
    let mut runs = Runs::NONE;
    // Most blocks have no such run.
    if simd.reduce_max_f32s(most) >= offset {
        for (index, &run) in excess.iter().enumerate() {
            runs.set(index, simd.reduce_max_f32s(run) >= offset);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use half::f16;
    use pulp::Scalar;

    use super::*;

    fn close(x: &BlockSums, y: &BlockSums) {
        let all = |s: &BlockSums| {
            [
                s.expected,
                s.actual,
                s.expected_squares,
                s.actual_squares,
                s.distances,
                s.error_squares,
                s.max_distance,
            ]
        };
        for (x, y) in all(x).into_iter().zip(all(y)) {
            assert!((x - y).abs() <= 1e-6 * x.abs(), "{x} {y}");
        }
    }

    /// Vectors of every width, and code without vectors, give the results of the widest vectors of this machine.
    #[test]
    fn any_width_comes_to_the_same() {
        let e: [f32; BLOCK] = std::array::from_fn(|i| (i * 37 % 211) as f32 / 64.0 + 0.25);
        let a: [f32; BLOCK] = std::array::from_fn(|i| e[i] * (1.0 + (i / 1000 * (i % 7)) as f32 * 0.01));
        let thresholds =
            [LowThreshold { offset: 0.02, slope: 0.1 }, LowThreshold { offset: 0.0, slope: 0.15 }];
        let block = || FastBlock { e: &e, a: &a, thresholds };
        let (wide, reached, scan) = Arch::new().dispatch(block());
        assert_eq!(reached.gate.iter().collect::<Vec<_>>(), (7..16).collect::<Vec<_>>());
        assert_eq!(reached.relative.iter().collect::<Vec<_>>(), (11..16).collect::<Vec<_>>());
        let check = |(other, other_reached, other_scan): (BlockSums, Reached, WideScan)| {
            close(&wide, &other);
            assert_eq!(reached, other_reached);
            assert_eq!(format!("{scan:?}"), format!("{other_scan:?}"));
        };
        check(block().with_simd(Scalar));

        let (half_e, half_a) = (e.map(f16::from_f32), a.map(f16::from_f32));
        let (wide, reached, scan) = FastBlock { e: &half_e, a: &half_a, thresholds }.measure_narrow();
        // Low halves first, as little-endian memory has them.
        let word = |x: &[f16; BLOCK], i: usize| {
            u32::from(x[2 * i].to_bits()) | u32::from(x[2 * i + 1].to_bits()) << 16
        };
        let (e, a) = (std::array::from_fn(|i| word(&half_e, i)), std::array::from_fn(|i| word(&half_a, i)));
        let words = || Words::<f16> { e: &e, a: &a, threshold: thresholds[0], narrow: PhantomData };
        let check_words = |(other, other_reached, other_scan): (BlockSums, Runs, NarrowScan)| {
            close(&wide, &other);
            assert_eq!(reached, other_reached);
            assert_eq!(format!("{scan:?}"), format!("{other_scan:?}"));
        };
        check_words(words().with_simd(Scalar));

        #[cfg(target_arch = "x86_64")]
        if let Some(v3) = pulp::x86::V3::try_new() {
            // Vectors as wide as NEON's, then those of AVX2.
            check(block().with_simd(pulp::x86::V3_128b(v3)));
            check_words(words().with_simd(pulp::x86::V3_128b(v3)));
            check(block().with_simd(v3));
            check_words(words().with_simd(v3));
        }
    }
}
