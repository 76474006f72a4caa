//! The value gate of a checkpoint, and the rest of the rule that a comparison applies.

use serde::{Deserialize, Serialize};

use crate::number;

/// How far an actual may be from its golden.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// `|actual - expected| <= atol + rtol * |expected|` for every element, as in numpy's `allclose`.
    Tolerance {
        /// Relative part, multiplied by the expected value.
        #[serde(with = "number")]
        rtol: f64,
        /// Absolute part.
        #[serde(with = "number")]
        atol: f64,
        /// The policy that the numbers come from; `None` when the spec itself states them.
        policy: Option<String>,
    },
    /// Both of these hold, with the golden's own [`Floor`]:
    /// `rms(actual - expected) <= k * max(floor.rms, 0.1 * eps * rms(expected))` and
    /// `max |actual - expected| <= k * max(floor.max, eps * absmax(expected))`.
    Noise {
        /// How many multiples of the floor are allowed.
        #[serde(with = "number")]
        k: f64,
    },
}

/// How far the reference is from a float64 run of the same computation, over finite elements below 1e30.
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

/// Everything that decides a comparison, besides the golden itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rule {
    /// The value gate; without one, only shape, dtype, finiteness and range are checked.
    pub gate: Option<Gate>,
    /// The floor that a noise gate needs.
    pub floor: Option<Floor>,
    /// Whether a NaN agrees with a NaN.
    pub nan_equal: bool,
    /// Smallest and largest value that the actual may hold.
    pub range: Option<(f64, f64)>,
    /// Whether a systematic error inside a noise gate fails. Without this it is measured only: false alarms were counted
    /// on CPUs, not on GPUs.
    pub judge_systematic: bool,
}
