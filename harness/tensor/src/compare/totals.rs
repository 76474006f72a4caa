//! Adding up the measurements of blocks, from vector code and from single elements.

use std::num::NonZeroUsize;
use std::ops::Range;

use super::block_spread::{Numbers, spread_around, spread_from_sums};
use super::element::{Element, Finiteness};
use super::fast_tier::Measured;
use super::pair_tally::{ElementRule, PairTally, SideTally};
use super::spans::{self, Blocks};
use super::sum::{Moments, Sum, centred};
use super::tier::BlockElement;
use super::{BLOCK, HUGE};
use crate::tensor::TensorView;

/// The most elements whose distances are kept for quantiles.
pub(super) const SAMPLE: usize = 16_384;

/// Sums whose last digits depend on the order of blocks, so spans are added in the order of the elements.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Ordered {
    /// Finite elements below [`HUGE`] of each side alone, without those in `whole`.
    alone: [Moments; 2],
    /// The real numbers of pairs that are finite on both sides and whose golden is below [`HUGE`], without those in
    /// `whole`.
    paired: [Moments; 2],
    /// Blocks in which every element belongs to both.
    whole: [Moments; 2],
    /// `actual - expected` of all these pairs.
    pub(super) error: Moments,
    /// Distances of the same pairs.
    pub(super) distances: Sum,
}

impl Ordered {
    fn merge(&mut self, other: &Self) {
        for (moments, other) in [
            (&mut self.alone, &other.alone),
            (&mut self.paired, &other.paired),
            (&mut self.whole, &other.whole),
        ] {
            moments[0].merge(&other[0]);
            moments[1].merge(&other[1]);
        }
        self.error.merge(&other.error);
        self.distances.merge(other.distances);
    }

    /// Finite elements below [`HUGE`], of golden and actual separately.
    pub(super) fn sides(&self) -> [Moments; 2] {
        joined(self.alone, &self.whole)
    }

    /// The real numbers of pairs that are finite on both sides and whose golden is below [`HUGE`].
    pub(super) fn pairs(&self) -> [Moments; 2] {
        joined(self.paired, &self.whole)
    }
}

fn joined([mut expected, mut actual]: [Moments; 2], whole: &[Moments; 2]) -> [Moments; 2] {
    expected.merge(&whole[0]);
    actual.merge(&whole[1]);
    [expected, actual]
}

/// All measurements of a pair of tensors.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) ordered: Ordered,
    pub(super) tally: PairTally,
}

impl Totals {
    /// Adds one block: with vector code when the dtype has it and the block is whole and finite, else element by element.
    /// The choice depends on the block alone, so sums do not depend on earlier blocks.
    pub(super) fn push<T: BlockElement>(
        &mut self,
        expected: &[T],
        actual: &[T],
        first: usize,
        stride: usize,
        judge: &ElementRule,
    ) {
        self.tally.elements += expected.len() as u64;
        if let (Some(e), Some(a), Some(limits)) =
            (expected.as_array::<BLOCK>(), actual.as_array::<BLOCK>(), self.tally.limits(judge))
            && let Some(measured) = T::measure(e, a, &limits)
        {
            self.push_measured(expected, actual, &measured);
            self.tally.look_if_needed(e, a, first, judge, &measured);
        } else {
            self.push_carefully(expected, actual);
            self.tally.look(expected, actual, first, judge);
        }
        // The sample comes last, when most of the elements are in the cache.
        self.sample(expected, actual, first, stride);
    }

    #[inline]
    fn push_measured<T: BlockElement>(&mut self, expected: &[T], actual: &[T], measured: &Measured) {
        let (sums, places, n) = (&measured.sums, &measured.places, expected.len() as u64);
        // The sums are over the parts of complex numbers, and their moduli are the numbers of each side alone.
        let (e, a): (&[T::Part], &[T::Part]) = (bytemuck::cast_slice(expected), bytemuck::cast_slice(actual));
        let sides = [
            (sums.expected, sums.expected_squares, Numbers::Of(e)),
            (sums.actual, sums.actual_squares, Numbers::Of(a)),
        ];
        let pairs = if T::PARTS == 1 { &mut self.ordered.whole } else { &mut self.ordered.paired };
        for (moments, (sum, squares, numbers)) in pairs.iter_mut().zip(sides) {
            push_sums(moments, e.len(), sum, squares, numbers);
        }
        if T::PARTS > 1 {
            let [of_expected, of_actual] = &mut self.ordered.alone;
            let numbers = (Numbers::Of(expected), Numbers::Of(actual));
            push_sums(of_expected, expected.len(), measured.moduli[0], sums.expected_squares, numbers.0);
            push_sums(of_actual, actual.len(), measured.moduli[1], sums.actual_squares, numbers.1);
        }
        push_sums(&mut self.ordered.error, e.len(), sums.error, sums.error_squares, Numbers::Errors(e, a));
        self.ordered.distances.add(sums.distances);

        let tally = &mut self.tally;
        for (index, side) in [&mut tally.expected, &mut tally.actual].into_iter().enumerate() {
            side.extend(places.min[index], places.max[index]);
            side.subnormal += places.subnormal[index];
        }
        tally.finite += n;
        tally.counted += n;
        tally.equal += places.equal;
        tally.ulps = tally.ulps.max(places.ulps);
        tally.max_abs = tally.max_abs.max(sums.max_distance);
        tally.max_abs_below = tally.max_abs_below.max(sums.max_distance);
    }

