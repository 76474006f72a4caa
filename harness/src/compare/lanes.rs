//! The sums of the fast tier, in vectors of whatever width there is.
//!
//! Lanes are named through `pulp`, since a compiler may not reorder float additions into lanes; left to the compiler's
//! own grouping of unrolled statements the same sums ran at half the speed. What is the same for every lane (widening)
//! is plain code on arrays, which compilers do turn into single instructions. Nothing in here is a closure: those are
//! compiled without the instructions that `pulp` has picked.

use std::marker::PhantomData;

use bytemuck::{Pod, cast, cast_ref};
use half::{bf16, f16};
use pulp::{Arch, Simd, WithSimd};

use super::bits::{Scan, WideScan};
use super::kernel::BLOCK;

/// So many elements go through each loop in turn. Memory is read by the first of them only, and fetched ahead while the
/// others run, which works out as long as these do not take long.
pub(super) const STAGE: usize = 256;
/// So many words hold as many 16-bit floats.
const WORDS: usize = STAGE / 2;
/// So many vectors of words of two 16-bit floats are added up in float32, before float64 takes over.
const RUN: usize = 8;

/// Sums over a block, and the largest distance.
///
/// Float32 is added in float64. Of 16-bit floats, sixteen are added to one another in float32 first. It has 24 bits for
/// their 8 or 11 and for the 16 or 22 of a square, so that this is exact but where they differ a thousandfold in size;
/// then it is off by at most a few in 1e8. Their largest distance is rounded to float32, too.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) expected: f64,
    pub(super) actual: f64,
    pub(super) expected_squares: f64,
    pub(super) actual_squares: f64,
    pub(super) distances: f64,
    pub(super) distance_squares: f64,
    pub(super) max_distance: f64,
}

/// The largest `distance - slope * |expected|` for either slope, in float32.
#[derive(Debug, Clone, Copy)]
pub(super) struct Excess {
    pub(super) gate: f32,
    pub(super) relative: f32,
}

/// A 16-bit float, two of which lie in a 32-bit word. Only finite ones come back right.
pub(super) trait Narrow: Pod {
    fn low(word: u32) -> f32;
    fn high(word: u32) -> f32;
}

impl Narrow for bf16 {
    #[inline(always)]
    fn low(word: u32) -> f32 {
        f32::from_bits(word << 16)
    }
    #[inline(always)]
    fn high(word: u32) -> f32 {
        f32::from_bits(word & 0xffff_0000)
    }
}

impl Narrow for f16 {
    #[inline(always)]
    fn low(word: u32) -> f32 {
        Self::high(word << 16)
    }
    #[inline(always)]
    fn high(word: u32) -> f32 {
        // The sign stays at the top, exponent and fraction go to where float32 has them. The exponent's bias differs
        // by 112, which a multiplication mends for subnormals too.
        let bits = (word as i32 >> 3) as u32 & 0x8fff_e000;
        f32::from_bits(bits) * f32::from_bits((127 + 112) << 23)
    }
}

/// A block and the slopes of the two lines.
pub(super) struct Block<'a, T> {
    pub(super) e: &'a [T; BLOCK],
    pub(super) a: &'a [T; BLOCK],
    pub(super) slopes: [f32; 2],
}

impl WithSimd for Block<'_, f32> {
    type Output = (Sums, Excess, WideScan);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let (mut lanes, mut extremes) = (Lanes::new(simd, self.slopes), Extremes::new(simd));
        for (e, a) in self.e.as_chunks::<STAGE>().0.iter().zip(self.a.as_chunks::<STAGE>().0) {
            lanes.add(e, a);
            extremes.add(e, a);
        }
        let (sums, excess) = lanes.finish();
        (sums, excess, extremes.finish())
    }
}

/// A block of 16-bit floats, two in a word.
struct Words<'a, T> {
    e: &'a [u32; BLOCK / 2],
    a: &'a [u32; BLOCK / 2],
    slopes: [f32; 2],
    narrow: PhantomData<T>,
}

