//! The bound that a residual is compared with, and the sums of a residual that it needs.

use super::numbers::{plain, rms};
use crate::gate::{Floor, Gate, Rule};
use crate::tensor::Dtype;

/// Rounding may reach this multiple of the floor where the gate is no noise gate.
const K: f64 = 8.0;

/// The bound that a residual is compared with.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    noise: Option<NoiseBound>,
    /// `(rtol, atol)` of a tolerance gate.
    tolerance: Option<(f64, f64)>,
    eps: f64,
    /// Root mean square of the golden, over plain elements.
    expected_rms: f64,
    /// Root mean square of the error, over plain elements.
    pub(super) error_rms: f64,
}

#[derive(Debug, Clone)]
struct NoiseBound {
    k: f64,
    floor: Floor,
}

impl Bound {
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
        let noise = rule.floor.map(|floor| NoiseBound { k, floor });
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

    /// The size of a typical rounding error, as a part of the golden.
    pub(super) fn relative(&self) -> f64 {
        if self.expected_rms > 0.0 { self.typical() / self.expected_rms } else { 0.0 }
    }

    /// The size of a typical rounding error of one element.
    pub(super) fn typical(&self) -> f64 {
        let floor = self.noise.as_ref().map_or(0.0, |noise| noise.floor.rms);
        floor.max(self.eps * self.expected_rms)
    }

    /// How much larger than the golden the prediction is. Rounding errors are larger in the same way.
    pub(super) fn relative_size(&self, sums: &ResidualSums) -> f64 {
        match self.expected_rms {
            0.0 => 1.0,
            expected => (sums.predicted / sums.count.max(1) as f64).sqrt() / expected,
        }
    }

    /// Share of the gate that a residual with these sums uses.
    pub(super) fn used(&self, sums: &ResidualSums) -> f64 {
        let n = sums.count.max(1) as f64;
        let (rms, of) = ((sums.squares / n).sqrt(), (sums.predicted / n).sqrt());
        // A gate that allows for the golden's rounding allows no less for a smaller tensor.
        let scale = self.relative_size(sums).max(1.0);
        let ratio = |x: f64, bound: f64| if x == 0.0 { 0.0 } else { x / bound };
        let mut used = f64::INFINITY;
        if let Some(NoiseBound { k, floor }) = &self.noise {
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

    pub(super) fn element(&self, predicted: f64, distance: f64) -> f64 {
        match self.tolerance {
            Some((rtol, atol)) if distance > 0.0 => distance / (atol + rtol * predicted.abs()),
            _ => 0.0,
        }
    }
}

/// What a residual adds up to, over the elements that were predicted.
#[derive(Default)]
pub(super) struct ResidualSums {
    pub(super) count: usize,
    pub(super) squares: f64,
    pub(super) predicted: f64,
    pub(super) errors: f64,
    /// Elements that are further from the golden than rounding explains.
    pub(super) wrong: usize,
    /// Wrong elements that are plain on one side only: the other side is not finite or a fill value.
    pub(super) rescued: usize,
    pub(super) actual_squares: f64,
    pub(super) max: f64,
    pub(super) absmax: f64,
    pub(super) outside: f64,
}

impl ResidualSums {
    pub(super) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.squares += other.squares;
        self.predicted += other.predicted;
        self.max = self.max.max(other.max);
        self.absmax = self.absmax.max(other.absmax);
        self.outside = self.outside.max(other.outside);
    }

    /// Root mean square of the actual: the residual of predicting zero everywhere.
    pub(super) fn size(&self) -> f64 {
        (self.actual_squares / self.count.max(1) as f64).sqrt()
    }
}
