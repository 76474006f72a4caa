//! The measurements of a tensor and of a pair of tensors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choices::Choices;
use super::element::Element;
use super::pair_tally::{ElementRule, PairTally, SideTally};
use super::sum::Moments;
use super::systematic::Systematic;
use super::totals::{Totals, stride};
use super::{FIRST, REL_GUARD};
use crate::number::{self, ElementValue, WrittenFloat};
use crate::tensor::TensorView;

/// The measurements of a comparison. In JSON, NaN and the infinities are the words `"nan"`, `"inf"` and `"-inf"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Elements of the actual.
    pub elements: u64,
    /// The golden alone; absent without one, and for a golden that has the most probable ids only.
    pub expected: Option<Stats>,
    /// The actual alone.
    pub actual: Stats,
    /// The difference between the two; absent without a golden, or when shapes or dtypes differ.
    pub difference: Option<Difference>,
    /// How far the choices agree; absent unless the gate is for choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Choices>,
}

/// The measurements of one tensor. For complex tensors, min, max, absmax, mean and std are those of the moduli. They are
/// NaN when no element counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Smallest finite element.
    #[serde(with = "number")]
    #[schemars(with = "WrittenFloat")]
    pub min: f64,
    /// Largest finite element.
    #[serde(with = "number")]
    #[schemars(with = "WrittenFloat")]
    pub max: f64,
    /// Largest magnitude of a finite element.
    #[serde(with = "number")]
    #[schemars(with = "WrittenFloat")]
    pub absmax: f64,
    /// Mean of finite elements below 1e30 in magnitude.
    #[serde(with = "number")]
    #[schemars(with = "WrittenFloat")]
    pub mean: f64,
    /// Population standard deviation of the same elements.
    #[serde(with = "number")]
    #[schemars(with = "WrittenFloat")]
    pub std: f64,
    /// Elements that are NaN.
    pub nan: u64,
    /// Elements that are positive infinity.
    pub positive_infinity: u64,
    /// Elements that are negative infinity.
    pub negative_infinity: u64,
    /// Elements that are subnormal in their own dtype.
    pub subnormal: u64,
    /// Finite elements at or above 1e30 in magnitude: fill values, which means, sums and floors ignore.
    pub huge: u64,
    /// The first ten elements in row-major order.
    pub first: Vec<ElementValue>,
}

/// The difference between an actual and its golden.
///
/// Distances are `|actual - expected|`, rounded to float64 (to float32 for 16-bit floats), over pairs that are finite on
/// both sides. Sums, means and numbers derived from them also ignore pairs whose golden is at or above 1e30 in magnitude.
/// Sums of 16-bit floats are partly computed in float32 and accurate to about 1 in 1e7; all others are float64. Only a
/// noise gate's verdict depends on these roundings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Elements outside the gate, including non-finite ones that disagree; absent without a gate. A noise gate bounds
    /// single elements by its max part.
    pub mismatched: Option<u64>,
    /// `mismatched` as a fraction of all elements.
    #[serde(with = "number::option")]
    pub mismatched_fraction: Option<f64>,
    /// Elements that disagree and of which at least one is not finite.
    pub nonfinite_mismatched: u64,
    /// Pairs in sums and means.
    pub counted: u64,
    /// Largest distance.
    #[serde(with = "number")]
    pub max_abs: f64,
    /// Mean distance.
    #[serde(with = "number")]
    pub mean_abs: f64,
    /// Sum of distances.
    #[serde(with = "number")]
    pub sum_abs: f64,
    /// Root mean square distance.
    #[serde(with = "number")]
    pub rms: f64,
    /// Largest `distance / (|expected| + rel_guard)`.
    #[serde(with = "number")]
    pub max_rel: f64,
    /// The term that keeps `max_rel` from dividing by zero: 1e-8.
    pub rel_guard: f64,
    /// Cosine of the angle between the two; complex numbers count as their two parts. NaN when either is all zero.
    #[serde(with = "number")]
    pub cosine: f64,
    /// Pearson's correlation; complex numbers count as their two parts. NaN when either is constant.
    #[serde(with = "number")]
    pub pcc: f64,
    /// Norm of the error divided by the norm of the golden.
    #[serde(with = "number")]
    pub relative_l2: f64,
    /// Signal-to-noise ratio in decibels: the golden's power over that of the error.
    #[serde(with = "number")]
    pub snr_db: f64,
    /// Equal elements as a fraction of all. Both zeros are equal; NaN equals nothing.
    #[serde(with = "number")]
    pub exact_fraction: f64,
    /// The most steps between numbers of the dtype from golden to actual; absent for integers and bools.
    pub max_ulp: Option<u64>,
    /// The actual's `max - min` divided by the golden's.
    #[serde(with = "number")]
    pub range_ratio: f64,
    /// The used part of the gate: the largest distance divided by its bound, or the larger part of a noise gate divided
    /// by `k`. Above 1 is outside. Absent without a gate.
    #[serde(with = "number::option")]
    pub used: Option<f64>,
    /// The error in multiples of the floor; absent without a floor.
    pub times_floor: Option<TimesFloor>,
    /// The systematic part of an error of at least one floor, inside a noise gate; absent otherwise.
    #[serde(default)]
    pub systematic: Option<Systematic>,
    /// The worst elements, worst first: by distance divided by bound under a tolerance, else by distance. Non-finite
    /// elements that disagree come before all others.
    pub worst: Vec<Worst>,
    /// Quantiles of the distances.
    pub quantiles: Quantiles,
}

