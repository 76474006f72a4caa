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
    /// Each row of the last axis holds logits, and the probabilities that they stand for are compared.
    Distribution(DistributionLimits),
    /// Integer ids, each the choice with the highest score. An id may differ from the golden only in a *tie*: both scores
    /// of the reference are within `ties` units, see [`Scores::unit`](crate::compare::Scores::unit).
    Tokens {
        /// How many units two tied scores may be apart.
        #[serde(with = "number")]
        ties: f64,
    },
    /// Each row of the last axis is a set of integer ids, in any order. The exchanged ids of a row must be tied as in
    /// [`Gate::Tokens`].
    Set {
        /// How many units tied scores may be apart; without it, no id may differ.
        #[serde(with = "number::option")]
        ties: Option<f64>,
    },
    /// Integer ids, or UTF-8 text as uint8: every element must be equal.
    Text,
}

/// What the probabilities of a port may differ by. At least one limit is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DistributionLimits {
    /// The largest mean over all rows of the Kullback-Leibler divergence from golden to actual, in nats.
    #[serde(with = "number::option")]
    pub kl_mean: Option<f64>,
    /// The largest divergence of 99 % of the rows.
    #[serde(with = "number::option")]
    pub kl_p99: Option<f64>,
    /// The largest divergence of any row.
    #[serde(with = "number::option")]
    pub kl_max: Option<f64>,
    /// The smallest share of rows whose most probable id is the golden's.
    #[serde(with = "number::option")]
    pub top1: Option<f64>,
    /// The smallest mean overlap of the most probable ids.
    pub topk: Option<TopK>,
    /// How many ids the golden has per row; `None` when the golden is the logits of all ids.
    pub top: Option<u32>,
}

/// The required overlap of the `k` most probable ids.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TopK {
    /// How many ids per row are compared.
    pub k: u32,
    /// The smallest mean share of them that golden and actual have in common.
    #[serde(with = "number")]
    pub overlap: f64,
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
    /// Whether the floor is of one block of the reference alone. Verdicts name it so; they are judged alike.
    pub is_local: bool,
    /// Whether a NaN agrees with a NaN.
    pub nan_equal: bool,
    /// Smallest and largest value that the actual may hold.
    pub range: Option<(f64, f64)>,
    /// Whether a systematic error inside a noise gate fails. Without this it is measured only: false alarms were counted
    /// on CPUs, not on GPUs.
    pub judge_systematic: bool,
}
