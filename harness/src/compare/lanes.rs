//! The sums of the fast tier, in vectors of whatever width there is.
//!
//! Lanes are named through `pulp`, since a compiler may not reorder float additions into lanes; left to the compiler's
//! own grouping of unrolled statements the same sums ran at half the speed. What is the same for every lane (widening)
//! is plain code on arrays, which compilers do turn into single instructions. Nothing in here is a closure: those are
//! compiled without the instructions that `pulp` has picked.

use std::marker::PhantomData;

use bytemuck::{Pod, cast, cast_ref};
use half::{bf16, f16};
use pulp::{Simd, WithSimd};

use super::bits::Scan;
use super::kernel::BLOCK;

/// So many elements go through each loop in turn. Memory is read by the first of them only, and fetched ahead while the
/// others run, which works out as long as these do not take long.
pub(super) const STAGE: usize = 256;
/// So many words hold as many 16-bit floats.
const WORDS: usize = STAGE / 2;
/// So many pairs of vectors of 16-bit floats are added up in float32, before float64 takes over.
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
    /// Whether unpacking twice costs less than storing what was unpacked once.
    const UNPACKS_FAST: bool;
    fn low(word: u32) -> f32;
    fn high(word: u32) -> f32;
}

impl Narrow for bf16 {
    const UNPACKS_FAST: bool = true;
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
    const UNPACKS_FAST: bool = false;
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
    type Output = (Sums, Excess, Scan<u32, i32>);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let (mut lanes, mut scan) = (Lanes::new(simd, self.slopes), Scan::<u32, i32>::default());
        for (e, a) in self.e.as_chunks::<STAGE>().0.iter().zip(self.a.as_chunks::<STAGE>().0) {
            lanes.add(e, a);
            scan.add(cast_ref(e), cast_ref(a));
        }
        let (sums, excess) = lanes.finish();
        (sums, excess, scan)
    }
}

/// A block of 16-bit floats, two in a word.
pub(super) struct Words<'a, T> {
    e: &'a [u32; BLOCK / 2],
    a: &'a [u32; BLOCK / 2],
    slopes: [f32; 2],
    narrow: PhantomData<T>,
}

impl<'a, T: Narrow> Words<'a, T> {
    /// Words need twice the alignment of what they hold; where it is not there, as in the middle of some files, the
    /// copies have it.
    pub(super) fn new(block: &Block<'a, T>, [copy_e, copy_a]: &'a mut [[u32; BLOCK / 2]; 2]) -> Self {
        let Block { e, a, slopes } = *block;
        Self { e: as_words(e, copy_e), a: as_words(a, copy_a), slopes, narrow: PhantomData }
    }
}

fn as_words<'a, T: Narrow>(block: &'a [T; BLOCK], copy: &'a mut [u32; BLOCK / 2]) -> &'a [u32; BLOCK / 2] {
    match bytemuck::try_cast_slice::<T, u32>(block).ok().and_then(<[u32]>::as_array) {
        Some(words) => words,
        None => {
            bytemuck::cast_slice_mut::<u32, T>(copy).copy_from_slice(block);
            copy
        }
    }
}