/// The error in multiples of the floor, as a noise gate compares it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimesFloor {
    /// `rms(actual - expected)` divided by `max(floor.rms, 0.1 * eps * rms(expected))`.
    #[serde(with = "number")]
    pub rms: f64,
    /// `max |actual - expected|` divided by `max(floor.max, eps * absmax(expected))`.
    #[serde(with = "number")]
    pub max: f64,
}

/// One of the worst elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// Its index along each axis.
    pub index: Vec<usize>,
    /// The golden's element.
    pub expected: ElementValue,
    /// The actual's element.
    pub actual: ElementValue,
    /// Their distance; infinite when one is not finite.
    #[serde(with = "number")]
    pub distance: f64,
    /// The distance divided by this element's bound, infinite when either overflows; only under a tolerance.
    #[serde(with = "number::option")]
    pub used: Option<f64>,
}

/// Quantiles of the distances of every `stride`-th element from the first, at most 16,384 of them.
///
/// Each is a distance in the sample: the smallest that the given part of the sample does not exceed. NaN without a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Half of the sample is not above this.
    #[serde(with = "number")]
    pub p50: f64,
    /// 90 % of the sample is not above this.
    #[serde(with = "number")]
    pub p90: f64,
    /// 99 % of the sample is not above this.
    #[serde(with = "number")]
    pub p99: f64,
    /// 99.9 % of the sample is not above this.
    #[serde(with = "number")]
    pub p99_9: f64,
    /// Distances in the sample: the sampled pairs that are finite on both sides.
    pub sample: u64,
    /// Elements from one sampled position to the next.
    pub stride: u64,
}

impl Stats {
    pub(super) fn new<T: Element>(view: &TensorView, moments: &Moments, side: &SideTally) -> Self {
        let finite = side.min <= side.max;
        let count = view.len().min(FIRST);
        Self {
            min: if finite { side.min } else { f64::NAN },
            max: if finite { side.max } else { f64::NAN },
            absmax: if finite { side.min.abs().max(side.max.abs()) } else { f64::NAN },
            mean: moments.mean(),
            std: moments.deviation(),
            nan: side.nan,
            positive_infinity: side.positive_infinity,
            negative_infinity: side.negative_infinity,
            subnormal: side.subnormal,
            huge: side.huge,
            first: elements::<T>(view, 0, count).into_iter().map(T::value).collect(),
        }
    }
}

/// Elements from a row-major position.
fn elements<T: Element>(view: &TensorView, start: usize, count: usize) -> Vec<T> {
    let mut elements = vec![T::zeroed(); count];
    view.gather(start, bytemuck::cast_slice_mut(&mut elements));
    elements
}

impl Difference {
    /// Everything except the gate's part: `mismatched`, `used`, `times_floor` and `systematic` are absent. It takes the sample.
    pub(super) fn new<T: Element>(
        expected: &TensorView,
        actual: &TensorView,
        totals: &mut Totals,
        judge: &ElementRule,
    ) -> Self {
        let sample = std::mem::take(&mut totals.tally.sample);
        let Totals { ordered, tally } = &*totals;
        let pairs = ordered.pairs();
        let [expected_squares, actual_squares] = pairs.map(|moments| moments.sum_of_squares());
        let error_squares = ordered.error.sum_of_squares();
        let sum_abs = ordered.distances.value();
        Self {
            mismatched: None,
            mismatched_fraction: None,
            nonfinite_mismatched: tally.nonfinite,
            counted: tally.counted,
            max_abs: tally.max_abs,
            mean_abs: over(sum_abs, tally.counted as f64),
            sum_abs,
            rms: rms(error_squares, tally.counted),
            max_rel: tally.max_rel,
            rel_guard: REL_GUARD,
            cosine: alignment(expected_squares, actual_squares, error_squares),
            pcc: alignment(pairs[0].spread(), pairs[1].spread(), ordered.error.spread()),
            relative_l2: over(error_squares.sqrt(), expected_squares.sqrt()),
            snr_db: if error_squares == 0.0 {
                f64::INFINITY
            } else {
                10.0 * (expected_squares / error_squares).log10()
            },
            exact_fraction: if expected.is_empty() {
                1.0
            } else {
                tally.equal as f64 / expected.len() as f64
            },
            max_ulp: T::HAS_ULPS.then_some(tally.ulps),
            range_ratio: if tally.finite == 0 {
                f64::NAN
            } else {
                range_ratio(&tally.expected, &tally.actual)
            },
            used: None,
            times_floor: None,
            systematic: None,
            worst: worst::<T>(expected, actual, tally, judge),
            quantiles: Quantiles::new(sample, stride(expected.len())),
        }
    }
}

