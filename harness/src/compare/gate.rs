//! What a checkpoint asks of its values.

use serde::{Deserialize, Serialize};

use super::number;

/// How far an actual may be from its golden.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// `|actual - expected| <= atol + rtol * |expected|` for every element, as numpy means it.
    Tolerance {
        /// Relative part, times the expected value.
        #[serde(with = "number")]
        rtol: f64,
        /// Absolute part.
        #[serde(with = "number")]
        atol: f64,
        /// The policy that these numbers came from, when they were not written in the spec itself.
        policy: Option<String>,
    },
    /// Both hold, with the golden's own [`Floor`]:
    /// `rms(actual - expected) <= k * max(floor.rms, 0.1 * eps * rms(expected))` and
    /// `max |actual - expected| <= k * max(floor.max, eps * absmax(expected))`.
    Noise {
        /// Multiples of the floor that are allowed.
        #[serde(with = "number")]
        k: f64,
    },
}

/// How far the reference itself is from a true float64 run of the same computation, over finite elements below 1e30.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// The largest distance of an element.
    #[serde(with = "number")]
    pub max: f64,
    /// The root mean square of the distances.
    #[serde(with = "number")]
    pub rms: f64,
}

/// Everything that one comparison is judged by, besides the golden itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rule {
    /// The value gate; without one, only shape, dtype, finiteness and range are looked at.
    pub gate: Option<Gate>,
    /// The floor that a noise gate needs.
    pub floor: Option<Floor>,
    /// Whether a NaN agrees with a NaN.
    pub nan_equal: bool,
    /// Smallest and largest value that the actual may hold.
    pub range: Option<(f64, f64)>,
}