impl<T: Narrow> WithSimd for Words<'_, T> {
    type Output = (Sums, Excess, Scan<u16, i16>);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let (mut lanes, mut scan) = (Lanes::new(simd, self.slopes), Scan::<u16, i16>::default());
        let (mut wide_e, mut wide_a) = ([0.0; STAGE], [0.0; STAGE]);
        for (e, a) in self.e.as_chunks::<WORDS>().0.iter().zip(self.a.as_chunks::<WORDS>().0) {
            if T::UNPACKS_FAST {
                let (e, a) = (Packed::<S, T>::new(e), Packed::<S, T>::new(a));
                lanes.add_narrow(e, a);
                lanes.add_narrow_distances(e, a);
            } else {
                unpack_all::<T>(e, &mut wide_e);
                unpack_all::<T>(a, &mut wide_a);
                let (e, a) = (Unpacked::<S>::new(&wide_e), Unpacked::<S>::new(&wide_a));
                lanes.add_narrow(e, a);
                lanes.add_narrow_distances(e, a);
            }
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

    /// Adds 16-bit floats: a run of vectors in float32, and their sums in float64.
    #[inline(always)]
    fn add_narrow(&mut self, e: impl Pairs<S>, a: impl Pairs<S>) {
        let simd = self.simd;
        for start in (0..e.len()).step_by(RUN) {
            let ([e0, e1], [a0, a1]) = (e.get(start), a.get(start));
            let (mut sum_e, mut sum_a) = (simd.add_f32s(e0, e1), simd.add_f32s(a0, a1));
            let (mut squares_e, mut squares_e1) = (simd.mul_f32s(e0, e0), simd.mul_f32s(e1, e1));
            let (mut squares_a, mut squares_a1) = (simd.mul_f32s(a0, a0), simd.mul_f32s(a1, a1));
            for i in 1..RUN {
                let ([e0, e1], [a0, a1]) = (e.get(start + i), a.get(start + i));
                sum_e = simd.add_f32s(sum_e, simd.add_f32s(e0, e1));
                sum_a = simd.add_f32s(sum_a, simd.add_f32s(a0, a1));
                squares_e = simd.mul_add_e_f32s(e0, e0, squares_e);
                squares_e1 = simd.mul_add_e_f32s(e1, e1, squares_e1);
                squares_a = simd.mul_add_e_f32s(a0, a0, squares_a);
                squares_a1 = simd.mul_add_e_f32s(a1, a1, squares_a1);
            }
            self.expected = add_wide(simd, self.expected, sum_e);
            self.actual = add_wide(simd, self.actual, sum_a);
            self.expected_squares =
                add_wide(simd, self.expected_squares, simd.add_f32s(squares_e, squares_e1));
            self.actual_squares = add_wide(simd, self.actual_squares, simd.add_f32s(squares_a, squares_a1));
        }
    }

    /// Adds the distances between 16-bit floats, and looks how far they are above either line. A loop of its own: all
    /// accumulators at once do not fit into registers, and one that goes through memory is waited for.
    #[inline(always)]
    fn add_narrow_distances(&mut self, e: impl Pairs<S>, a: impl Pairs<S>) {
        let (simd, zero) = (self.simd, self.simd.splat_f32s(0.0));
        let (magnitude, [gate, relative]) = (self.magnitude, self.slopes);
        let ([mut above_gate, mut above_relative], mut max) = (self.excess, self.max_narrow);
        for start in (0..e.len()).step_by(RUN) {
            let (mut sum, mut squares, mut squares1) = (zero, zero, zero);
            for i in start..start + RUN {
                let ([e0, e1], [a0, a1]) = (e.get(i), a.get(i));
                let d0 = simd.and_f32s(simd.sub_f32s(a0, e0), magnitude);
                let d1 = simd.and_f32s(simd.sub_f32s(a1, e1), magnitude);
                sum = simd.add_f32s(sum, simd.add_f32s(d0, d1));
                squares = simd.mul_add_e_f32s(d0, d0, squares);
                squares1 = simd.mul_add_e_f32s(d1, d1, squares1);
                max = simd.max_f32s(max, simd.max_f32s(d0, d1));
                let (e0, e1) = (simd.and_f32s(e0, magnitude), simd.and_f32s(e1, magnitude));
                above_gate = simd.max_f32s(above_gate, simd.mul_add_e_f32s(gate, e0, d0));
                above_gate = simd.max_f32s(above_gate, simd.mul_add_e_f32s(gate, e1, d1));
                above_relative = simd.max_f32s(above_relative, simd.mul_add_e_f32s(relative, e0, d0));
                above_relative = simd.max_f32s(above_relative, simd.mul_add_e_f32s(relative, e1, d1));
            }
            self.distances = add_wide(simd, self.distances, sum);
            self.distance_squares = add_wide(simd, self.distance_squares, simd.add_f32s(squares, squares1));
        }
        (self.excess, self.max_narrow) = ([above_gate, above_relative], max);
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

/// 16-bit floats as pairs of vectors of float32, in an order that does not matter.
trait Pairs<S: Simd>: Copy {
    fn len(self) -> usize;
    fn get(self, index: usize) -> [S::f32s; 2];
}

/// Two in a word, unpacked when they are asked for.
struct Packed<'a, S: Simd, T>(&'a [S::u32s], PhantomData<T>);

impl<'a, S: Simd, T> Packed<'a, S, T> {
    #[inline(always)]
    fn new(words: &'a [u32; WORDS]) -> Self {
        Self(S::as_simd_u32s(words).0, PhantomData)
    }
}

impl<S: Simd, T> Clone for Packed<'_, S, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Simd, T> Copy for Packed<'_, S, T> {}

impl<S: Simd, T: Narrow> Pairs<S> for Packed<'_, S, T> {
    #[inline(always)]
    fn len(self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn get(self, index: usize) -> [S::f32s; 2] {
        unpack::<S, T>(self.0[index])
    }
}

/// Unpacked before.
struct Unpacked<'a, S: Simd>(&'a [[S::f32s; 2]]);

impl<'a, S: Simd> Unpacked<'a, S> {
    #[inline(always)]
    fn new(floats: &'a [f32; STAGE]) -> Self {
        Self(S::as_simd_f32s(floats).0.as_chunks().0)
    }
}

impl<S: Simd> Clone for Unpacked<'_, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Simd> Copy for Unpacked<'_, S> {}

impl<S: Simd> Pairs<S> for Unpacked<'_, S> {
    #[inline(always)]
    fn len(self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn get(self, index: usize) -> [S::f32s; 2] {
        self.0[index]
    }
}

/// All low floats, then all high ones.
#[inline(always)]
fn unpack_all<T: Narrow>(words: &[u32; WORDS], floats: &mut [f32; STAGE]) {
    let (low, high) = floats.split_at_mut(WORDS);
    for (i, &word) in words.iter().enumerate() {
        low[i] = T::low(word);
        high[i] = T::high(word);
    }
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
