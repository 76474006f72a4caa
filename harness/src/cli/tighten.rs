//! The tightest gate that what was measured leaves room for.

use crate::compare::{Difference, Gate};
use crate::record::Record;
use crate::spec::bounds;

/// What a tightened gate allows, over what was measured: other machines round otherwise.
const HEADROOM: f64 = 4.0;

/// The gate of the same kind that an error which uses `used` of `gate` would use a quarter of, or a little less:
/// numbers are rounded up to 1, 2 or 5 times a power of ten. A noise gate never gets below 8.
pub(crate) fn tightest(gate: &Gate, used: f64) -> Gate {
    let scale = HEADROOM * used;
    match gate {
        Gate::Tolerance { rtol, atol, .. } => {
            Gate::Tolerance { rtol: round_up(rtol * scale), atol: round_up(atol * scale), policy: None }
        }
        Gate::Noise { k } => Gate::Noise { k: round_up(k * scale).max(bounds::NOISE) },
    }
}

/// How much of its gate the record used, and how much an error of one unit of rounding would have used: the golden's
/// floor, or the epsilon of its dtype at its largest value if that is more. Nothing without a value gate.
pub(crate) fn use_of(record: &Record) -> Option<Use> {
    let metrics = record.metrics.as_ref()?;
    let difference = metrics.difference.as_ref()?;
    let (used, gate) = (difference.used?, record.gate.as_ref()?);
    let at_floor = match gate {
        Gate::Noise { k } => 1.0 / k,
        Gate::Tolerance { rtol, atol, .. } => {
            let epsilon = record.expected.as_ref()?.dtype.epsilon().unwrap_or(0.0);
            let absmax = metrics.expected.as_ref().map_or(0.0, |golden| golden.absmax).max(0.0);
            let unit = record.floor.map_or(0.0, |floor| floor.max).max(epsilon * absmax);
            // The element that was worst has its own bound; where all were equal, the loosest stands for it.
            match difference.max_abs {
                off if off > 0.0 => used * (unit / off),
                _ if unit == 0.0 => 0.0,
                _ => unit / (atol + rtol * absmax),
            }
        }
    };
    Some(Use { used, at_floor, rounds: rounds(record), times_floor: times_floor(difference) })
}

/// How much of a gate was used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Use {
    /// 1 is the gate's edge.
    pub(crate) used: f64,
    /// What an error of one floor would have used.
    pub(crate) at_floor: f64,
    /// Whether the golden is known to have been rounded when it was computed, so that bits may differ elsewhere.
    pub(crate) rounds: bool,
    /// The error in multiples of the floor, where there is one.
    pub(crate) times_floor: Option<f64>,
}

impl Use {
    /// The larger of each part, for several hits of one line.
    pub(crate) fn worst(self, other: Self) -> Self {
        Self {
            used: self.used.max(other.used),
            at_floor: self.at_floor.max(other.at_floor),
            rounds: self.rounds || other.rounds,
            times_floor: self.times_floor.zip(other.times_floor).map(|(a, b)| a.max(b)),
        }
    }
}

fn rounds(record: &Record) -> bool {
    record.floor.is_some_and(|floor| floor.max > 0.0)
}

fn times_floor(difference: &Difference) -> Option<f64> {
    difference.times_floor.map(|times| times.rms.max(times.max))
}

/// The gate as a spec would have it.
pub(crate) fn written(gate: &Gate) -> String {
    match gate {
        Gate::Tolerance { policy: Some(policy), .. } => format!("policy: {policy}"),
        Gate::Tolerance { rtol, atol, policy: None } => {
            format!("rtol: {}, atol: {}", short(*rtol), short(*atol))
        }
        Gate::Noise { k } => format!("noise: {k}"),
    }
}

fn short(number: f64) -> String {
    if number == 0.0 { "0".to_owned() } else { format!("{number:e}") }
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `value`; 0 stays 0.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return value.max(0.0);
    }
    let exponent = value.log10().floor() as i32;
    // Written and read, since 10^n is not what a product of floats makes of it. A hair below is not below.
    let steps = [(1, exponent), (2, exponent), (5, exponent), (1, exponent + 1)];
    let steps = steps.map(|(digit, exponent)| format!("{digit}e{exponent}").parse().unwrap_or(value));
    steps.into_iter().find(|step| *step >= value * (1.0 - 1e-9)).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_up_to_what_people_write() {
        for (value, expected) in [
            (0.0, 0.0),
            (1e-5, 1e-5),
            (1.0000001e-5, 2e-5),
            (2e-5, 2e-5),
            (3e-5, 5e-5),
            (6e-5, 1e-4),
            (9.9, 10.0),
            (f64::INFINITY, f64::INFINITY),
        ] {
            assert_eq!(round_up(value), expected, "{value}");
        }
    }

    #[test]
    fn a_tightened_gate_leaves_room_of_four() {
        let gate = Gate::Tolerance { rtol: 1e-3, atol: 1e-2, policy: Some("loose".to_owned()) };
        assert_eq!(tightest(&gate, 1e-3), Gate::Tolerance { rtol: 5e-6, atol: 5e-5, policy: None });
        assert_eq!(tightest(&Gate::Noise { k: 1000.0 }, 0.004), Gate::Noise { k: 20.0 });
        assert_eq!(tightest(&Gate::Noise { k: 1000.0 }, 1e-4), Gate::Noise { k: 8.0 });
    }
}
