//! One run against another: what changed per trial.

use std::collections::HashMap;

use super::run::RunResults;
use super::trial::{TrialOutcome, TrialResult};
use crate::gate::Class;

/// Two runs. The differences are those from `before` to `now`.
#[derive(Debug, Clone, Copy)]
pub struct Against<'a> {
    /// The name of the other run.
    pub name: &'a str,
    /// The other run.
    pub before: &'a RunResults,
    /// The run that is reported.
    pub now: &'a RunResults,
}

/// The outcome and the numbers of one trial in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// How the trial ended.
    pub outcome: TrialOutcome,
    /// The used part of the gate.
    pub used: Option<f64>,
    /// The root mean square of the error, in multiples of the floor.
    pub floor: Option<f64>,
    /// The mean of the actual.
    pub mean: Option<f64>,
    /// The standard deviation of the actual.
    pub std: Option<f64>,
    /// Milliseconds of the stage: of a warm run, or else of the first.
    pub millis: Option<f64>,
    /// The most bytes in use so far in the run.
    pub peak: Option<u64>,
}

/// One trial that both runs have.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialChange {
    /// The spec's id.
    pub spec: String,
    /// The trial.
    pub trial: String,
    /// Before.
    pub before: Measured,
    /// Now.
    pub now: Measured,
}

impl Measured {
    /// Returns the outcome and the numbers of a trial.
    pub fn of(trial: &TrialResult) -> Self {
        let record = trial.record.as_deref();
        let metrics = record.and_then(|record| record.metrics.as_ref());
        let difference = metrics.and_then(|metrics| metrics.difference.as_ref());
        let of_values = metrics.filter(|_| record.is_some_and(|record| !record.is_of_ids()));
        Self {
            outcome: trial.outcome.clone(),
            used: difference.and_then(|difference| difference.used),
            floor: difference.and_then(|difference| Some(difference.times_floor.as_ref()?.rms)),
            mean: of_values.map(|metrics| metrics.actual.mean),
            std: of_values.map(|metrics| metrics.actual.std),
            millis: trial.warm_millis.or(record.map(|record| record.millis)),
            peak: record.and_then(|record| Some(record.memory?.peak_bytes)),
        }
    }

    /// The class of the failure, if the trial failed.
    pub fn class(&self) -> Option<Class> {
        match &self.outcome {
            TrialOutcome::Failed { class, .. } => Some(*class),
            _ => None,
        }
    }

    fn is_red(&self) -> bool {
        matches!(self.outcome, TrialOutcome::Failed { .. } | TrialOutcome::Pending(_))
    }
}

impl TrialChange {
    /// Returns whether the trial has turned red.
    pub fn is_newly_red(&self) -> bool {
        self.now.is_red() && !self.before.is_red()
    }

    /// Returns whether the trial is red no longer.
    pub fn is_fixed(&self) -> bool {
        self.before.is_red() && !self.now.is_red()
    }

    /// Returns how many times as much of the gate is used as before; 1 if nothing of it was used in either run.
    pub fn growth(&self) -> f64 {
        let used = |side: &Measured| side.used.unwrap_or(0.0);
        match (used(&self.before), used(&self.now)) {
            (before, now) if before == now => 1.0,
            (before, now) if before.is_nan() || now.is_nan() => f64::INFINITY,
            (before, now) => now / before,
        }
    }

    /// Returns whether the outcome, an error or a statistic differs. Time and memory differ between any two runs.
    pub fn differs(&self) -> bool {
        let (before, now) = (&self.before, &self.now);
        let same = |a: Option<f64>, b: Option<f64>| a.map(f64::to_bits) == b.map(f64::to_bits);
        before.is_red() != now.is_red()
            || before.class() != now.class()
            || !same(before.used, now.used)
            || !same(before.floor, now.floor)
            || !same(before.mean, now.mean)
            || !same(before.std, now.std)
    }
}

impl Against<'_> {
    /// Returns the trials that both runs have, worst first: those that turned red, then by growth of the used part of the
    /// gate, then in the order of the run.
    pub fn changes(&self) -> Vec<TrialChange> {
        let mut before: HashMap<(&str, &str), Measured> = HashMap::new();
        for (spec, trial) in trials(self.before) {
            before.insert((spec, &trial.name), Measured::of(trial));
        }
        let mut changes: Vec<TrialChange> = trials(self.now)
            .filter_map(|(spec, trial)| {
                Some(TrialChange {
                    spec: spec.to_owned(),
                    trial: trial.name.clone(),
                    before: before.remove(&(spec, trial.name.as_str()))?,
                    now: Measured::of(trial),
                })
            })
            .collect();
        changes
            .sort_by(|a, b| b.is_newly_red().cmp(&a.is_newly_red()).then(b.growth().total_cmp(&a.growth())));
        changes
    }

    /// Returns the names of the trials that only one run has: those that are gone, then those that are new.
    pub fn only_in_one(&self) -> (Vec<String>, Vec<String>) {
        let names = |run: &RunResults| -> Vec<String> {
            trials(run).map(|(spec, trial)| format!("{spec}::{}", trial.name)).collect()
        };
        let (before, now) = (names(self.before), names(self.now));
        let without = |names: &[String], others: &[String]| -> Vec<String> {
            let others: std::collections::HashSet<&String> = others.iter().collect();
            names.iter().filter(|name| !others.contains(name)).cloned().collect()
        };
        (without(&before, &now), without(&now, &before))
    }
}

fn trials(run: &RunResults) -> impl Iterator<Item = (&str, &TrialResult)> {
    run.accounts().flat_map(|account| account.selected().map(|trial| (account.spec.id.as_str(), trial)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: (bool, f64), now: (bool, f64)) -> TrialChange {
        let side = |(red, used): (bool, f64)| Measured {
            outcome: match red {
                true => TrialOutcome::Failed { class: Class::Value, line: String::new(), more: None },
                false => TrialOutcome::Passed,
            },
            used: Some(used),
            floor: None,
            mean: Some(1.0),
            std: None,
            millis: Some(used),
            peak: None,
        };
        TrialChange { spec: "a".into(), trial: "b".into(), before: side(before), now: side(now) }
    }

    #[test]
    fn a_change_is_a_growth_of_what_is_used_and_not_of_time() {
        let grown = change((false, 0.1), (false, 0.4));
        assert!((grown.growth() - 4.0).abs() < 1e-12 && grown.differs() && !grown.is_newly_red());
        assert!(change((false, 0.5), (true, 2.0)).is_newly_red());
        assert!(change((true, 2.0), (false, 0.5)).is_fixed());
        let mut same = change((false, 0.0), (false, 0.0));
        same.now.millis = Some(7.0);
        assert!(!same.differs() && same.growth() == 1.0);
        same.now.mean = Some(2.0);
        assert!(same.differs());
        assert_eq!(change((false, 0.0), (false, 0.5)).growth(), f64::INFINITY);
    }
}