impl<T: Narrow> Block<'_, T> {
    /// Sums and scans a block of 16-bit floats.
    pub(super) fn measure_narrow(&self) -> (Sums, Excess, Scan) {
        match (as_words(self.e), as_words(self.a)) {
            (Some(e), Some(a)) => self.measure_words(e, a),
            _ => self.measure_copies(),
        }
    }

    fn measure_words(&self, e: &[u32; BLOCK / 2], a: &[u32; BLOCK / 2]) -> (Sums, Excess, Scan) {
        Arch::new().dispatch(Words::<T> { e, a, slopes: self.slopes, narrow: PhantomData })
    }

    /// Words need twice the alignment of what they hold. Where it is not there, as in the middle of some files, copies
    /// have it. Kept apart, since making room for them takes time.
    #[cold]
    fn measure_copies(&self) -> (Sums, Excess, Scan) {
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
    type Output = (Sums, Excess, Scan);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let (mut lanes, mut scan) = (Lanes::new(simd, self.slopes), Scan::default());
        for (e, a) in self.e.as_chunks::<WORDS>().0.iter().zip(self.a.as_chunks::<WORDS>().0) {
            lanes.add_words::<T>(e, a);
            scan.add(cast_ref(e), cast_ref(a));
        }
        let (sums, excess) = lanes.finish();
        (sums, excess, scan)
    }
}

struct Lanes<S: Simd> {
    simd: S,
    /// All bits but the sign.
    magnitude: S::f32s,
    wide_magnitude: S::f64s,
    slopes: [S::f32s; 2],
    excess: [S::f32s; 2],
    expected: S::f64s,
    actual: S::f64s,
    distances: S::f64s,
    expected_squares: S::f64s,
    actual_squares: S::f64s,
    distance_squares: S::f64s,
    max_distance: S::f64s,
    max_narrow: S::f32s,
}

impl<S: Simd> Lanes<S> {
    #[inline(always)]
    fn new(simd: S, [gate, relative]: [f32; 2]) -> Self {
        let zero = simd.splat_f64s(0.0);
        Self {
            simd,
            magnitude: simd.splat_f32s(f32::from_bits(u32::MAX >> 1)),
            wide_magnitude: simd.splat_f64s(f64::from_bits(u64::MAX >> 1)),
            slopes: [simd.splat_f32s(-gate), simd.splat_f32s(-relative)],
            excess: [simd.splat_f32s(f32::NEG_INFINITY); 2],
            expected: zero,
            actual: zero,
            distances: zero,
            expected_squares: zero,
            actual_squares: zero,
            distance_squares: zero,
            max_distance: zero,
            max_narrow: simd.splat_f32s(0.0),
        }
    }

    /// Adds float32 that are a whole number of vectors, in float64, and looks how far they are above either line.
    #[inline(always)]
    fn add(&mut self, e: &[f32], a: &[f32]) {
        let simd = self.simd;
        for (&e, &a) in S::as_simd_f32s(e).0.iter().zip(S::as_simd_f32s(a).0) {
            let d = simd.and_f32s(simd.sub_f32s(a, e), self.magnitude);
            let m = simd.and_f32s(e, self.magnitude);
            self.excess[0] = simd.max_f32s(self.excess[0], simd.mul_add_e_f32s(self.slopes[0], m, d));
            self.excess[1] = simd.max_f32s(self.excess[1], simd.mul_add_e_f32s(self.slopes[1], m, d));
            let (e, a) = (widen::<S>(e), widen::<S>(a));
            for i in 0..2 {
                let d = simd.and_f64s(simd.sub_f64s(a[i], e[i]), self.wide_magnitude);
                self.expected = simd.add_f64s(self.expected, e[i]);
                self.actual = simd.add_f64s(self.actual, a[i]);
                self.distances = simd.add_f64s(self.distances, d);
                self.expected_squares = simd.mul_add_e_f64s(e[i], e[i], self.expected_squares);
                self.actual_squares = simd.mul_add_e_f64s(a[i], a[i], self.actual_squares);
                self.distance_squares = simd.mul_add_e_f64s(d, d, self.distance_squares);
                self.max_distance = simd.max_f64s(self.max_distance, d);
            }
        }
    }

