//! Two views become what was measured and whether one may stand for the other.

mod gate;

pub use gate::{Floor, Gate, Rule};