    fn push_carefully<T: Element>(&mut self, expected: &[T], actual: &[T]) {
        let tally = &mut self.tally;
        let (finite, counted_before) = (tally.finite, tally.counted);
        let mut distances = Sum::default();
        for (&e, &a) in expected.iter().zip(actual) {
            tally.expected.add(e);
            tally.actual.add(a);
            tally.equal += u64::from(e == a);
            if e.finiteness() != Finiteness::Finite || a.finiteness() != Finiteness::Finite {
                continue;
            }
            tally.finite += 1;
            tally.ulps = tally.ulps.max(e.ulps(a));
            let distance = e.distance(a);
            tally.max_abs = tally.max_abs.max(distance);
            if counted(e, a) {
                tally.counted += 1;
                tally.max_abs_below = tally.max_abs_below.max(distance);
                distances.add(distance);
            }
        }
        self.ordered.distances.merge(distances);
        let n = expected.len() as u64;
        // Nearly always every pair counts, and then each side alone has the same numbers as the pairs.
        let whole = T::PARTS == 1
            && tally.finite - finite == n
            && tally.counted - counted_before == n
            && actual.iter().all(|a| a.magnitude() < HUGE);
        if whole {
            let errors = expected.iter().zip(actual).map(|(e, a)| a.number() - e.number());
            let [of_expected, of_actual] = &mut self.ordered.whole;
            for (moments, (count, sum, spread)) in [
                (of_expected, centred(expected.iter().map(|e| e.number()))),
                (of_actual, centred(actual.iter().map(|a| a.number()))),
                (&mut self.ordered.error, centred(errors)),
            ] {
                moments.push(count, sum, spread);
            }
            return;
        }
        push_moments(&mut self.ordered.alone[0], expected);
        push_moments(&mut self.ordered.alone[1], actual);
        let parts = |part: fn(T, T, usize) -> f64| {
            let pairs = expected.iter().zip(actual).filter(|&(&e, &a)| counted(e, a));
            centred(pairs.flat_map(move |(&e, &a)| (0..T::PARTS).map(move |index| part(e, a, index))))
        };
        let [expected, actual] = &mut self.ordered.paired;
        for (moments, (count, sum, spread)) in [
            (expected, parts(|e, _, index| e.part(index))),
            (actual, parts(|_, a, index| a.part(index))),
            (&mut self.ordered.error, parts(|e, a, index| a.part(index) - e.part(index))),
        ] {
            moments.push(count, sum, spread);
        }
    }

    fn sample<T: Element>(&mut self, expected: &[T], actual: &[T], first: usize, stride: usize) {
        let skip = first.next_multiple_of(stride) - first;
        for i in (skip..expected.len()).step_by(stride) {
            let (e, a) = (expected[i], actual[i]);
            if e.finiteness() == Finiteness::Finite && a.finiteness() == Finiteness::Finite {
                self.tally.sample.push(e.distance(a));
            }
        }
    }
}

/// Adds a block whose sums are known. Its numbers are read again only if the sums cancel too many digits.
#[inline]
fn push_sums<T: Element>(
    moments: &mut Moments,
    count: usize,
    sum: f64,
    squares: f64,
    numbers: Numbers<'_, T>,
) {
    let spread =
        spread_from_sums(count, sum, squares).unwrap_or_else(|| spread_around(sum / count as f64, numbers));
    moments.push(count as u64, sum, spread);
}

/// Whether a pair is part of sums: both are finite and the golden is not a fill value.
#[inline]
pub(super) fn counted<T: Element>(e: T, a: T) -> bool {
    e.finiteness() == Finiteness::Finite && a.finiteness() == Finiteness::Finite && e.magnitude() < HUGE
}

fn push_side<T: Element>(moments: &mut Moments, side: &mut SideTally, block: &[T]) {
    block.iter().for_each(|&x| side.add(x));
    push_moments(moments, block);
}

fn push_moments<T: Element>(moments: &mut Moments, block: &[T]) {
    let below = block.iter().filter(|x| x.finiteness() == Finiteness::Finite && x.magnitude() < HUGE);
    let (count, sum, spread) = centred(below.map(|x| x.number()));
    moments.push(count, sum, spread);
}

/// The distance between sampled positions, from the first element on; at most [`SAMPLE`] are sampled.
pub(super) fn stride(len: usize) -> usize {
    len.div_ceil(SAMPLE).max(1)
}

