//! The measurements that do not depend on the order of blocks: counts, extremes, the worst elements, the sample.

use super::element::{Element, Finiteness};
use super::fast_tier::Measured;
use super::thresholds::{RUN, Runs, Threshold, Thresholds};
use super::tier::BlockElement;
use super::tolerance::Tolerance;
use super::{BLOCK, HUGE, REL_GUARD};
use crate::gate::{Gate, Rule};

/// How many of the worst elements are kept.
pub(super) const WORST: usize = 5;

/// A rule in the form in which it applies to single elements.
#[derive(Debug, Clone)]
pub(super) struct ElementRule {
    pub(super) tolerance: Option<Tolerance>,
    nan_equal: bool,
    /// The bound of an element at or above [`HUGE`] under a noise gate, as a fraction of the element.
    huge: Option<f64>,
}

impl ElementRule {
    pub(super) fn new(rule: &Rule, epsilon: f64) -> Self {
        let (tolerance, huge) = match rule.gate {
            Some(Gate::Tolerance { rtol, atol, .. }) => (Some(Tolerance::new(rtol, atol)), None),
            Some(Gate::Noise { k }) => (None, Some(k * epsilon)),
            // Choices are judged by rows, in `choices`.
            Some(Gate::Distribution(_) | Gate::Tokens { .. } | Gate::Set { .. } | Gate::Text) | None => {
                (None, None)
            }
        };
        Self { tolerance, nan_equal: rule.nan_equal, huge }
    }

    /// Whether two elements agree when at least one is not finite, as in numpy.
    fn agree<T: Element>(&self, expected: T, actual: T) -> bool {
        expected == actual
            || self.nan_equal
                && expected.finiteness() == Finiteness::Nan
                && actual.finiteness() == Finiteness::Nan
    }

    /// The tolerance, when elements have different bounds.
    pub(super) fn own_bounds(&self) -> Option<&Tolerance> {
        self.tolerance.as_ref().filter(|tolerance| tolerance.rtol != 0.0)
    }

    /// The part of its bound that an element used, when elements have bounds.
    pub(super) fn used(&self, bad: &Bad) -> Option<f64> {
        let tolerance = self.tolerance.as_ref()?;
        let in_bounds = || in_bounds(bad.distance, tolerance.atol);
        Some(if self.own_bounds().is_some() || bad.nonfinite { bad.severity } else { in_bounds() })
    }

    /// The severity of a distance: in multiples of the element's bound when bounds differ, else the distance itself.
    fn severity<T: Element>(&self, expected: T, distance: f64) -> f64 {
        match self.own_bounds() {
            Some(tolerance) => in_bounds(distance, tolerance.bound(expected.magnitude())),
            None => distance,
        }
    }
}

/// `distance / bound`; 0 when both are 0, infinite when either overflows.
#[inline]
fn in_bounds(distance: f64, bound: f64) -> f64 {
    match distance {
        0.0 => 0.0,
        _ if bound.is_finite() => distance / bound,
        _ => f64::INFINITY,
    }
}

/// One of the worst elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bad {
    /// At least one side is not finite, and the sides differ.
    pub(super) nonfinite: bool,
    pub(super) severity: f64,
    pub(super) distance: f64,
    pub(super) position: usize,
}

/// Counts and extremes of one tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SideTally {
    pub(super) nan: u64,
    pub(super) positive_infinity: u64,
    pub(super) negative_infinity: u64,
    pub(super) subnormal: u64,
    /// Finite elements at or above [`HUGE`] in magnitude.
    pub(super) huge: u64,
    /// Over finite elements.
    pub(super) min: f64,
    pub(super) max: f64,
    /// Over elements below [`HUGE`].
    pub(super) absmax_below: f64,
}

impl Default for SideTally {
    fn default() -> Self {
        Self {
            nan: 0,
            positive_infinity: 0,
            negative_infinity: 0,
            subnormal: 0,
            huge: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            absmax_below: 0.0,
        }
    }
}

impl SideTally {
    #[inline]
    pub(super) fn add<T: Element>(&mut self, x: T) {
        match x.finiteness() {
            Finiteness::Nan => self.nan += 1,
            Finiteness::PositiveInfinity => self.positive_infinity += 1,
            Finiteness::NegativeInfinity => self.negative_infinity += 1,
            Finiteness::Finite => {
                self.subnormal += u64::from(x.is_subnormal());
                let number = x.number();
                self.extend(number, number);
                self.huge += u64::from(x.magnitude() >= HUGE);
            }
        }
    }

    #[inline]
    pub(super) fn extend(&mut self, min: f64, max: f64) {
        self.min = self.min.min(min);
        self.max = self.max.max(max);
        for x in [min.abs(), max.abs()] {
            if x < HUGE {
                self.absmax_below = self.absmax_below.max(x);
            }
        }
    }

