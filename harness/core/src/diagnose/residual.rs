//! Decides when an explanation holds: its residual must be near the floor or the tolerance, and a small part of the error.
//!
//! Only this module makes a [`SmallResidual`], and every cause needs one.

use std::ops::Deref;

use super::diagnosis::Residual;
use super::numbers::{plain, rms};
use super::residual_bound::ResidualSums;
use super::sampled_pair::SampledPair;

/// The residual may be at most this part of the error, unless it is no more than rounding.
const PART: f64 = 0.02;
/// A residual of at most this many typical rounding errors is no more than rounding.
const ROUNDING: f64 = 2.0;
/// A residual that is no more than rounding may be at most this part of the error.
const ROUNDING_PART: f64 = 0.2;
/// An explanation must account for this many wrong elements, and for as many per choice that was fitted to them.
const EVIDENCE: usize = 3;
/// Share of the gate that the residual may use.
const SLACK: f64 = 1.0;
/// A candidate is tried on this many elements first.
const PROBES: usize = 64;

/// A residual that is small enough: proof that an explanation holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct SmallResidual(Residual);

impl SmallResidual {
    /// The larger of two residuals of the same explanation.
    fn worse(self, other: Self) -> Self {
        if other.part > self.part { other } else { self }
    }
}

impl Deref for SmallResidual {
    type Target = Residual;

    fn deref(&self) -> &Residual {
        &self.0
    }
}

/// The prediction of a candidate for one sampled element.
pub(super) enum Prediction {
    /// This value.
    Value(f64),
    /// No prediction for this element.
    Silent,
}

