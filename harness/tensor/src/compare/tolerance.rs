//! The tolerance of a gate, for all dtypes.

use super::bound::IntegerBound;

/// A tolerance for floats and for integers.
#[derive(Debug, Clone)]
pub(super) struct Tolerance {
    pub(super) rtol: f64,
    pub(super) atol: f64,
    pub(super) integers: IntegerBound,
}

impl Tolerance {
    pub(super) fn new(rtol: f64, atol: f64) -> Self {
        Self { rtol, atol, integers: IntegerBound::new(rtol, atol) }
    }

    /// The bound of an element whose golden has this magnitude, with the same two roundings as in numpy.
    #[inline]
    pub(super) fn bound(&self, magnitude: f64) -> f64 {
        self.atol + self.rtol * magnitude
    }

    /// Whether a distance from a golden of this magnitude is inside its bound. A distance or a bound that overflows
    /// float64 is never inside: numpy's `inf <= inf` would let any two numbers agree.
    #[inline]
    pub(super) fn allows(&self, distance: f64, magnitude: f64) -> bool {
        let bound = self.bound(magnitude);
        bound.is_finite() && distance <= bound
    }
}