/// The actual's `max - min` divided by the golden's; 1 when both are equal, also for two constants.
fn range_ratio(expected: &SideTally, actual: &SideTally) -> f64 {
    let range = |side: &SideTally, scale: f64| side.max * scale - side.min * scale;
    let [mut e, mut a] = [expected, actual].map(|side| range(side, 1.0));
    if !(e + a).is_finite() {
        // A range can be twice what float64 holds.
        [e, a] = [expected, actual].map(|side| range(side, 0.25));
    }
    if e == a { 1.0 } else { a / e }
}

fn worst<T: Element>(
    expected: &TensorView,
    actual: &TensorView,
    tally: &PairTally,
    judge: &ElementRule,
) -> Vec<Worst> {
    let at = |view: &TensorView, position| elements::<T>(view, position, 1)[0].value();
    let worst = tally.worst.iter().map(|bad| Worst {
        index: expected.index_of(bad.position),
        expected: at(expected, bad.position),
        actual: at(actual, bad.position),
        distance: bad.distance,
        used: judge.used(bad),
    });
    worst.collect()
}

impl Quantiles {
    fn new(mut sample: Vec<f64>, stride: usize) -> Self {
        let count = sample.len();
        // Distances are never negative, so they sort like their bits, which is faster.
        let (mut rest, mut before): (&mut [u64], _) = (bytemuck::cast_slice_mut(&mut sample), 0);
        // Distances below one quantile cannot be the next, so each search covers fewer than the one before.
        let [p50, p90, p99, p99_9] = [0.5, 0.9, 0.99, 0.999].map(|part: f64| {
            if rest.is_empty() {
                return f64::NAN;
            }
            let rank = ((part * count as f64).ceil() as usize).saturating_sub(1) - before;
            let found = *rest.select_nth_unstable(rank).1;
            rest = &mut std::mem::take(&mut rest)[rank..];
            before += rank;
            f64::from_bits(found)
        });
        Self { p50, p90, p99, p99_9, sample: count as u64, stride: stride as u64 }
    }
}

pub(super) fn rms(squares: f64, count: u64) -> f64 {
    over(squares, count as f64).sqrt()
}

/// `x / y`; 0 when both are 0.
pub(super) fn over(x: f64, y: f64) -> f64 {
    if x == 0.0 && y == 0.0 { 0.0 } else { x / y }
}

/// `<e, a> / (|e| |a|)` from the three squared norms of `e`, `a` and `a - e`.
///
/// Using the error keeps the digits of a cosine close to 1, which a sum of products would round off.
fn alignment(expected: f64, actual: f64, error: f64) -> f64 {
    let (e, a) = (expected.sqrt(), actual.sqrt());
    if e == 0.0 || a == 0.0 {
        return f64::NAN;
    }
    (1.0 - (error - (e - a) * (e - a)) / (2.0 * e * a)).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignment_is_the_cosine() {
        assert_eq!(alignment(1.0, 1.0, 4.0), -1.0);
        assert_eq!(alignment(1.0, 1.0, 2.0), 0.0);
        assert_eq!(alignment(9.0, 4.0, 1.0), 1.0);
        assert!(alignment(0.0, 1.0, 1.0).is_nan());
        assert!(alignment(1.0, 1.0, 1e-15) < 1.0, "an error far below float64's own eps is still seen");
    }

    #[test]
    fn quantiles_are_distances_that_occur() {
        let sample: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        let quantiles = Quantiles::new(sample, 7);
        let found = [quantiles.p50, quantiles.p90, quantiles.p99, quantiles.p99_9];
        assert_eq!(found, [500.0, 900.0, 990.0, 999.0]);
        assert_eq!(Quantiles::new(vec![3.0], 1).p50, 3.0);
        assert!(Quantiles::new(Vec::new(), 1).p99.is_nan());
    }
}
