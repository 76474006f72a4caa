//! The fast tier: whole blocks of float32, bfloat16 or float16 at about the speed of memory.
//!
//! A block is read from memory once, by the loop that makes the float64 sums; the loop over its bits
//! ([`super::bits`]) then finds it in the first-level cache. What is costly and rare is not done here at all: the
//! loops only tell whether a block *could* hold an element worse than the worst so far, and only then does
//! [`super::tally`] look at every element.
//!
//! Everything is written once, for every instruction set. `pulp` picks AVX2 or NEON when the program runs, without
//! compiler flags and without `unsafe` here. The sums name their lanes through it, since a compiler may not reorder
//! float additions into lanes; left to the compiler's own grouping of unrolled statements they ran at half the speed.

use bytemuck::cast;
use half::{bf16, f16};
use pulp::{Arch, Simd, WithSimd};

use super::bits::{self, Places};

/// Elements in a block.
pub(super) const BLOCK: usize = 1024;
/// 16-bit floats are widened so many at a time: few enough that reading memory and computing overlap.
const STAGE: usize = 128;

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

/// The two lines above which a block has to be looked at element by element.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Limits {
    /// For the gate; `None` where the largest distance alone can tell.
    pub(super) gate: Option<Line>,
    /// For the relative distance.
    pub(super) relative: Line,
}

/// What one block of finite elements holds. Extremes and counts are exact, sums are plain float64 ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    pub(super) sums: Sums,
    /// What the bits of the elements tell; expected first where there are two.
    pub(super) places: Places,
    /// Whether an element may lie above one of the two lines.
    pub(super) above: bool,
}

/// Sums over a block, and the largest distance.
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

/// Measures a block, or answers `None` when an element is not finite, or too large for the sums.
pub(super) fn measure_f32(e: &[f32; BLOCK], a: &[f32; BLOCK], limits: &Limits) -> Option<Measured> {
    measure(e, a, limits, |e, a| bits::f32_places(e, a))
}

/// See [`measure_f32`].
pub(super) fn measure_bf16(e: &[bf16; BLOCK], a: &[bf16; BLOCK], limits: &Limits) -> Option<Measured> {
    measure(e, a, limits, |e, a| bits::bf16_places(e, a))
}

/// See [`measure_f32`].
pub(super) fn measure_f16(e: &[f16; BLOCK], a: &[f16; BLOCK], limits: &Limits) -> Option<Measured> {
    measure(e, a, limits, |e, a| bits::f16_places(e, a))
}

fn measure<T: Widen>(
    e: &[T; BLOCK],
    a: &[T; BLOCK],
    limits: &Limits,
    places: impl Fn(&[T; BLOCK], &[T; BLOCK]) -> Option<Places>,
) -> Option<Measured> {
    let gate = limits.gate.unwrap_or_default();
    let slopes = [gate.low_slope(), limits.relative.low_slope()];
    let (sums, [gate_excess, relative_excess]) = Arch::new().dispatch(Sum { e, a, slopes });
    let places = places(e, a)?;
    // A line through the origin leaves no room for the rounding of the smallest products.
    let at_origin = |line: Line| line.offset < 1e-30;
    let tiny = places.has_tiny && (limits.gate.is_some_and(at_origin) || at_origin(limits.relative));
    let above = limits.gate.is_some_and(|gate| gate.below(gate_excess))
        || limits.relative.below(relative_excess)
        || tiny && sums.max_distance > 0.0;
    Some(Measured { sums, places, above })
}

/// A float that float32 can hold. Only finite ones come back right.
trait Widen: Copy {
    fn widen(self) -> f32;
    /// The elements themselves, where they already are float32.
    fn as_f32(_block: &[Self]) -> Option<&[f32]> {
        None
    }
}

impl Widen for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn as_f32(block: &[Self]) -> Option<&[f32]> {
        Some(block)
    }
}

impl Widen for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

impl Widen for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        // The exponent's bias differs by 112, which a multiplication mends for subnormals too.
        let bits = u32::from(self.to_bits());
        let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
        f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
    }
}

struct Sum<'a, T> {
    e: &'a [T; BLOCK],
    a: &'a [T; BLOCK],
    slopes: [f32; 2],
}

impl<T: Widen> WithSimd for Sum<'_, T> {
    type Output = (Sums, [f32; 2]);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let mut lanes = Lanes::new(simd, self.slopes);
        if let (Some(e), Some(a)) = (T::as_f32(self.e), T::as_f32(self.a)) {
            lanes.add(e, a);
        } else {
            let (mut wide_e, mut wide_a) = ([0f32; STAGE], [0f32; STAGE]);
            let stages = self.e.as_chunks::<STAGE>().0.iter().zip(self.a.as_chunks::<STAGE>().0);
            for (e, a) in stages {
                for (wide, x) in wide_e.iter_mut().zip(e) {
                    *wide = x.widen();
                }
                for (wide, x) in wide_a.iter_mut().zip(a) {
                    *wide = x.widen();
                }
                lanes.add(&wide_e, &wide_a);
            }
        }
        lanes.finish()
    }
}

