//! When an explanation holds: what it leaves is near the floor or the tolerance, and little of what was to be explained.
//!
//! Only this module makes an [`Explained`], and a cause cannot be told without one.

use std::ops::Deref;

use super::cause::Residual;
use super::scene::{Pair, plain};
use crate::compare::{Floor, Gate, Rule};
use crate::tensor::Dtype;

/// An explanation may leave at most this part of the error.
const PART: f64 = 0.2;
/// So many wrong elements an explanation must account for, and as many for each choice that was made to fit them.
const EVIDENCE: usize = 3;
/// Multiples of the floor that rounding may come to, where the gate is not a noise gate.
const K: f64 = 8.0;
/// How much of the gate an explanation may use.
const SLACK: f64 = 1.0;
/// Elements that a candidate is first tried on.
const PROBES: usize = 64;

/// What a residual is held against.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    noise: Option<Noise>,
    /// `(rtol, atol)` of the gate.
    tolerance: Option<(f64, f64)>,
    eps: f64,
    /// Root mean square of the golden and of the error, over plain pairs.
    expected_rms: f64,
    pub(super) error_rms: f64,
}

#[derive(Debug, Clone)]
struct Noise {
    k: f64,
    floor: Floor,
}

impl Bar {
    pub(super) fn new(rule: &Rule, dtype: Dtype, e: &[f64], a: &[f64]) -> Self {
        let k = match rule.gate {
            Some(Gate::Noise { k }) => k.max(K),
            _ => K,
        };
        let tolerance = match rule.gate {
            Some(Gate::Tolerance { rtol, atol, .. }) => Some((rtol, atol)),
            _ => None,
        };
        let eps = dtype.epsilon().unwrap_or(0.0);
        let noise = rule.floor.map(|floor| Noise { k, floor });
        let plain_pairs = || e.iter().zip(a).filter(|(e, a)| plain(**e) && plain(**a));
        Self {
            noise,
            tolerance,
            eps,
            expected_rms: rms(plain_pairs().map(|(e, _)| *e)),
            error_rms: rms(plain_pairs().map(|(e, a)| a - e)),
        }
    }

    /// The machine epsilon of the dtype; 0 for integers.
    pub(super) fn eps(&self) -> f64 {
        self.eps
    }

    /// How large an error is mere rounding, as a part of the golden.
    pub(super) fn relative(&self) -> f64 {
        if self.expected_rms > 0.0 { self.typical() / self.expected_rms } else { 0.0 }
    }

    /// How large an error of one element is mere rounding, about.
    pub(super) fn typical(&self) -> f64 {
        let floor = self.noise.as_ref().map_or(0.0, |noise| noise.floor.rms);
        floor.max(self.eps * self.expected_rms)
    }

    /// How much of the gate a residual with these sums uses.
    fn used(&self, sums: &Sums) -> f64 {
        let n = sums.count.max(1) as f64;
        let (rms, of) = ((sums.squares / n).sqrt(), (sums.predicted / n).sqrt());
        // What a fault made larger has a larger floor too.
        let scale = match self.expected_rms {
            0.0 => 1.0,
            expected => (of / expected).max(1.0),
        };
        let ratio = |x: f64, bound: f64| if x == 0.0 { 0.0 } else { x / bound };
        let mut used = f64::INFINITY;
        if let Some(Noise { k, floor }) = &self.noise {
            let by_rms = ratio(rms, k * (floor.rms * scale).max(0.1 * self.eps * of));
            let by_max = ratio(sums.max, k * (floor.max * scale).max(self.eps * sums.absmax));
            used = by_rms.max(by_max);
        }
        if self.tolerance.is_some() {
            used = used.min(sums.outside / scale);
        }
        if self.noise.is_none() && self.tolerance.is_none() {
            used = ratio(rms, K * self.eps * of.max(self.expected_rms));
        }
        used
    }

    fn element(&self, predicted: f64, distance: f64) -> f64 {
        match self.tolerance {
            Some((rtol, atol)) if distance > 0.0 => distance / (atol + rtol * predicted.abs()),
            _ => 0.0,
        }
    }
}

/// What is left of the error under a prediction that holds: proof that there is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Explained(Residual);

impl Explained {
    /// Of two measurements of the same explanation, the one that leaves more.
    fn worse(self, other: Self) -> Self {
        if other.part > self.part { other } else { self }
    }
}

