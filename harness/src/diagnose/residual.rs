//! When an explanation holds: what it leaves is near the floor or the tolerance, and little of what was to be explained.

use super::cause::Residual;
use super::scene::{Pair, plain};
use crate::compare::{Floor, Gate, Rule};
use crate::tensor::Dtype;

/// An explanation may leave at most this part of the error.
const PART: f64 = 0.2;
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

#[derive(Default)]
struct Sums {
    count: usize,
    squares: f64,
    predicted: f64,
    errors: f64,
    max: f64,
    absmax: f64,
    outside: f64,
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
    /// explain it. `parameters` were fitted to the same data.
    pub(super) fn explained(&self, parameters: usize, predict: impl Fn(usize) -> f64) -> Option<Residual> {
        self.explained_where(parameters, |index| Prediction::Value(predict(index)))
    }

    /// The same for so few elements that only a candidate without any freedom may be tried.
    pub(super) fn explained_few(&self, predict: impl Fn(usize) -> f64) -> Option<Residual> {
        let sums = self.sum(0..self.positions.len(), &|index| Prediction::Value(predict(index)))?;
        self.judged(&sums, 0)
    }

    /// The same for a candidate that is silent on some elements; it must speak of at least half of them.
    pub(super) fn explained_where(
        &self,
        parameters: usize,
        predict: impl Fn(usize) -> Prediction,
    ) -> Option<Residual> {
        let count = self.positions.len();
        // Many more elements than parameters, or anything could be explained.
        if count < 3 || count < 3 * parameters {
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
        self.judged(&sums, parameters)
    }

    fn judged(&self, sums: &Sums, parameters: usize) -> Option<Residual> {
        let freedom = (sums.count - parameters.min(sums.count.saturating_sub(1))) as f64;
        let (left, error) = ((sums.squares / freedom).sqrt(), (sums.errors / sums.count as f64).sqrt());
        // Without a common shape there is no error that was to be explained: all of the tensor is.
        let error = match self.same_shape() {
            true => error,
            false => rms(self.a.iter().copied().filter(|x| plain(*x))),
        };
        let part = if left == 0.0 { 0.0 } else { left / error };
        let used = self.bar.used(sums);
        // Where there is no error there is nothing to explain.
        (error > 0.0 && used <= SLACK && part <= PART).then_some(Residual { rms: left, part, used })
    }

    /// What is left when something is told of the actual and nothing is undone.
    pub(super) fn unexplained(&self) -> Residual {
        Residual { rms: self.bar.error_rms, part: 1.0, used: f64::INFINITY }
    }

    /// What is left when the golden is what `predict` makes of the actual: for faults that lose something, which can only be
    /// undone the other way round.
    pub(super) fn mirrored(&self, predict: impl Fn(usize) -> f64) -> Option<Residual> {
        self.mirrored_pair().explained(0, predict)
    }

    /// What is left where a fault leaves the golden as it is; the elements it touches are silent, and all of the error.
    pub(super) fn explained_rest(&self, predict: impl Fn(usize) -> Prediction) -> Option<Residual> {
        let sums = self.sum(0..self.positions.len(), &predict)?;
        if sums.count < 4 {
            return None;
        }
        let left = (sums.squares / sums.count as f64).sqrt();
        let used = self.bar.used(&sums);
        let part = if self.bar.error_rms > 0.0 { left / self.bar.error_rms } else { 0.0 };
        (used <= SLACK).then_some(Residual { rms: left, part: part.min(1.0), used })
    }

    /// What is left when the actual is the golden rounded by `round`: mostly nothing, and one step of the narrower format
    /// where the golden, being a little off itself, lies next to a boundary.
    pub(super) fn rounded(&self, round: impl Fn(usize, f64) -> f64) -> Option<Residual> {
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
        let mut sums = Sums::default();
        for index in indices {
            let Prediction::Value(predicted) = predict(index) else { continue };
            let actual = self.a[index];
            if !plain(predicted) || !plain(actual) {
                let alike = predicted == actual || predicted.is_nan() && actual.is_nan();
                // Fill values differ by what was added to them.
                let both_fill =
                    predicted.abs() >= 1e30 && actual.abs() >= 1e30 && predicted.signum() == actual.signum();
                if alike || both_fill {
                    continue;
                }
                return None;
            }
            let distance = (actual - predicted).abs();
            sums.count += 1;
            sums.squares += distance * distance;
            sums.predicted += predicted * predicted;
            if let Some(&expected) = self.e.get(index)
                && plain(expected)
            {
                sums.errors += (actual - expected).powi(2);
            }
            sums.max = sums.max.max(distance);
            sums.absmax = sums.absmax.max(predicted.abs());
            sums.outside = sums.outside.max(self.bar.element(predicted, distance));
        }
        Some(sums)
    }
}

/// Root mean square; 0 of nothing.
pub(super) fn rms(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0usize, 0.0), |(n, sum), x| (n + 1, sum + x * x));
    if count == 0 { 0.0 } else { (sum / count as f64).sqrt() }
}