    /// Adds words of two 16-bit floats each: a run of vectors in float32, and their sums in float64. How far they are
    /// above the line of the relative distance is not looked at, for want of registers.
    #[inline(always)]
    fn add_words<T: Narrow>(&mut self, e: &[u32; WORDS], a: &[u32; WORDS]) {
        let (simd, zero) = (self.simd, self.simd.splat_f32s(0.0));
        let (mut above, mut max) = (self.excess[0], self.max_narrow);
        let (e, a) = (S::as_simd_u32s(e).0.as_chunks::<RUN>().0, S::as_simd_u32s(a).0.as_chunks::<RUN>().0);
        for (e, a) in e.iter().zip(a) {
            let (mut sum_e, mut sum_a, mut sum_d) = (zero, zero, zero);
            let (mut squares_e, mut squares_a, mut squares_d) = (zero, zero, zero);
            for (&e, &a) in e.iter().zip(a) {
                let (e, a) = (unpack::<S, T>(e), unpack::<S, T>(a));
                for i in 0..2 {
                    let d = simd.and_f32s(simd.sub_f32s(a[i], e[i]), self.magnitude);
                    sum_e = simd.add_f32s(sum_e, e[i]);
                    sum_a = simd.add_f32s(sum_a, a[i]);
                    sum_d = simd.add_f32s(sum_d, d);
                    squares_e = simd.mul_add_e_f32s(e[i], e[i], squares_e);
                    squares_a = simd.mul_add_e_f32s(a[i], a[i], squares_a);
                    squares_d = simd.mul_add_e_f32s(d, d, squares_d);
                    max = simd.max_f32s(max, d);
                    let magnitude = simd.and_f32s(e[i], self.magnitude);
                    above = simd.max_f32s(above, simd.mul_add_e_f32s(self.slopes[0], magnitude, d));
                }
            }
            self.expected = add_wide(simd, self.expected, sum_e);
            self.actual = add_wide(simd, self.actual, sum_a);
            self.distances = add_wide(simd, self.distances, sum_d);
            self.expected_squares = add_wide(simd, self.expected_squares, squares_e);
            self.actual_squares = add_wide(simd, self.actual_squares, squares_a);
            self.distance_squares = add_wide(simd, self.distance_squares, squares_d);
        }
        (self.excess[0], self.max_narrow) = (above, max);
    }

    #[inline(always)]
    fn finish(self) -> (Sums, Excess) {
        let simd = self.simd;
        let max_narrow = f64::from(simd.reduce_max_f32s(self.max_narrow));
        let sums = Sums {
            expected: simd.reduce_sum_f64s(self.expected),
            actual: simd.reduce_sum_f64s(self.actual),
            distances: simd.reduce_sum_f64s(self.distances),
            expected_squares: simd.reduce_sum_f64s(self.expected_squares),
            actual_squares: simd.reduce_sum_f64s(self.actual_squares),
            distance_squares: simd.reduce_sum_f64s(self.distance_squares),
            max_distance: simd.reduce_max_f64s(self.max_distance).max(max_narrow),
        };
        let [gate, relative] = self.excess;
        (sums, Excess { gate: simd.reduce_max_f32s(gate), relative: simd.reduce_max_f32s(relative) })
    }
}

/// What a [`WideScan`] holds, in lanes.
struct Extremes<S: Simd> {
    simd: S,
    min: [S::f32s; 2],
    max: [S::f32s; 2],
    bits_apart: S::u32s,
    equal: S::u32s,
    least: S::u32s,
}

impl<S: Simd> Extremes<S> {
    #[inline(always)]
    fn new(simd: S) -> Self {
        Self {
            simd,
            min: [simd.splat_f32s(f32::INFINITY); 2],
            max: [simd.splat_f32s(f32::NEG_INFINITY); 2],
            bits_apart: simd.splat_u32s(0),
            equal: simd.splat_u32s(0),
            least: simd.splat_u32s(u32::MAX),
        }
    }

    #[inline(always)]
    fn add(&mut self, e: &[f32; STAGE], a: &[f32; STAGE]) {
        let simd = self.simd;
        let (magnitude, one) = (simd.splat_u32s(u32::MAX >> 1), simd.splat_u32s(1));
        for (&e, &a) in S::as_simd_f32s(e).0.iter().zip(S::as_simd_f32s(a).0) {
            self.min = [simd.min_f32s(self.min[0], e), simd.min_f32s(self.min[1], a)];
            self.max = [simd.max_f32s(self.max[0], e), simd.max_f32s(self.max[1], a)];
            let equal = simd.select_u32s(simd.equal_f32s(e, a), one, simd.splat_u32s(0));
            self.equal = simd.add_u32s(self.equal, equal);
            let (e, a) = (simd.transmute_u32s_f32s(e), simd.transmute_u32s_f32s(a));
            let apart = simd.min_u32s(simd.sub_u32s(e, a), simd.sub_u32s(a, e));
            self.bits_apart = simd.max_u32s(self.bits_apart, apart);
            let (e, a) = (simd.and_u32s(e, magnitude), simd.and_u32s(a, magnitude));
            let least = simd.min_u32s(simd.sub_u32s(e, one), simd.sub_u32s(a, one));
            self.least = simd.min_u32s(self.least, least);
        }
    }

    #[inline(always)]
    fn finish(self) -> WideScan {
        let simd = self.simd;
        WideScan {
            min: [simd.reduce_min_f32s(self.min[0]), simd.reduce_min_f32s(self.min[1])],
            max: [simd.reduce_max_f32s(self.max[0]), simd.reduce_max_f32s(self.max[1])],
            bits_apart: join::<S>(self.bits_apart, u32::max),
            equal: join::<S>(self.equal, u32::wrapping_add),
            least: join::<S>(self.least, u32::min),
        }
    }
}