impl Deref for Explained {
    type Target = Residual;

    fn deref(&self) -> &Residual {
        &self.0
    }
}

#[derive(Default)]
struct Sums {
    count: usize,
    squares: f64,
    predicted: f64,
    errors: f64,
    /// Elements that are further from the golden than rounding goes.
    wrong: usize,
    /// Of these, the ones that are not numbers, or fill values, on one side only.
    rescued: usize,
    actual_squares: f64,
    max: f64,
    absmax: f64,
    outside: f64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.squares += other.squares;
        self.predicted += other.predicted;
        self.max = self.max.max(other.max);
        self.absmax = self.absmax.max(other.absmax);
        self.outside = self.outside.max(other.outside);
    }

    /// Root mean square of the actual: what is left when nothing at all is predicted.
    fn size(&self) -> f64 {
        (self.actual_squares / self.count.max(1) as f64).sqrt()
    }
}

/// What a candidate predicts at one sampled element.
pub(super) enum Prediction {
    /// This value.
    Value(f64),
    /// Nothing: the candidate says nothing about this element.
    Silent,
}

impl Pair<'_> {
    /// What is left of the error if the actual is what `predict` says at each sampled index; `None` when that does not
    /// explain it. `choices` is how many numbers or places were fitted to the same data.
    pub(super) fn explained(&self, choices: usize, predict: impl Fn(usize) -> f64) -> Option<Explained> {
        self.explained_where(choices, |index| Prediction::Value(predict(index)))
    }

    /// The same for a prediction that scales the golden. `undo` divides the actual by it, which has to give the golden:
    /// beside a golden that was scaled down, anything small looks explained.
    pub(super) fn explained_both(
        &self,
        choices: usize,
        predict: impl Fn(usize) -> f64,
        undo: impl Fn(usize) -> f64,
    ) -> Option<Explained> {
        let there = self.explained(choices, predict)?;
        let back = self.mirrored_pair().explained(choices, undo)?;
        Some(there.worse(back))
    }

    /// The same for two elements, where only a prediction without any freedom may be tried.
    pub(super) fn explained_few(
        &self,
        predict: impl Fn(usize) -> f64,
        undo: impl Fn(usize) -> f64,
    ) -> Option<Explained> {
        let few = |pair: &Pair, of: &dyn Fn(usize) -> f64| {
            let sums = pair.sum(0..pair.positions.len(), &|index| Prediction::Value(of(index)))?;
            pair.judged(&sums, 0, pair.positions.len())
        };
        Some(few(self, &predict)?.worse(few(&self.mirrored_pair(), &undo)?))
    }

    /// The same as [`Pair::explained`] for a candidate that is silent on some elements; it must speak of at least half of
    /// them.
    pub(super) fn explained_where(
        &self,
        choices: usize,
        predict: impl Fn(usize) -> Prediction,
    ) -> Option<Explained> {
        let count = self.positions.len();
        // Many more elements than choices, or anything could be explained.
        if count < 3 || count < EVIDENCE * choices || self.budget.is_spent() {
            return None;
        }
        if count > PROBES * 8 {
            let probes = self.sum((0..PROBES).map(|i| i * (count - 1) / (PROBES - 1)), &predict)?;
            let n = probes.count.max(1) as f64;
            let (left, error) = ((probes.squares / n).sqrt(), (probes.errors / n).sqrt());
            if left > 0.5 * error.max(self.bar.error_rms) && self.bar.used(&probes) > SLACK {
                return None;
            }
        }
        let sums = self.sum(0..count, &predict)?;
        if sums.count * 2 < count || sums.count < 3 {
            return None;
        }
        self.judged(&sums, choices, EVIDENCE * choices.max(1))
    }

    /// Holds what is left against the bar. At least `evidence` elements must have been wrong: one wrong element is
    /// explained by any choice among as many others.
    fn judged(&self, sums: &Sums, choices: usize, evidence: usize) -> Option<Explained> {
        let freedom = (sums.count - choices.min(sums.count.saturating_sub(1))) as f64;
        let (left, error) = ((sums.squares / freedom).sqrt(), (sums.errors / sums.count as f64).sqrt());
        // Without a common shape there is no error that was to be explained: all of the tensor is. So it is where one
        // side alone has no number.
        let error = match self.same_shape() && sums.rescued == 0 {
            true => error,
            false => error.max(rms(self.a.iter().copied().filter(|x| plain(*x)))),
        };
        // Beside a large golden a small actual is explained by nothing at all; that is no explanation.
        let to_explain = error.min(sums.size());
        let part = if left == 0.0 { 0.0 } else { left / to_explain };
        let used = self.bar.used(sums);
        let wrong = if self.same_shape() { sums.wrong } else { sums.count };
        // Where there is no error there is nothing to explain.
        let holds = error > 0.0 && used <= SLACK && part <= PART && wrong >= evidence;
        holds.then_some(Explained(Residual { rms: left, part, used }))
    }

    /// What is left when the golden is what `predict` makes of the actual: for faults that lose something, which can only be
    /// undone the other way round.
    pub(super) fn mirrored(&self, predict: impl Fn(usize) -> f64) -> Option<Explained> {
        self.mirrored_pair().explained(0, predict)
    }

    /// Whether golden and actual agree at the sampled indices that `look_at` picks; there must be some.
    pub(super) fn agrees_where(&self, look_at: impl Fn(usize) -> bool) -> bool {
        let predict = |index: usize| match look_at(index) {
            true => Prediction::Value(self.e[index]),
            false => Prediction::Silent,
        };
        let sums = self.sum(0..self.positions.len(), &predict);
        sums.is_some_and(|sums| sums.count > 0 && self.bar.used(&sums) <= SLACK)
    }

    /// Which groups of the sample agree by themselves; `ids` has the group of each sampled index. Nothing where the sample
    /// has no element of some group, or the work for it ended.
    pub(super) fn agreeing(&self, ids: &[u32], groups: usize) -> Option<Vec<bool>> {
        let mut sums: Vec<Sums> = (0..groups).map(|_| Sums::default()).collect();
        let (mut alike, mut seen) = (vec![true; groups], vec![false; groups]);
        for (index, &id) in ids.iter().enumerate() {
            seen[id as usize] = true;
            match self.sum([index].into_iter(), &|index| Prediction::Value(self.e[index])) {
                Some(one) => sums[id as usize].add(&one),
                None => alike[id as usize] = false,
            }
        }
        let agrees = sums.iter().zip(alike).map(|(sums, alike)| alike && self.bar.used(sums) <= SLACK);
        // A group that there was no work left for is not one that differs.
        let is_whole = seen.iter().all(|seen| *seen) && !self.budget.is_spent();
        is_whole.then(|| agrees.collect())
    }

    /// What is left when the actual is the golden rounded by `round`: mostly nothing, and one step of the narrower format
    /// where the golden, being a little off itself, lies next to a boundary.
    pub(super) fn rounded(&self, round: impl Fn(usize, f64) -> f64) -> Option<Explained> {
        let near = |index: usize| {
            let (expected, actual) = (self.e[index], self.a[index]);
            let margin = 8.0 * self.bar.typical();
            [expected, expected - margin, expected + margin]
                .map(|x| round(index, x))
                .into_iter()
                .min_by(|x, y| (x - actual).abs().total_cmp(&(y - actual).abs()))
                .unwrap_or(expected)
        };
        self.explained(0, near)
    }

    /// Adds up what is left at the given indices; `None` when a prediction and the actual are not even alike: one is not
    /// finite or a fill value.
    fn sum(
        &self,
        indices: impl Iterator<Item = usize>,
        predict: &impl Fn(usize) -> Prediction,
    ) -> Option<Sums> {
        let (mut sums, typical, mut looked_at) = (Sums::default(), self.bar.typical(), 0);
        for index in indices {
            looked_at += 1;
            let Prediction::Value(predicted) = predict(index) else { continue };
            let actual = self.a[index];
            if !plain(predicted) || !plain(actual) {
                let alike = predicted == actual || predicted.is_nan() && actual.is_nan();
                // Fill values differ by what was added to them.
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
            sums.outside = sums.outside.max(self.bar.element(predicted, distance));
        }
        self.budget.spend(looked_at).then_some(sums)
    }
}

/// Root mean square; 0 of nothing.
pub(super) fn rms(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0usize, 0.0), |(n, sum), x| (n + 1, sum + x * x));
    if count == 0 { 0.0 } else { (sum / count as f64).sqrt() }
}