/// Measures two tensors of one dtype and shape in one pass.
pub(super) fn measure<T: BlockElement>(
    expected: &TensorView,
    actual: &TensorView,
    judge: &ElementRule,
    threads: NonZeroUsize,
) -> Totals {
    let (len, stride) = (expected.len(), stride(expected.len()));
    let (expected, actual) = (Blocks::<T>::new(expected), Blocks::<T>::new(actual));
    let state = || {
        let mut totals = Totals::default();
        // Memory is reserved once; only the part that this thread fills is touched.
        totals.tally.sample.reserve_exact(len.div_ceil(stride));
        (totals, Vec::new(), Vec::new())
    };
    let (spans, states) = spans::spans(len, threads, state, |(totals, e, a), span: Range<usize>| {
        totals.ordered = Ordered::default();
        for block in spans::blocks(span) {
            totals.push(
                expected.get(block.clone(), e),
                actual.get(block.clone(), a),
                block.start,
                stride,
                judge,
            );
        }
        totals.ordered
    });
    let mut ordered = Ordered::default();
    spans.iter().for_each(|span| ordered.merge(span));
    let mut tallies = states.into_iter().map(|(totals, ..)| totals.tally);
    let mut tally = tallies.next().unwrap_or_default();
    tallies.for_each(|other| tally.merge(other));
    Totals { ordered, tally }
}

/// Measures one tensor alone.
pub(super) fn measure_side<T: Element>(view: &TensorView, threads: NonZeroUsize) -> (Moments, SideTally) {
    let elements = Blocks::<T>::new(view);
    let state = || (SideTally::default(), Vec::new());
    let (spans, states) = spans::spans(view.len(), threads, state, |(side, buffer), span| {
        let mut moments = Moments::default();
        for block in spans::blocks(span) {
            push_side(&mut moments, side, elements.get(block, buffer));
        }
        moments
    });
    let (mut moments, mut side) = (Moments::default(), SideTally::default());
    spans.iter().for_each(|span| moments.merge(span));
    states.iter().for_each(|(other, _)| side.merge(other));
    (moments, side)
}

/// How many counted pairs are further apart than `bound`.
pub(super) fn count_above<T: Element>(
    expected: &TensorView,
    actual: &TensorView,
    bound: f64,
    threads: NonZeroUsize,
) -> u64 {
    let len = expected.len();
    let (expected, actual) = (Blocks::<T>::new(expected), Blocks::<T>::new(actual));
    let state = || (Vec::new(), Vec::new());
    let (spans, _) = spans::spans(len, threads, state, |(e, a), span| {
        let above = |&(&e, &a): &(&T, &T)| {
            let distance = e.distance(a);
            counted(e, a) && (distance > bound || distance.is_nan() || bound.is_nan())
        };
        let in_block = |block: Range<usize>| {
            let (e, a) = (expected.get(block.clone(), e), actual.get(block, a));
            e.iter().zip(a).filter(above).count() as u64
        };
        spans::blocks(span).map(in_block).sum::<u64>()
    });
    spans.into_iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Rule;

    /// A hundred million pairs through the accumulator, a block at a time, against sums in whole numbers.
    #[test]
    fn a_hundred_million_elements_lose_no_digits() {
        const BLOCKS: u64 = 100_000_000 / BLOCK as u64;
        // Multiples of 2^-12 around 1000, off by multiples of 2^-12: large sums of numbers that differ little.
        let in_units: Vec<(i64, i64)> =
            (0..BLOCK as i64).map(|i| (4_096_000 + i * i % 977, i % 7 - 3)).collect();
        let unit = f64::from(1 << 12).recip();
        let expected: Vec<f32> = in_units.iter().map(|&(e, _)| (e as f64 * unit) as f32).collect();
        let actual: Vec<f32> = in_units.iter().map(|&(e, d)| ((e + d) as f64 * unit) as f32).collect();
        let judge = ElementRule::new(&Rule::default(), 0.0);
        let mut totals = Totals::default();
        for block in 0..BLOCKS as usize {
            totals.push(&expected, &actual, block * BLOCK, 1 << 40, &judge);
        }

        let count = i128::from(BLOCKS) * BLOCK as i128;
        let sum = |of: fn(i128, i128) -> i128| -> i128 {
            in_units.iter().map(|&(e, d)| of(e.into(), d.into())).sum::<i128>() * i128::from(BLOCKS)
        };
        let check = |found: f64, exact: f64| assert!((found / exact - 1.0).abs() < 1e-13, "{found} {exact}");
        let Totals { ordered, tally } = totals;
        assert_eq!(i128::from(tally.counted), count);
        check(ordered.distances.value(), sum(|_, d| d.abs()) as f64 * unit);
        let ([expected, _], [_, actual]) = (ordered.sides(), ordered.pairs());
        check(expected.mean(), sum(|e, _| e) as f64 / count as f64 * unit);
        check(ordered.error.sum_of_squares(), sum(|_, d| d * d) as f64 * unit * unit);
        check(actual.sum_of_squares(), sum(|e, d| (e + d) * (e + d)) as f64 * unit * unit);
        // n * sum(x * x) - sum(x)^2 stays below 2^127 when the constant part is taken out of x first.
        let (s, q) = (sum(|e, _| e - 4_096_000), sum(|e, _| (e - 4_096_000) * (e - 4_096_000)));
        let spread = (count * q - s * s) as f64 / count as f64 / count as f64;
        check(expected.deviation(), spread.sqrt() * unit);
    }
}