    /// The interval in which a number does not change the extremes; see [`SideTally::extend`].
    fn seen(&self) -> [f64; 2] {
        [self.min.max(-self.absmax_below), self.max.min(self.absmax_below)]
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.nan += other.nan;
        self.positive_infinity += other.positive_infinity;
        self.negative_infinity += other.negative_infinity;
        self.subnormal += other.subnormal;
        self.huge += other.huge;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.absmax_below = self.absmax_below.max(other.absmax_below);
    }
}

/// The measurements of a pair of tensors that do not depend on the order in which blocks are added.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PairTally {
    pub(super) elements: u64,
    pub(super) expected: SideTally,
    pub(super) actual: SideTally,
    /// Pairs with two finite elements.
    pub(super) finite: u64,
    /// Those whose golden is below [`HUGE`].
    pub(super) counted: u64,
    pub(super) equal: u64,
    pub(super) ulps: u64,
    pub(super) max_abs: f64,
    /// Over counted pairs.
    pub(super) max_abs_below: f64,
    pub(super) max_rel: f64,
    /// Elements outside their tolerance, or not finite and different.
    pub(super) outside: u64,
    /// Elements that disagree and of which at least one is not finite.
    pub(super) nonfinite: u64,
    /// Finite elements at or above [`HUGE`] outside the bound of a noise gate.
    pub(super) huge_outside: u64,
    /// Finite, different elements whose distance or bound overflows float64.
    pub(super) overflowing: u64,
    /// Worst first; of equally bad elements the first in the tensor.
    pub(super) worst: Vec<Bad>,
    /// Distances at the sampled positions, unordered.
    pub(super) sample: Vec<f64>,
}

impl PairTally {
    /// Checks every pair of a block: whether it is outside, among the worst, or the largest relative distance.
    ///
    /// Blocks must come in increasing order of position, because of equally bad elements the first is kept.
    pub(super) fn look<T: Element>(
        &mut self,
        expected: &[T],
        actual: &[T],
        first: usize,
        judge: &ElementRule,
    ) {
        for (i, (&e, &a)) in expected.iter().zip(actual).enumerate() {
            let position = first + i;
            if e.finiteness() != Finiteness::Finite || a.finiteness() != Finiteness::Finite {
                if !judge.agree(e, a) {
                    self.nonfinite += 1;
                    self.outside += 1;
                    let infinity = f64::INFINITY;
                    self.note(Bad { nonfinite: true, severity: infinity, distance: infinity, position });
                }
                continue;
            }
            if e == a {
                continue;
            }
            let (distance, magnitude) = (e.distance(a), e.magnitude());
            self.max_rel = self.max_rel.max(distance / (magnitude + REL_GUARD));
            if judge.tolerance.as_ref().is_some_and(|tolerance| !e.within(a, tolerance)) {
                self.outside += 1;
            }
            let huge_bound = judge.huge.filter(|_| magnitude >= HUGE).map(|part| part * magnitude);
            if huge_bound.is_some_and(|bound| !(bound.is_finite() && distance <= bound)) {
                self.huge_outside += 1;
            }
            let bound = judge.tolerance.as_ref().map(|tolerance| tolerance.bound(magnitude)).or(huge_bound);
            self.overflowing += u64::from(!(distance.is_finite() && bound.unwrap_or(0.0).is_finite()));
            self.note(Bad { nonfinite: false, severity: judge.severity(e, distance), distance, position });
        }
    }

    /// Checks a measured block as closely as necessary: only the runs that reach one of the thresholds from
    /// [`PairTally::limits`].
    pub(super) fn look_if_needed<T: BlockElement>(
        &mut self,
        expected: &[T; BLOCK],
        actual: &[T; BLOCK],
        first: usize,
        judge: &ElementRule,
        measured: &Measured,
    ) {
        let own_bounds = judge.own_bounds().is_some();
        let constant = judge.tolerance.as_ref().map_or(f64::INFINITY, |tolerance| tolerance.atol);
        let max_distance = measured.sums.max_distance;
        if max_distance == 0.0 {
            return;
        }
        // When all elements share one bound, the largest distance is exact where runs are only an estimate.
        let gate = if own_bounds || max_distance > constant.min(self.least_severity()) {
            measured.reached.gate
        } else {
            Runs::NONE
        };
        let none = Tolerance::new(0.0, 0.0);
        for run in gate.union(measured.reached.relative).iter() {
            let start = run * RUN;
            let (expected, actual) = (&expected[start..start + RUN], &actual[start..start + RUN]);
            let found = T::recheck(expected, actual, judge.tolerance.as_ref().unwrap_or(&none));
            self.max_rel = self.max_rel.max(found.max_rel);
            self.outside += if judge.tolerance.is_some() { found.outside } else { 0 };
            if if own_bounds { found.max_used > self.least_severity() } else { gate.contains(run) } {
                self.seek(expected, actual, first + start, judge);
            }
        }
    }

