//! Two views become what was measured and whether one may stand for the other.
//!
//! [`compare`] reads both tensors once, on all cores, in two tiers: whole blocks of ordinary floats go through
//! vector code, everything else is looked at element by element. Results do not depend on the number of threads.

mod bits;
mod bound;
mod element;
mod extremes;
mod floor;
mod gate;
mod kernel;
mod lanes;
mod metrics;
pub(crate) mod number;
mod outcome;
mod plain;
mod runs;
mod spread;
mod sum;
mod tally;
mod totals;
mod verdict;
mod walk;
mod widen;

use std::num::NonZeroUsize;
use std::sync::LazyLock;

pub use gate::{Floor, Gate, Rule};
pub use metrics::{Difference, Metrics, Quantiles, Stats, TimesFloor, Worst};
pub use number::Value;
pub use outcome::Outcome;

use crate::tensor::{Dtype, TensorView};

/// Elements in a block: enough that what is done once a block does not count, few enough to stay in a small cache.
const BLOCK: usize = 4096;
/// Elements at or above this magnitude are fill values (a mask's `-3.4e38`): sums, means and floors leave them out.
const HUGE: f64 = 1e30;
/// Added to `|expected|` before a relative distance divides by it.
const REL_GUARD: f64 = 1e-8;
/// How many elements from the beginning are shown.
const FIRST: usize = 10;

/// Returns what was measured and whether `actual` may stand for `expected`.
///
/// Checks go shape, dtype, finite, untestable, value, range; the first that does not hold names the class.
///
/// - *finite*: an element that is NaN or infinite on one side must be the same on the other. The same infinity is the
///   same; NaN is the same as NaN only with `rule.nan_equal`.
/// - *value*, by tolerance: `|actual - expected| <= atol + rtol * |expected|` for every element: in float64 for floats,
///   by modulus for complex numbers, exactly for integers and bools. Elements that are equal agree under any bound; where
///   they are not, a distance or a bound that overflows float64 never agrees, and neither does a sum of squared distances.
/// - *untestable* and *value*, by noise: see [`Gate::Noise`]; `rms` and `absmax` are taken over pairs whose golden is
///   finite and below 1e30. A golden element at or above that is a fill value and has a bound of its own,
///   `k * eps * |expected|`. `F_rms > 0.1 * rms(expected)` is untestable. For integers `eps` is 0.
/// - *range*: every element of the actual lies in `rule.range`; NaN does not.
///
/// Two things come before all of these: a noise gate without a floor is *missing*, and a floor that is not a pair of
/// numbers from 0 to 2e30 is *corrupt*.
///
/// When the shapes differ nothing is measured; when only the dtypes do, both sides are measured by themselves.
pub fn compare(expected: &TensorView, actual: &TensorView, rule: &Rule) -> Outcome {
    compare_on(all_cores(), expected, actual, rule)
}

/// [`compare`] on at most so many threads; the result is the same on any number of them.
pub fn compare_on(threads: NonZeroUsize, expected: &TensorView, actual: &TensorView, rule: &Rule) -> Outcome {
    verdict::compare(threads, expected, actual, rule)
}

/// Returns the verdict on an actual of another shape or dtype than `expected`, which needs no value of either; `None`
/// when both agree, and values decide. It is the verdict of [`compare`], without measurements.
pub(crate) fn compare_forms(
    expected: (Dtype, &[usize]),
    actual: (Dtype, &[usize]),
    rule: &Rule,
) -> Option<Outcome> {
    verdict::compare_forms(expected, actual, rule)
}

/// Returns what was measured of a tensor that has no golden, and whether it lies in `rule.range`.
///
/// The gate and the floor say nothing without a golden and are not looked at. Floats must be finite, or infinities that
/// the range reaches, unless `nan_equal`; with a range, every element has to lie in it.
pub fn examine(actual: &TensorView, rule: &Rule) -> Outcome {
    verdict::examine(all_cores(), actual, rule)
}

fn all_cores() -> NonZeroUsize {
    // Asking takes longer than comparing a small tensor: Linux answers from files.
    static CORES: LazyLock<NonZeroUsize> =
        LazyLock::new(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN));
    *CORES
}
