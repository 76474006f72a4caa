//! Comparing choices: probabilities, the ids with the highest scores, sets of ids, and text.
//!
//! A right port rounds differently, so where two scores are nearly equal it may choose the other one. Such a *tie* is no
//! mistake, and any other difference of ids is one, however small the distance between the ids is.

mod distribution;
mod id_places;
mod ids;
mod readable;
mod scores;

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

pub use distribution::TopRows;
pub use id_places::IdPlaces;
pub use scores::Scores;

use crate::gate::{Class, Gate};
use crate::number::{self, Short};
use crate::tensor::TensorView;

/// Rows that are described one by one.
const SHOWN: usize = 5;

/// How far the choices of golden and actual agree; only under a gate for choices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// Rows, which are positions of a text or tokens of a router.
    pub rows: u64,
    /// Rows with the golden's choice: the same most probable id, or the same ids in any order.
    pub equal: u64,
    /// Equal rows whose ids are in another order.
    pub reordered: u64,
    /// Rows with another choice that is tied with the golden's.
    pub ties: u64,
    /// Rows with another choice that is not tied.
    pub decided: u64,
    /// Rows in which the reference's own scores are so near that another choice could be a tie.
    pub near: u64,
    /// The Kullback-Leibler divergence of the rows, for logits and for ids whose logits were compared before.
    pub divergence: Option<Divergence>,
    /// The mean share of the most probable ids that golden and actual have in common; only with `topk`.
    #[serde(with = "number::option")]
    pub overlap: Option<f64>,
    /// At most five rows with another choice, those that are not tied first.
    pub other: Vec<OtherChoice>,
}

/// The Kullback-Leibler divergence from golden to actual over the rows, in nats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// The mean.
    #[serde(with = "number")]
    pub mean: f64,
    /// The smallest divergence that 99 % of the rows do not exceed.
    #[serde(with = "number")]
    pub p99: f64,
    /// The largest.
    #[serde(with = "number")]
    pub max: f64,
}

/// A row with another choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OtherChoice {
    /// The index of the row along each axis before the last, or of the id.
    pub index: Vec<usize>,
    /// The golden's id, or the golden's ids that the actual does not choose.
    pub expected: Vec<i64>,
    /// The actual's id, or the actual's ids that the golden does not choose.
    pub actual: Vec<i64>,
    /// How far the scores of these ids are apart, in units of the reference's rounding; `None` without scores.
    #[serde(with = "number::option")]
    pub apart: Option<f64>,
    /// Whether that is a tie.
    pub tie: bool,
}

/// What a choice is judged by, besides golden and actual.
#[derive(Debug, Clone, Default)]
pub struct Beside<'a> {
    /// The scores that the reference chose from.
    pub scores: Option<Scores<'a>>,
    /// The divergence of these scores, if they were compared before.
    pub divergence: Option<Divergence>,
}

/// What the comparison of choices found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) choices: Option<Choices>,
    /// The used part of the gate.
    pub(super) used: Option<f64>,
    /// Elements outside the gate.
    pub(super) mismatched: Option<u64>,
    pub(super) fault: Option<(Class, String)>,
    /// What is said without a fault.
    pub(super) agreement: String,
}

impl Found {
    fn failed(class: Class, text: impl Into<String>) -> Self {
        Self { fault: Some((class, text.into())), ..Self::default() }
    }
}

/// Compares the choices of two tensors of the same shape and dtype; `None` for a gate that compares elements.
pub(super) fn find(
    threads: NonZeroUsize,
    expected: &TensorView<'_>,
    actual: &TensorView<'_>,
    gate: &Gate,
    beside: &Beside<'_>,
) -> Option<Found> {
    match gate {
        Gate::Tolerance { .. } | Gate::Noise { .. } => None,
        Gate::Distribution(limits) => Some(distribution::whole(threads, expected, actual, limits)),
        Gate::Tokens { ties } => Some(ids::tokens(expected, actual, *ties, beside)),
        Gate::Set { ties } => Some(ids::sets(expected, actual, *ties, beside)),
        Gate::Text => Some(readable::text(expected, actual)),
    }
}

/// Compares the probabilities of all ids with a golden that has the most probable ones only.
pub(super) fn find_top(
    threads: NonZeroUsize,
    golden: &TopRows<'_>,
    actual: &TensorView<'_>,
    limits: &crate::gate::DistributionLimits,
) -> Found {
    distribution::top(threads, golden, actual, limits)
}

/// Whether lengths of two texts may differ: [`Gate::Text`] names the first difference instead.
pub(super) fn is_text_of_another_length(gate: Option<&Gate>, expected: &[usize], actual: &[usize]) -> bool {
    const READABLE: usize = 16 << 20;
    gate == Some(&Gate::Text)
        && matches!((expected, actual), ([expected], [actual]) if expected.max(actual) <= &READABLE)
}

/// The index of a row along the given axes.
fn index_of(shape: &[usize], row: usize) -> Vec<usize> {
    let (mut rest, mut index) = (row, vec![0; shape.len()]);
    for (at, &length) in index.iter_mut().zip(shape).rev() {
        *at = rest % length.max(1);
        rest /= length.max(1);
    }
    index
}

/// A number with two digits, as in `2e-6`, `9.1e-6` and `4`.
fn brief(x: f64) -> String {
    Short(format!("{x:.1e}").parse().unwrap_or(x)).to_string()
}

/// A count with its noun.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl Divergence {
    /// `None` without a row.
    fn of(rows: &[f64]) -> Option<Self> {
        let mut sorted = rows.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (0.99 * sorted.len() as f64).ceil() as usize;
        let mean = rows.iter().sum::<f64>() / rows.len().max(1) as f64;
        Some(Self { mean, p99: *sorted.get(rank.saturating_sub(1))?, max: *sorted.last()? })
    }

    /// `KL mean 2e-6, p99 9e-6, max 1e-5`.
    fn text(&self) -> String {
        format!("KL mean {}, p99 {}, max {}", brief(self.mean), brief(self.p99), brief(self.max))
    }
}

impl OtherChoice {
    /// The row in words: `[0, 17]: expected 12, actual 7, whose scores are 41 floors apart`.
    pub fn text(&self) -> String {
        let list = |ids: &[i64]| ids.iter().map(i64::to_string).collect::<Vec<_>>().join(" and ");
        let mut text =
            format!("{:?}: expected {}, actual {}", self.index, list(&self.expected), list(&self.actual));
        match (self.apart, self.tie) {
            (Some(apart), tie) if apart.is_finite() => {
                let tie = if tie { ", a tie" } else { "" };
                text += &format!(", {} floors apart in the reference's scores{tie}", brief(apart));
            }
            (Some(_), _) => text += ", which is far from the reference's best",
            (None, _) => {}
        }
        text
    }
}
