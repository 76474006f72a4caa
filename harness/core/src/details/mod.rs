//! What a report shows of one red checkpoint beyond its record: where in the tensor the error is, how large it is how
//! often, the first values, and the lines of source around it.
//!
//! The worker computes details where the golden and the actual are at hand, and only for red checkpoints. The size of a
//! file of details does not grow with the tensor.

mod excerpt;
mod heat_map;
mod histogram;

use serde::{Deserialize, Serialize};

pub use excerpt::{Excerpt, Sources};
pub use heat_map::HeatMap;
pub use histogram::Histogram;

use crate::number::ElementValue;
use crate::tensor::{Float64View, TensorView};

/// How many elements are read at most. Of a larger tensor, evenly spread elements are read.
const MOST_READ: usize = 1 << 20;
/// The same for [`ErrorDetails::of_fewer`].
const FEWER_READ: usize = 1 << 16;
/// How many first values are kept.
const FIRST: usize = 32;

/// The details of one red hit of a checkpoint, `<spec>/details/<checkpoint>.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// The error, element by element; absent when shapes or dtypes differ, or without an expected tensor.
    #[serde(default)]
    pub error: Option<ErrorDetails>,
    /// The lines around the tap in the port.
    #[serde(default)]
    pub port: Option<Excerpt>,
    /// The lines of the reference that made the golden, or that the cause is about.
    #[serde(default)]
    pub reference: Option<Excerpt>,
}

/// The error of a pair of tensors with the same shape. A complex tensor has one more axis here, of length two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetails {
    /// How many elements were read, if not all were.
    pub sampled: Option<u64>,
    /// How often the error has which size.
    pub histogram: Histogram,
    /// The error by the two axes along which it varies most; absent for a scalar.
    pub heat_map: Option<HeatMap>,
    /// The first values of the expected tensor, in row-major order.
    pub first_expected: Vec<ElementValue>,
    /// The first values of the actual.
    pub first_actual: Vec<ElementValue>,
}

impl ErrorDetails {
    /// Returns the details of the error; `None` if the shapes differ or the tensors are empty.
    pub fn of(expected: &TensorView<'_>, actual: &TensorView<'_>) -> Option<Self> {
        Self::of_at_most(MOST_READ, expected, actual)
    }

    /// As [`of`](Self::of), from fewer elements of a large tensor: details of many failures must not take longer than the run.
    pub fn of_fewer(expected: &TensorView<'_>, actual: &TensorView<'_>) -> Option<Self> {
        Self::of_at_most(FEWER_READ, expected, actual)
    }

    fn of_at_most(most: usize, expected: &TensorView<'_>, actual: &TensorView<'_>) -> Option<Self> {
        let pair = PairView::new(expected, actual, most)?;
        let first = |view: &Float64View<'_>| {
            (0..view.len().min(FIRST)).map(|at| ElementValue::Float(view.at(at))).collect()
        };
        Some(Self {
            sampled: (pair.step > 1).then(|| pair.positions().count() as u64),
            histogram: Histogram::of(&pair),
            heat_map: HeatMap::of(&pair),
            first_expected: first(&pair.expected),
            first_actual: first(&pair.actual),
        })
    }
}

/// Two tensors of the same shape, and the positions that are read.
struct PairView<'a> {
    expected: Float64View<'a>,
    actual: Float64View<'a>,
    /// From one position that is read to the next. It shares no factor with any axis, so every index of each axis is read.
    step: usize,
}

impl<'a> PairView<'a> {
    fn new(expected: &TensorView<'a>, actual: &TensorView<'a>, most: usize) -> Option<Self> {
        let (expected, actual) = (Float64View::new(expected), Float64View::new(actual));
        if expected.shape() != actual.shape() || expected.is_empty() {
            return None;
        }
        let mut step = expected.len().div_ceil(most);
        while step > 1 && expected.shape().iter().any(|&length| gcd(step, length) > 1) {
            step += 1;
        }
        Some(Self { expected, actual, step })
    }

    fn shape(&self) -> &[usize] {
        self.expected.shape()
    }

    fn positions(&self) -> impl Iterator<Item = usize> {
        (0..self.expected.len()).step_by(self.step)
    }

    /// The distance at a position: 0 for two NaN or the same infinity, infinite if only one side is finite.
    fn distance(&self, position: usize) -> f64 {
        let (expected, actual) = (self.expected.at(position), self.actual.at(position));
        match (actual - expected).abs() {
            _ if expected == actual || expected.is_nan() && actual.is_nan() => 0.0,
            distance if distance.is_nan() => f64::INFINITY,
            distance => distance,
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Dtype, Tensor};

    pub(super) fn tensor(shape: &[usize], value: impl Fn(usize) -> f32) -> Tensor {
        let count = shape.iter().product();
        let bytes = (0..count).flat_map(|at| value(at).to_le_bytes()).collect();
        Tensor::from_vec(Dtype::Float32, shape.to_vec(), bytes).unwrap()
    }

    #[test]
    fn details_say_where_and_how_large_the_error_is() {
        let golden = tensor(&[4, 8], |at| at as f32);
        let actual = tensor(&[4, 8], |at| if at % 8 == 3 { at as f32 + 0.5 } else { at as f32 });
        let details = ErrorDetails::of(&golden.view(), &actual.view()).unwrap();
        assert_eq!(details.sampled, None);
        assert_eq!((details.histogram.equal, details.histogram.not_finite), (28, 0));
        assert_eq!(details.first_actual[3], ElementValue::Float(3.5));
        let line = serde_json::to_string(&details).unwrap();
        assert_eq!(serde_json::from_str::<ErrorDetails>(&line).unwrap(), details);
        assert!(ErrorDetails::of(&golden.view(), &tensor(&[8, 4], |_| 0.0).view()).is_none());
        let empty = tensor(&[0, 4], |_| 0.0);
        assert!(ErrorDetails::of(&empty.view(), &empty.view()).is_none());
    }

    #[test]
    fn a_large_tensor_is_sampled_at_every_index_of_each_axis() {
        let golden = tensor(&[3, 1024, 1024], |_| 1.0);
        let pair = PairView::new(&golden.view(), &golden.view(), MOST_READ).unwrap();
        assert!(pair.step > 3 && pair.positions().count() <= MOST_READ, "{}", pair.step);
        let mut seen = [false; 1024];
        pair.positions().for_each(|position| seen[position % 1024] = true);
        assert!(seen.iter().all(|seen| *seen));
        let fewer = ErrorDetails::of_fewer(&golden.view(), &golden.view()).unwrap();
        assert!(fewer.sampled.is_some_and(|sampled| sampled <= FEWER_READ as u64), "{:?}", fewer.sampled);
    }

    #[test]
    fn what_is_not_finite_on_one_side_is_infinitely_far() {
        let golden = tensor(&[3], |at| [f32::NAN, f32::INFINITY, 1.0][at]);
        let actual = tensor(&[3], |at| [f32::NAN, f32::INFINITY, f32::NAN][at]);
        let pair = PairView::new(&golden.view(), &actual.view(), MOST_READ).unwrap();
        assert_eq!(
            pair.positions().map(|at| pair.distance(at)).collect::<Vec<_>>(),
            [0.0, 0.0, f64::INFINITY]
        );
        assert_eq!(Histogram::of(&pair).not_finite, 1);
    }
}