fn join<S: Simd>(lanes: S::u32s, with: fn(u32, u32) -> u32) -> u32 {
    bytemuck::cast_slice::<S::u32s, u32>(&[lanes]).iter().copied().reduce(with).unwrap_or(0)
}

#[inline(always)]
fn add_wide<S: Simd>(simd: S, total: S::f64s, x: S::f32s) -> S::f64s {
    let [low, high] = widen::<S>(x);
    simd.add_f64s(total, simd.add_f64s(low, high))
}

/// A vector of float32 as two of float64. Without vectors the second is a zero, which adds nothing.
#[inline(always)]
fn widen<S: Simd>(x: S::f32s) -> [S::f64s; 2] {
    #[inline(always)]
    fn halves<const N: usize>([low, high]: [[f32; N]; 2]) -> [[f64; N]; 2] {
        let mut wide = [[0.0; N]; 2];
        for i in 0..N {
            wide[0][i] = f64::from(low[i]);
            wide[1][i] = f64::from(high[i]);
        }
        wide
    }
    match S::F32_LANES {
        1 => [cast(f64::from(cast::<_, f32>(x))), cast(0f64)],
        4 => cast_both(halves::<2>(cast(x))),
        8 => cast_both(halves::<4>(cast(x))),
        _ => cast_both(halves::<8>(cast(x))),
    }
}

/// The low and the high floats of a vector of words.
#[inline(always)]
fn unpack<S: Simd, T: Narrow>(words: S::u32s) -> [S::f32s; 2] {
    #[inline(always)]
    fn both<T: Narrow, const N: usize>(words: [u32; N]) -> [[f32; N]; 2] {
        let mut floats = [[0.0; N]; 2];
        for i in 0..N {
            floats[0][i] = T::low(words[i]);
            floats[1][i] = T::high(words[i]);
        }
        floats
    }
    match S::U32_LANES {
        1 => cast_both(both::<T, 1>(cast(words))),
        4 => cast_both(both::<T, 4>(cast(words))),
        8 => cast_both(both::<T, 8>(cast(words))),
        _ => cast_both(both::<T, 16>(cast(words))),
    }
}

#[inline(always)]
fn cast_both<A: Pod, B: Pod>([x, y]: [A; 2]) -> [B; 2] {
    [cast(x), cast(y)]
}

#[cfg(test)]
mod tests {
    use pulp::Scalar;

    use super::*;

    fn close(x: &Sums, y: &Sums) {
        let all = |s: &Sums| {
            [
                s.expected,
                s.actual,
                s.expected_squares,
                s.actual_squares,
                s.distances,
                s.distance_squares,
                s.max_distance,
            ]
        };
        for (x, y) in all(x).into_iter().zip(all(y)) {
            assert!((x - y).abs() <= 1e-6 * x.abs(), "{x} {y}");
        }
    }

    #[test]
    fn a_machine_without_vectors_comes_to_the_same() {
        let e: [f32; BLOCK] = std::array::from_fn(|i| (i * 37 % 211) as f32 / 64.0 + 0.25);
        let a: [f32; BLOCK] = std::array::from_fn(|i| e[i] * (1.0 + (i % 7) as f32 * 0.01));
        let slopes = [0.5, 0.01];
        let (wide, above, scan) = Arch::new().dispatch(Block { e: &e, a: &a, slopes });
        let (one, one_above, one_scan) = Block { e: &e, a: &a, slopes }.with_simd(Scalar);
        close(&wide, &one);
        assert!(
            (above.gate - one_above.gate).abs() < 1e-6 && (above.relative - one_above.relative).abs() < 1e-6
        );
        assert_eq!(format!("{scan:?}"), format!("{one_scan:?}"));

        let (e, a) = (e.map(f16::from_f32), a.map(f16::from_f32));
        let (wide, above, scan) = Block { e: &e, a: &a, slopes }.measure_narrow();
        // Low halves first, as little-endian memory has them.
        let word = |x: &[f16; BLOCK], i: usize| {
            u32::from(x[2 * i].to_bits()) | u32::from(x[2 * i + 1].to_bits()) << 16
        };
        let (e, a) = (std::array::from_fn(|i| word(&e, i)), std::array::from_fn(|i| word(&a, i)));
        let words = Words::<f16> { e: &e, a: &a, slopes, narrow: PhantomData };
        let (one, one_above, one_scan) = words.with_simd(Scalar);
        close(&wide, &one);
        assert!((above.gate - one_above.gate).abs() < 1e-6);
        assert_eq!(format!("{scan:?}"), format!("{one_scan:?}"));
    }
}
