//! The tier of dtypes of one byte: whole blocks of uint8, int8 and bools.
//!
//! A block of bytes is summed in integers, which are exact and which compilers turn into vectors by themselves. The results are
//! those of [`super::float64_tier`], whose sums of small integers are exact, too.

use pulp::{Arch, NullaryFnOnce};

use super::BLOCK;
use super::element::{Bool, Element};
use super::fast_sums::BlockSums;
use super::fast_tier::Measured;
use super::float_bits::Places;
use super::thresholds::{RUN, Reached, Runs, Threshold, Thresholds};

/// An element of one byte.
pub(super) trait Byte: Element + bytemuck::Pod {
    /// The element as a number from -128 to 255.
    fn small(self) -> i16;
}

impl Byte for u8 {
    #[inline(always)]
    fn small(self) -> i16 {
        self.into()
    }
}

impl Byte for i8 {
    #[inline(always)]
    fn small(self) -> i16 {
        self.into()
    }
}

impl Byte for Bool {
    #[inline(always)]
    fn small(self) -> i16 {
        self.is_true().into()
    }
}

/// Measures a block.
pub(super) fn measure<T: Byte>(e: &[T; BLOCK], a: &[T; BLOCK], limits: &Thresholds) -> Measured {
    // Equal blocks are the rule among integers and bools, and need half of the work.
    let is_equal = bytemuck::cast_slice::<T, u8>(e) == bytemuck::cast_slice::<T, u8>(a);
    let expected = Arch::new().dispatch(Side(e));
    let actual = if is_equal { expected } else { Arch::new().dispatch(Side(a)) };
    let apart = if is_equal { Apart::none() } else { Arch::new().dispatch(Pair { e, a }) };
    let sums = BlockSums {
        expected: expected.sum.into(),
        actual: actual.sum.into(),
        error: (actual.sum - expected.sum).into(),
        expected_squares: expected.squares.into(),
        actual_squares: actual.squares.into(),
        error_squares: apart.squares.into(),
        distances: apart.sum.into(),
        max_distance: apart.most.iter().copied().max().unwrap_or_default().into(),
    };
    let places = Places {
        min: [expected.min.into(), actual.min.into()],
        max: [expected.max.into(), actual.max.into()],
        subnormal: [0; 2],
        equal: (BLOCK as u32 - apart.differ).into(),
        ulps: 0,
        rel_bound: f64::INFINITY,
    };
    let [gate, relative] = [limits.gate.low_wide(), limits.relative.low_wide()];
    let reached = Reached { gate: apart.reaching(e, a, gate), relative: apart.reaching(e, a, relative) };
    Measured { sums, places, reached, moduli: [0.0; 2] }
}

/// The sums and the extremes of one side.
#[derive(Clone, Copy)]
struct OneSide {
    sum: i32,
    /// At most 4096 times 255 squared, which 32 bits hold.
    squares: i32,
    min: i16,
    max: i16,
}

struct Side<'a, T>(&'a [T; BLOCK]);

impl<T: Byte> NullaryFnOnce for Side<'_, T> {
    type Output = OneSide;

    #[inline(always)]
    fn call(self) -> OneSide {
        let mut all = OneSide { sum: 0, squares: 0, min: i16::MAX, max: i16::MIN };
        for x in self.0 {
            let x = x.small();
            all.sum += i32::from(x);
            all.squares += i32::from(x) * i32::from(x);
            all.min = all.min.min(x);
            all.max = all.max.max(x);
        }
        all
    }
}

/// The distances of a pair of blocks.
struct Apart {
    sum: i32,
    squares: i32,
    differ: u32,
    /// The largest distance per run.
    most: [i16; BLOCK / RUN],
}

impl Apart {
    const fn none() -> Self {
        Self { sum: 0, squares: 0, differ: 0, most: [0; BLOCK / RUN] }
    }

