//! A tensor that is rotated pair by pair. Each pair of features is a complex number, and each rotation a unit one.

use num_complex::Complex64;

use super::super::residual::Prediction;
use super::super::sampled_pair::SampledPair;
use crate::tensor::{Float64View, row_major};

/// Rows that angles are averaged over.
const ROWS: usize = 128;

/// Which features form a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pairing {
    /// Feature `f` with feature `f + width / 2`.
    Halves,
    /// Feature `2 f` with feature `2 f + 1`.
    Interleaved,
}

impl Pairing {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Halves => "halves",
            Self::Interleaved => "interleaved pairs",
        }
    }

    /// The features of pair `f`.
    fn features(self, f: usize, width: usize) -> (usize, usize) {
        match self {
            Self::Halves => (f, f + width / 2),
            Self::Interleaved => (2 * f, 2 * f + 1),
        }
    }

    /// The pair of a feature, and whether the feature is the second of it.
    pub(super) fn pair(self, feature: usize, width: usize) -> (usize, bool) {
        match self {
            Self::Halves => (feature % (width / 2), feature >= width / 2),
            Self::Interleaved => (feature / 2, feature % 2 == 1),
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Halves => Self::Interleaved,
            Self::Interleaved => Self::Halves,
        }
    }
}

/// Position in the input at which a given row of the golden begins.
pub(super) type RowStart<'p> = Box<dyn Fn(usize) -> usize + 'p>;

/// Golden, actual and input of a rotation, by rows of features.
pub(super) struct Rotation<'p, 'a, 'f> {
    pub(super) pair: &'p SampledPair<'a>,
    pub(super) x: &'p Float64View<'f>,
    pub(super) start: RowStart<'p>,
    pub(super) width: usize,
}

impl Rotation<'_, '_, '_> {
    /// Pair `f` of the input.
    pub(super) fn input(&self, row: usize, pairing: Pairing, f: usize) -> Complex64 {
        self.at(self.x, (self.start)(row), pairing, f)
    }

    /// Pair `f` of the actual.
    pub(super) fn actual(&self, row: usize, pairing: Pairing, f: usize) -> Complex64 {
        self.at(&self.pair.actual, row * self.width, pairing, f)
    }

    fn golden(&self, row: usize, pairing: Pairing, f: usize) -> Complex64 {
        self.at(&self.pair.expected, row * self.width, pairing, f)
    }

    fn at(&self, numbers: &Float64View, start: usize, pairing: Pairing, f: usize) -> Complex64 {
        let (one, two) = pairing.features(f, self.width);
        Complex64::new(numbers.at(start + one), numbers.at(start + two))
    }

    /// The unit number that rotates the input's pair into the golden's.
    pub(super) fn turn(&self, row: usize, pairing: Pairing, f: usize) -> Complex64 {
        unit(self.golden(row, pairing, f) * self.input(row, pairing, f).conj())
    }

    fn rows(&self) -> usize {
        self.pair.actual.len() / self.width
    }

    /// Every pair of some rows, which are spread over the tensor.
    pub(super) fn some_pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let step = self.rows().div_ceil(ROWS);
        (0..self.rows()).step_by(step).flat_map(|row| (0..self.width / 2).map(move |f| (row, f)))
    }

    /// Whether the golden is a rotation of the input: pairs keep their length, and some do move.
    pub(super) fn is_golden(&self, pairing: Pairing) -> bool {
        let (mut gap, mut moved, mut size) = (0.0, 0.0, 0.0);
        for (row, f) in self.some_pairs() {
            let (x, e) = (self.input(row, pairing, f), self.golden(row, pairing, f));
            gap += (e.norm_sqr() - x.norm_sqr()).powi(2);
            moved += (e - x).norm_sqr();
            size += x.norm_sqr().powi(2);
        }
        let tolerance = (4.0 * self.pair.bound.eps()).clamp(1e-5, 3e-2);
        gap <= size * tolerance.powi(2) && moved > size.sqrt() * tolerance
    }

    /// Predicts a sampled element of the input rotated by `turn`, which may have no answer for a pair.
    pub(super) fn predicted(
        &self,
        index: usize,
        pairing: Pairing,
        turn: impl Fn(usize, usize) -> Option<Complex64>,
    ) -> Prediction {
        let position = self.pair.positions[index];
        let (row, feature) = (position / self.width, position % self.width);
        let (f, second) = pairing.pair(feature, self.width);
        match turn(row, f) {
            Some(turn) => {
                let rotated = self.input(row, pairing, f) * turn;
                Prediction::Value(if second { rotated.im } else { rotated.re })
            }
            None => Prediction::Silent,
        }
    }

    /// The row that is `step` further along `axis`, if it exists.
    pub(super) fn along(&self, row: usize, axis: usize, step: isize) -> Option<usize> {
        self.moved(row, axis, self.index(row, axis).checked_add_signed(step)?)
    }

    /// The index of a row along an axis.
    pub(super) fn index(&self, row: usize, axis: usize) -> usize {
        row / row_major(self.row_shape())[axis] % self.row_shape()[axis]
    }

    /// The row with another index along an axis, if it exists.
    pub(super) fn moved(&self, row: usize, axis: usize, index: usize) -> Option<usize> {
        let stride = row_major(self.row_shape())[axis];
        (index < self.row_shape()[axis]).then(|| row - self.index(row, axis) * stride + index * stride)
    }

    /// The golden's shape without the features.
    pub(super) fn row_shape(&self) -> &[usize] {
        let shape = self.pair.shape();
        &shape[..shape.len() - 1]
    }
}

/// The number of length one with the same angle; 1 for zero.
pub(super) fn unit(z: Complex64) -> Complex64 {
    let size = z.norm_sqr().sqrt();
    if size > 0.0 { z / size } else { Complex64::ONE }
}