impl SampledPair<'_> {
    /// Returns the residual of predicting `predict(index)` at each sampled index, or `None` if it is not small enough.
    /// `choices` is how many numbers or places were fitted to the same data.
    pub(super) fn explained(&self, choices: usize, predict: impl Fn(usize) -> f64) -> Option<SmallResidual> {
        self.explained_where(choices, |index| Prediction::Value(predict(index)))
    }

    /// The same for a prediction that scales the golden. `undo` divides the actual by the scale, which must give the golden
    /// back: where the golden is scaled down, any small actual seems explained.
    pub(super) fn explained_both(
        &self,
        choices: usize,
        predict: impl Fn(usize) -> f64,
        undo: impl Fn(usize) -> f64,
    ) -> Option<SmallResidual> {
        let there = self.explained(choices, predict)?;
        let back = self.mirrored_pair().explained(choices, undo)?;
        Some(there.worse(back))
    }

    /// The same for two elements, where only a prediction without fitted numbers may be tried.
    pub(super) fn explained_few(
        &self,
        predict: impl Fn(usize) -> f64,
        undo: impl Fn(usize) -> f64,
    ) -> Option<SmallResidual> {
        let few = |pair: &SampledPair, of: &dyn Fn(usize) -> f64| {
            let sums = pair.sum(0..pair.positions.len(), &|index| Prediction::Value(of(index)))?;
            pair.checked(&sums, 0, pair.positions.len())
        };
        Some(few(self, &predict)?.worse(few(&self.mirrored_pair(), &undo)?))
    }

    /// The same as [`SampledPair::explained`] for a candidate that predicts only some elements, at least half of them.
    pub(super) fn explained_where(
        &self,
        choices: usize,
        predict: impl Fn(usize) -> Prediction,
    ) -> Option<SmallResidual> {
        let count = self.positions.len();
        // With few elements per choice, anything could be explained.
        if count < 3 || count < EVIDENCE * choices || self.budget.is_spent() {
            return None;
        }
        if count > PROBES * 8 {
            let probes = self.sum((0..PROBES).map(|i| i * (count - 1) / (PROBES - 1)), &predict)?;
            let n = probes.count.max(1) as f64;
            let (left, error) = ((probes.squares / n).sqrt(), (probes.errors / n).sqrt());
            if left > 0.5 * error.max(self.bound.error_rms) && self.bound.used(&probes) > SLACK {
                return None;
            }
        }
        let sums = self.sum(0..count, &predict)?;
        if sums.count * 2 < count || sums.count < 3 {
            return None;
        }
        self.checked(&sums, choices, EVIDENCE * choices.max(1))
    }

    /// Compares a residual with the bound. At least `evidence` elements must be wrong, since one wrong element is explained
    /// by any choice among many.
    fn checked(&self, sums: &ResidualSums, choices: usize, evidence: usize) -> Option<SmallResidual> {
        let freedom = (sums.count - choices.min(sums.count.saturating_sub(1))) as f64;
        let (left, error) = ((sums.squares / freedom).sqrt(), (sums.errors / sums.count as f64).sqrt());
        // Without a common shape there is no error per element, so the explanation must account for the whole tensor. The
        // same holds where only one side is finite.
        let error = match self.same_shape() && sums.rescued == 0 {
            true => error,
            false => error.max(rms(self.a.iter().copied().filter(|x| plain(*x)))),
        };
        // Next to a large golden, predicting zero would explain any small actual.
        let to_explain = error.min(sums.size());
        let part = if left == 0.0 { 0.0 } else { left / to_explain };
        let used = self.bound.used(sums);
        let wrong = if self.same_shape() { sums.wrong } else { sums.count };
        // Without an error there is nothing to explain.
        let is_rounding = left <= ROUNDING * self.bound.typical() * self.bound.relative_size(sums);
        let is_small = part <= PART || is_rounding && part <= ROUNDING_PART;
        let holds = error > 0.0 && used <= SLACK && is_small && wrong >= evidence;
        holds.then_some(SmallResidual(Residual { rms: left, part, used }))
    }

    /// Whether the prediction for each sampled index is the actual, within what rounding explains.
    pub(super) fn is_predicted(&self, predict: impl Fn(usize) -> f64) -> bool {
        let sums = self.sum(0..self.positions.len(), &|index| Prediction::Value(predict(index)));
        sums.is_some_and(|sums| self.bound.used(&sums) <= SLACK)
    }

    /// Returns the residual of predicting the golden from the actual. It is for mistakes that keep information which the
    /// golden has lost, such as a missing mask.
    pub(super) fn mirrored(&self, predict: impl Fn(usize) -> f64) -> Option<SmallResidual> {
        self.mirrored_pair().explained(0, predict)
    }

    /// Whether golden and actual agree at the sampled indices that `look_at` selects; it must select some.
    pub(super) fn agrees_where(&self, look_at: impl Fn(usize) -> bool) -> bool {
        let predict = |index: usize| match look_at(index) {
            true => Prediction::Value(self.e[index]),
            false => Prediction::Silent,
        };
        let sums = self.sum(0..self.positions.len(), &predict);
        sums.is_some_and(|sums| sums.count > 0 && self.bound.used(&sums) <= SLACK)
    }

    /// Returns which groups of the sample agree; `ids` has the group of each sampled index. `None` if a group has no sampled
    /// element, or if the budget was spent.
    pub(super) fn agreeing(&self, ids: &[u32], groups: usize) -> Option<Vec<bool>> {
        let mut sums: Vec<ResidualSums> = (0..groups).map(|_| ResidualSums::default()).collect();
        let (mut alike, mut seen) = (vec![true; groups], vec![false; groups]);
        for (index, &id) in ids.iter().enumerate() {
            seen[id as usize] = true;
            match self.sum([index].into_iter(), &|index| Prediction::Value(self.e[index])) {
                Some(one) => sums[id as usize].add(&one),
                None => alike[id as usize] = false,
            }
        }
        let agrees = sums.iter().zip(alike).map(|(sums, alike)| alike && self.bound.used(sums) <= SLACK);
        // A group that the budget did not reach is not known to differ.
        let is_whole = seen.iter().all(|seen| *seen) && !self.budget.is_spent();
        is_whole.then(|| agrees.collect())
    }

    /// Returns the residual of predicting the golden rounded by `round`.
    ///
    /// The golden has an error of its own, so a value next to a rounding boundary may be rounded either way: of the golden
    /// and the golden plus and minus a margin, the nearest rounded value is the prediction.
    pub(super) fn rounded(&self, round: impl Fn(usize, f64) -> f64) -> Option<SmallResidual> {
        let near = |index: usize| {
            let (expected, actual) = (self.e[index], self.a[index]);
            let margin = 8.0 * self.bound.typical();
            [expected, expected - margin, expected + margin]
                .map(|x| round(index, x))
                .into_iter()
                .min_by(|x, y| (x - actual).abs().total_cmp(&(y - actual).abs()))
                .unwrap_or(expected)
        };
        self.explained(0, near)
    }

    /// Adds up the residual at the given indices; `None` if only one of prediction and actual is finite and no fill value,
    /// or if the budget is spent.
    fn sum(
        &self,
        indices: impl Iterator<Item = usize>,
        predict: &impl Fn(usize) -> Prediction,
    ) -> Option<ResidualSums> {
        let (mut sums, typical, mut looked_at) = (ResidualSums::default(), self.bound.typical(), 0);
        for index in indices {
            looked_at += 1;
            let Prediction::Value(predicted) = predict(index) else { continue };
            let actual = self.a[index];
            if !plain(predicted) || !plain(actual) {
                let alike = predicted == actual || predicted.is_nan() && actual.is_nan();
                // Two fill values agree even if scores were added to them.
                let both_fill =
                    predicted.abs() >= 1e30 && actual.abs() >= 1e30 && predicted.signum() == actual.signum();
                if alike || both_fill {
                    let rescued = self.e.get(index).is_some_and(|&expected| plain(expected));
                    sums.rescued += usize::from(rescued);
                    sums.wrong += usize::from(rescued);
                    continue;
                }
                return None;
            }
            let distance = (actual - predicted).abs();
            sums.count += 1;
            sums.squares += distance * distance;
            sums.predicted += predicted * predicted;
            sums.actual_squares += actual * actual;
            if let Some(&expected) = self.e.get(index) {
                let plain = plain(expected);
                sums.errors += if plain { (actual - expected).powi(2) } else { 0.0 };
                sums.rescued += usize::from(!plain);
                sums.wrong += usize::from(!plain || (actual - expected).abs() > typical);
            }
            sums.max = sums.max.max(distance);
            sums.absmax = sums.absmax.max(predicted.abs());
            sums.outside = sums.outside.max(self.bound.element(predicted, distance));
        }
        self.budget.spend(looked_at).then_some(sums)
    }
}
