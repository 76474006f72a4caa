//! The tightest gate that leaves room for the measured error.

use mlx_parity_core::compare::Difference;
use mlx_parity_core::gate::{Gate, USUAL_NOISE};
use mlx_parity_core::record::Record;

/// How many times the measured error a tightened gate allows, since other machines round differently.
const HEADROOM: f64 = 4.0;

/// Returns the gate of the same kind that allows four times an error that uses `used` of `gate`.
///
/// Numbers are rounded up to 1, 2 or 5 times a power of ten. A noise gate never gets below 8.
pub(crate) fn tightest(gate: &Gate, used: f64) -> Gate {
    gate.scaled(HEADROOM * used, round_up)
}

/// Returns how much of its gate the record used, and how much an error of one unit of rounding would use. That unit is the
/// golden's floor, or the epsilon of its dtype at its largest value if that is more. Returns nothing without a value gate.
pub(crate) fn use_of(record: &Record) -> Option<Use> {
    let metrics = record.metrics.as_ref()?;
    let difference = metrics.difference.as_ref()?;
    let (used, gate) = (difference.used?, record.gate.as_ref()?);
    let at_floor = match gate {
        Gate::Noise { k } => 1.0 / k,
        // An error of `x` in every logit changes the divergence by at most half the square of `x`.
        Gate::Distribution(limits) => {
            let error = USUAL_NOISE * record.floor.map_or(0.0, |floor| floor.max);
            let limits = limits.divergences().into_iter().filter_map(|(_, limit)| limit);
            0.5 * error * error / limits.fold(f64::INFINITY, f64::min)
        }
        // No error of the ids themselves is measured.
        Gate::Tokens { .. } | Gate::Set { .. } | Gate::Text => return None,
        Gate::Tolerance { rtol, atol, .. } => {
            let epsilon = record.expected.as_ref()?.dtype.epsilon().unwrap_or(0.0);
            let absmax = metrics.expected.as_ref().map_or(0.0, |golden| golden.absmax).max(0.0);
            let unit = record.floor.map_or(0.0, |floor| floor.max).max(epsilon * absmax);
            // The worst element has its own bound. Where all elements are equal, the loosest bound is taken.
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
    /// Share of the gate that the error took; 1 is the gate's edge.
    pub(crate) used: f64,
    /// Share of the gate that an error of one floor would take.
    pub(crate) at_floor: f64,
    /// Whether the golden has a floor above zero: its computation rounds, so other machines may give other bits.
    pub(crate) rounds: bool,
    /// Error in multiples of the floor, if the golden has one.
    pub(crate) times_floor: Option<f64>,
}

impl Use {
    /// Returns the larger of each part, for several hits of one checkpoint.
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

/// Returns the smallest of 1, 2 and 5 times a power of ten that is not below `value`; 0 stays 0.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return value.max(0.0);
    }
    let exponent = value.log10().floor() as i32;
    // Parsed from text, since a product of floats is not exactly 10^n. A step that is smaller by rounding only is taken.
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