/// Accumulators, in vectors of whatever width there is.
struct Lanes<S: Simd> {
    simd: S,
    slopes: [S::f32s; 2],
    excess: [S::f32s; 2],
    expected: S::f64s,
    actual: S::f64s,
    expected_squares: S::f64s,
    actual_squares: S::f64s,
    distances: S::f64s,
    distance_squares: S::f64s,
    max_distance: S::f64s,
}

impl<S: Simd> Lanes<S> {
    #[inline(always)]
    fn new(simd: S, slopes: [f32; 2]) -> Self {
        let zero = simd.splat_f64s(0.0);
        Self {
            simd,
            slopes: [simd.splat_f32s(-slopes[0]), simd.splat_f32s(-slopes[1])],
            excess: [simd.splat_f32s(f32::NEG_INFINITY); 2],
            expected: zero,
            actual: zero,
            expected_squares: zero,
            actual_squares: zero,
            distances: zero,
            distance_squares: zero,
            max_distance: zero,
        }
    }

    /// Adds elements that are a whole number of vectors.
    #[inline(always)]
    fn add(&mut self, e: &[f32], a: &[f32]) {
        let simd = self.simd;
        for (&e, &a) in S::as_simd_f32s(e).0.iter().zip(S::as_simd_f32s(a).0) {
            let magnitude = simd.abs_f32s(e);
            let distance = simd.abs_f32s(simd.sub_f32s(a, e));
            for (excess, slope) in self.excess.iter_mut().zip(self.slopes) {
                *excess = simd.max_f32s(*excess, simd.mul_add_e_f32s(slope, magnitude, distance));
            }
            for (e, a) in widen::<S>(e).into_iter().zip(widen::<S>(a)) {
                let distance = simd.abs_f64s(simd.sub_f64s(a, e));
                self.expected = simd.add_f64s(self.expected, e);
                self.actual = simd.add_f64s(self.actual, a);
                self.expected_squares = simd.mul_add_e_f64s(e, e, self.expected_squares);
                self.actual_squares = simd.mul_add_e_f64s(a, a, self.actual_squares);
                self.distances = simd.add_f64s(self.distances, distance);
                self.distance_squares = simd.mul_add_e_f64s(distance, distance, self.distance_squares);
                self.max_distance = simd.max_f64s(self.max_distance, distance);
            }
        }
    }

    #[inline(always)]
    fn finish(self) -> (Sums, [f32; 2]) {
        let simd = self.simd;
        let sums = Sums {
            expected: simd.reduce_sum_f64s(self.expected),
            actual: simd.reduce_sum_f64s(self.actual),
            expected_squares: simd.reduce_sum_f64s(self.expected_squares),
            actual_squares: simd.reduce_sum_f64s(self.actual_squares),
            distances: simd.reduce_sum_f64s(self.distances),
            distance_squares: simd.reduce_sum_f64s(self.distance_squares),
            max_distance: simd.reduce_max_f64s(self.max_distance),
        };
        (sums, self.excess.map(|excess| simd.reduce_max_f32s(excess)))
    }
}

/// A vector of float32 as two of float64. Without vectors the second is a zero, which adds nothing.
#[inline(always)]
fn widen<S: Simd>(x: S::f32s) -> [S::f64s; 2] {
    #[inline(always)]
    fn halves<S: Simd, const N: usize>(x: [[f32; N]; 2]) -> [S::f64s; 2]
    where
        [f64; N]: bytemuck::Pod,
    {
        x.map(|half| cast(half.map(f64::from)))
    }
    match S::F32_LANES {
        1 => [cast(f64::from(cast::<_, f32>(x))), cast(0f64)],
        4 => halves::<S, 2>(cast(x)),
        8 => halves::<S, 4>(cast(x)),
        _ => halves::<S, 8>(cast(x)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_half_widens_to_itself() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
            if half.is_finite() {
                assert_eq!(half.widen().to_bits(), half.to_f32().to_bits());
            }
            if brain.is_finite() {
                assert_eq!(brain.widen().to_bits(), brain.to_f32().to_bits());
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
            measure_f32(&e, &a, &limits).unwrap().above
        };
        assert!(above(0.0, 0.25), "a tie has to be looked at");
        assert!(above(0.1, 0.1));
        assert!(!above(0.1, 0.1500001 * 1.00001));
        assert!(!above(0.25001, 0.0));
    }
}
