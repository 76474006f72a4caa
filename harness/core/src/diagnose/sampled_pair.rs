//! Golden and actual of a failing checkpoint, with the sample that explanations are tried on.

use super::FailingCheckpoint;
use super::budget::Budget;
use super::numbers::plain;
use super::residual_bound::Bound;
use crate::tensor::Float64View;

/// A tensor with more elements than this is sampled.
const MOST: usize = 1 << 20;
/// A sample has this many runs of neighbouring elements, each a page of memory long.
const RUNS: usize = 256;
const RUN: usize = 1 << 10;

/// Golden and actual, read at sampled positions.
pub(super) struct SampledPair<'a> {
    pub(super) expected: Float64View<'a>,
    pub(super) actual: Float64View<'a>,
    /// Row-major positions of the sample, ascending.
    pub(super) positions: Vec<usize>,
    /// The golden at each position; empty if golden and actual have different numbers of elements.
    pub(super) e: Vec<f64>,
    /// The actual at each position.
    pub(super) a: Vec<f64>,
    pub(super) bound: Bound,
    pub(super) budget: &'a Budget,
    /// Whether the tensors have the same shape before a complex one gets its additional axis.
    alike: bool,
}

impl<'a> SampledPair<'a> {
    pub(super) fn new(checkpoint: &FailingCheckpoint<'a>) -> Self {
        let (expected, actual) =
            (Float64View::new(&checkpoint.expected), Float64View::new(&checkpoint.actual));
        let positions = positions(actual.len());
        let e: Vec<f64> = match expected.len() == actual.len() {
            true => positions.iter().map(|&position| expected.at(position)).collect(),
            false => Vec::new(),
        };
        let a: Vec<f64> = positions.iter().map(|&position| actual.at(position)).collect();
        let bound = Bound::new(checkpoint.rule, expected.dtype(), &e, &a);
        let alike = checkpoint.expected.shape() == checkpoint.actual.shape();
        Self { expected, actual, positions, e, a, bound, budget: checkpoint.budget, alike }
    }

    /// The same pair, sampled at these positions.
    pub(super) fn at(&self, positions: Vec<usize>) -> Self {
        let of = |numbers: &Float64View| positions.iter().map(|&position| numbers.at(position)).collect();
        let (e, a) = (of(&self.expected), of(&self.actual));
        let (expected, actual) = (self.expected.clone(), self.actual.clone());
        let (bound, budget, alike) = (self.bound.clone(), self.budget, self.alike);
        Self { expected, actual, positions, e, a, bound, budget, alike }
    }

    /// How many elements are sampled, if not all are.
    pub(super) fn sampled(&self) -> Option<u64> {
        (self.positions.len() < self.actual.len()).then_some(self.positions.len() as u64)
    }

    /// The index along an axis of the sampled element with the largest error. An element that is not finite on one side
    /// counts as the largest.
    pub(super) fn worst_index(&self, axis: usize) -> usize {
        let error = |index: &usize| match self.e.get(*index).map(|e| (self.a[*index] - e).abs()) {
            Some(error) if error.is_nan() => f64::INFINITY,
            Some(error) => error,
            None => 0.0,
        };
        let worst = (0..self.positions.len()).max_by(|a, b| error(a).total_cmp(&error(b)));
        let after: usize = self.shape().iter().skip(axis + 1).product();
        let length = self.shape().get(axis).copied().unwrap_or(1);
        worst.map_or(0, |worst| self.positions[worst] / after.max(1) % length.max(1))
    }

    /// Whether golden and actual have the same shape, so that equal positions are the same element.
    pub(super) fn same_shape(&self) -> bool {
        self.alike && self.expected.shape() == self.actual.shape()
    }

    /// Lengths of the axes.
    pub(super) fn shape(&self) -> &[usize] {
        self.actual.shape()
    }

    /// Golden and actual exchanged.
    pub(super) fn mirrored_pair(&self) -> Self {
        Self {
            expected: self.actual.clone(),
            actual: self.expected.clone(),
            positions: self.positions.clone(),
            e: self.a.clone(),
            a: self.e.clone(),
            bound: self.bound.clone(),
            budget: self.budget,
            alike: self.alike,
        }
    }

    /// Whether golden and actual are finite and no fill values at this sampled index.
    pub(super) fn is_plain(&self, index: usize) -> bool {
        plain(self.e[index]) && plain(self.a[index])
    }
}

/// Whether a tensor of this many elements is sampled.
pub(super) fn is_sampled(len: usize) -> bool {
    len > MOST
}

/// All positions of a small tensor, or [`RUNS`] runs of a large one.
///
/// The tensor is cut into equally long stretches with one run each, at a pseudo-random place in it: runs at equal
/// distances would miss an error with the same period.
fn positions(len: usize) -> Vec<usize> {
    if !is_sampled(len) {
        return (0..len).collect();
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..RUNS)
        .flat_map(|run| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (start, end) = (run * (len / RUNS), (run + 1) * (len / RUNS));
            let first = start + (state % (end - start - RUN) as u64) as usize;
            first..first + RUN
        })
        .collect()
}