    /// The runs with an element at or above the threshold, of those that differ at all.
    fn reaching<T: Byte>(&self, e: &[T; BLOCK], a: &[T; BLOCK], threshold: Threshold) -> Runs {
        let mut runs = Runs::NONE;
        for (run, &most) in self.most.iter().enumerate() {
            // The golden can only lower the excess of the largest distance.
            if most > 0 && f64::from(most) >= threshold.offset {
                let (e, a) = (&e.as_chunks::<RUN>().0[run], &a.as_chunks::<RUN>().0[run]);
                runs.set(run, Arch::new().dispatch(Excess { e, a, threshold }));
            }
        }
        runs
    }
}

struct Pair<'a, T> {
    e: &'a [T; BLOCK],
    a: &'a [T; BLOCK],
}

impl<T: Byte> NullaryFnOnce for Pair<'_, T> {
    type Output = Apart;

    #[inline(always)]
    fn call(self) -> Apart {
        let mut all = Apart::none();
        let runs = self.e.as_chunks::<RUN>().0.iter().zip(self.a.as_chunks::<RUN>().0);
        for ((e, a), most) in runs.zip(&mut all.most) {
            for (e, a) in e.iter().zip(a) {
                let d = (a.small() - e.small()).abs();
                all.sum += i32::from(d);
                all.squares += i32::from(d) * i32::from(d);
                all.differ += u32::from(d != 0);
                *most = (*most).max(d);
            }
        }
        all
    }
}

/// Whether an element of a run is at or above a threshold.
struct Excess<'a, T> {
    e: &'a [T; RUN],
    a: &'a [T; RUN],
    threshold: Threshold,
}

impl<T: Byte> NullaryFnOnce for Excess<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn call(self) -> bool {
        let mut above = false;
        for (e, a) in self.e.iter().zip(self.a) {
            let (d, m) = (f64::from((a.small() - e.small()).abs()), f64::from(e.small().abs()));
            above |= d - self.threshold.slope * m >= self.threshold.offset;
        }
        above
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::float64_tier;
    use super::*;

    /// Blocks of every kind: equal, with a few differences, and unrelated.
    fn blocks() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let block = || prop::collection::vec(any::<u8>(), BLOCK);
        let few = prop::collection::vec((0..BLOCK, any::<u8>()), 0..9);
        (block(), block(), few, any::<bool>()).prop_map(|(e, other, few, is_other)| {
            let mut a = if is_other { other } else { e.clone() };
            few.into_iter().for_each(|(at, byte)| a[at] = byte);
            (e, a)
        })
    }

    fn check<T: Byte>(e: &[u8], a: &[u8], limits: &Thresholds) -> Result<(), TestCaseError> {
        let block = |bytes| <&[T; BLOCK]>::try_from(bytemuck::cast_slice::<u8, T>(bytes)).unwrap();
        let (e, a) = (block(e), block(a));
        let (fast, slow) = (measure(e, a, limits), float64_tier::measure(e, a, limits).unwrap());
        prop_assert_eq!((fast.sums, fast.places), (slow.sums, slow.places));
        // A run without a difference needs no closer check, whatever the threshold.
        let differs = |run: &usize| e[run * RUN..][..RUN].iter().zip(&a[run * RUN..]).any(|(e, a)| e != a);
        let runs = |runs: Runs| runs.iter().filter(differs).collect::<Vec<_>>();
        prop_assert_eq!(runs(fast.reached.gate), runs(slow.reached.gate));
        prop_assert_eq!(runs(fast.reached.relative), runs(slow.reached.relative));
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn bytes_measure_as_in_float64(
            (e, a) in blocks(),
            offsets in [0.0..300.0, 0.0..300.0],
            slopes in [0.0..2.0, 0.0..2.0],
            is_plain in any::<bool>(),
        ) {
            let slope = |slope| if is_plain { 0.0 } else { slope };
            let threshold = |index: usize| Threshold { offset: offsets[index], slope: slope(slopes[index]) };
            let limits = Thresholds { gate: threshold(0), relative: threshold(1), ..Thresholds::default() };
            check::<u8>(&e, &a, &limits)?;
            check::<i8>(&e, &a, &limits)?;
            check::<Bool>(&e, &a, &limits)?;
        }
    }
}