    /// Finds finite elements that are among the worst.
    fn seek<T: Element>(&mut self, expected: &[T], actual: &[T], first: usize, judge: &ElementRule) {
        let mut least = self.least_severity();
        for (i, (&e, &a)) in expected.iter().zip(actual).enumerate() {
            let distance = e.distance(a);
            // This rules out most elements without a division.
            let may_be_worse = match judge.own_bounds() {
                Some(tolerance) => distance > least * (1.0 - 1e-12) * tolerance.bound(e.magnitude()),
                None => distance > least,
            };
            if distance > 0.0 && (may_be_worse || least == f64::INFINITY) {
                let (severity, position) = (judge.severity(e, distance), first + i);
                self.note(Bad { nonfinite: false, severity, distance, position });
                least = self.least_severity();
            }
        }
    }

    fn note(&mut self, bad: Bad) {
        if self.worst.len() == WORST && !worse(&bad, &self.worst[WORST - 1]) {
            return;
        }
        let at = self.worst.iter().position(|kept| worse(&bad, kept)).unwrap_or(self.worst.len());
        self.worst.insert(at, bad);
        self.worst.truncate(WORST);
    }

    /// The thresholds above which a block needs a closer check, given the results so far; `None` when every block does.
    pub(super) fn limits(&self, judge: &ElementRule) -> Option<Thresholds> {
        let relative = Threshold { offset: self.max_rel * REL_GUARD, slope: self.max_rel };
        let least = self.least_severity();
        let gate = match &judge.tolerance {
            // In this range no bound overflows, because measured blocks are below 1e30.
            Some(Tolerance { rtol, atol, .. })
                if !((0.0..=1e300).contains(atol) && (0.0..=1e30).contains(rtol)) =>
            {
                return None;
            }
            // Above the threshold are elements outside the tolerance, and those worse than the worst so far.
            Some(tolerance) if tolerance.rtol != 0.0 => {
                let times = least.min(1.0);
                Threshold { offset: times * tolerance.atol, slope: times * tolerance.rtol }
            }
            Some(tolerance) => Threshold { offset: least.min(tolerance.atol), slope: 0.0 },
            None => Threshold { offset: least, slope: 0.0 },
        };
        Some(Thresholds { gate, relative, seen: self.actual.seen() })
    }

    /// The severity that an element must exceed to be among the worst.
    fn least_severity(&self) -> f64 {
        if self.worst.len() < WORST { 0.0 } else { self.worst[WORST - 1].severity }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.elements += other.elements;
        self.expected.merge(&other.expected);
        self.actual.merge(&other.actual);
        self.finite += other.finite;
        self.counted += other.counted;
        self.equal += other.equal;
        self.ulps = self.ulps.max(other.ulps);
        self.max_abs = self.max_abs.max(other.max_abs);
        self.max_abs_below = self.max_abs_below.max(other.max_abs_below);
        self.max_rel = self.max_rel.max(other.max_rel);
        self.outside += other.outside;
        self.nonfinite += other.nonfinite;
        self.huge_outside += other.huge_outside;
        self.overflowing += other.overflowing;
        other.worst.into_iter().for_each(|bad| self.note(bad));
        self.sample.extend(other.sample);
    }
}

/// Whether `a` comes before `b`: non-finite first, then by severity, then by position.
fn worse(a: &Bad, b: &Bad) -> bool {
    let order = b.nonfinite.cmp(&a.nonfinite).then(b.severity.total_cmp(&a.severity));
    order.then(a.position.cmp(&b.position)).is_lt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(gate: Option<Gate>) -> ElementRule {
        ElementRule::new(&Rule { gate, ..Rule::default() }, f64::from(f32::EPSILON))
    }

    #[test]
    fn the_worst_are_kept_in_order_with_the_first_of_equals() {
        let e = [0f32; 8];
        let a = [1.0, 3.0, f32::NAN, 3.0, 2.0, 0.0, 1.0, 1.0];
        let mut tally = PairTally::default();
        tally.look(&e, &a, 100, &judge(None));
        let positions: Vec<_> = tally.worst.iter().map(|bad| bad.position).collect();
        assert_eq!(positions, [102, 101, 103, 104, 100]);
        let mut other = PairTally::default();
        other.look(&e[..1], &[1f32], 7, &judge(None));
        tally.merge(other);
        assert_eq!(tally.worst[4].position, 7);
    }

    #[test]
    fn a_relative_tolerance_ranks_by_bounds() {
        let gate = Gate::Tolerance { rtol: 1.0, atol: 0.0, policy: None };
        let mut tally = PairTally::default();
        tally.look(&[100f32, 1.0, 0.0], &[150f32, 3.0, 1e-9], 0, &judge(Some(gate)));
        let found: Vec<_> = tally.worst.iter().map(|bad| (bad.position, bad.severity)).collect();
        assert_eq!(found, [(2, f64::INFINITY), (1, 2.0), (0, 0.5)]);
        assert_eq!(tally.outside, 2);
    }

    #[test]
    fn fill_values_are_judged_by_themselves_under_a_noise_gate() {
        let mut tally = PairTally::default();
        let judge = judge(Some(Gate::Noise { k: 8.0 }));
        tally.look(&[-3.4e38f32, -3.4e38, -3.4e38], &[(-3.4e38f32).next_up(), -1e38, 0.0], 0, &judge);
        assert_eq!(tally.huge_outside, 2);
    }
}
