//! What there is to explain, and what it can be explained with.

use super::budget::Budget;
use super::field::Field;
use super::residual::Bar;
use crate::compare::Rule;
use crate::tensor::{Dtype, Tensor, TensorView};

/// A longer tensor is sampled.
const MOST: usize = 1 << 20;
/// A sample is so many runs of so many neighbouring elements: a page of memory each.
const RUNS: usize = 256;
const RUN: usize = 1 << 10;
/// Elements of a magnitude that only fill values have.
pub(super) const HUGE: f64 = 1e30;

/// A failing checkpoint with what surrounds it.
pub struct Scene<'a> {
    /// The checkpoint's name, as goldens have it.
    pub name: &'a str,
    /// The golden, as the port has it.
    pub expected: TensorView<'a>,
    /// What the port produced, from golden inputs if other tensors are to explain it.
    pub actual: TensorView<'a>,
    /// The checkpoint's gate and floor.
    pub rule: &'a Rule,
    /// The other tensors that are known.
    pub others: &'a dyn Others,
    /// How much may be looked at.
    pub budget: &'a Budget,
}

/// A tensor beside the failing one.
#[derive(Debug, Clone, PartialEq)]
pub struct Other {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// Its shape, as the port has it.
    pub shape: Vec<usize>,
}

impl Other {
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The shape that its [`Field`] has.
    pub(super) fn field_shape(&self) -> Vec<usize> {
        let mut shape = self.shape.clone();
        shape.extend((self.dtype == Dtype::Complex64).then_some(2));
        shape
    }
}

/// The tensors beside the failing one, read only when they are looked at.
pub trait Others {
    /// Goldens that the reference makes before this one, nearest first, then the inputs.
    fn before(&self) -> &[Other];
    /// Goldens that the reference makes after this one, nearest first.
    fn after(&self) -> &[Other];
    /// Weights.
    fn weights(&self) -> &[Other];
    /// The values of one of these, as the port has them.
    fn tensor(&self, other: &Other) -> Option<Tensor>;
    /// How many elements have to be copied for that, beside those that are then looked at.
    fn work(&self, _: &Other) -> usize {
        0
    }
}

/// No other tensors.
pub struct Alone;

impl Others for Alone {
    fn before(&self) -> &[Other] {
        &[]
    }

    fn after(&self) -> &[Other] {
        &[]
    }

    fn weights(&self) -> &[Other] {
        &[]
    }

    fn tensor(&self, _: &Other) -> Option<Tensor> {
        None
    }
}

/// A pair of equally many elements, with the sample that explanations are tried on.
pub(super) struct Pair<'a> {
    pub(super) expected: Field<'a>,
    pub(super) actual: Field<'a>,
    /// Row-major positions of the sample, ascending.
    pub(super) positions: Vec<usize>,
    /// The golden at each of them.
    pub(super) e: Vec<f64>,
    /// The actual at each of them.
    pub(super) a: Vec<f64>,
    pub(super) bar: Bar,
    pub(super) budget: &'a Budget,
    /// Whether the tensors themselves have the same shape: a complex one is not its real parts and the others.
    alike: bool,
}

impl<'a> Pair<'a> {
    pub(super) fn new(scene: &Scene<'a>) -> Self {
        let (expected, actual) = (Field::new(&scene.expected), Field::new(&scene.actual));
        let positions = positions(actual.len());
        let e: Vec<f64> = match expected.len() == actual.len() {
            true => positions.iter().map(|&position| expected.at(position)).collect(),
            false => Vec::new(),
        };
        let a: Vec<f64> = positions.iter().map(|&position| actual.at(position)).collect();
        let bar = Bar::new(scene.rule, expected.dtype(), &e, &a);
        let alike = scene.expected.shape() == scene.actual.shape();
        Self { expected, actual, positions, e, a, bar, budget: scene.budget, alike }
    }

    /// The same pair, looked at in these positions.
    pub(super) fn at(&self, positions: Vec<usize>) -> Self {
        let of = |field: &Field| positions.iter().map(|&position| field.at(position)).collect();
        let (e, a) = (of(&self.expected), of(&self.actual));
        let (expected, actual) = (self.expected.clone(), self.actual.clone());
        let (bar, budget, alike) = (self.bar.clone(), self.budget, self.alike);
        Self { expected, actual, positions, e, a, bar, budget, alike }
    }

    /// How many elements are looked at, where it is not all of them.
    pub(super) fn sampled(&self) -> Option<u64> {
        (self.positions.len() < self.actual.len()).then_some(self.positions.len() as u64)
    }

    /// Whether golden and actual have the same shape, so that position for position they are the same element.
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
            bar: self.bar.clone(),
            budget: self.budget,
            alike: self.alike,
        }
    }

    /// Whether both sides of a sampled pair are finite and no fill values.
    pub(super) fn is_plain(&self, index: usize) -> bool {
        plain(self.e[index]) && plain(self.a[index])
    }
}

pub(super) fn plain(x: f64) -> bool {
    x.abs() < HUGE
}

/// All positions, or [`RUNS`] runs: one from each of equally long stretches, somewhere in it, so that a period of the data
/// cannot hide.
fn positions(len: usize) -> Vec<usize> {
    if len <= MOST {
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
