//! Comparing two tensors: measurements, and a verdict under a rule.
//!
//! [`compare`] reads both tensors once, on all cores. Whole blocks of finite numbers go through vector code; everything
//! else is compared element by element. If the error is inside a noise gate and above the floor, a second pass over at most
//! a million elements looks for a systematic error. Results do not depend on the number of threads.

mod block_spread;
mod bound;
mod byte_tier;
mod choices;
mod comparison;
mod complex_tier;
mod element;
mod fast_extremes;
mod fast_sums;
mod fast_tier;
mod float64_tier;
mod float_bits;
mod floor;
mod metrics;
mod pair_tally;
mod scan;
mod spans;
mod sum;
mod systematic;
mod thresholds;
mod tier;
mod tolerance;
mod totals;
mod verdict;
mod widen;

use std::num::NonZeroUsize;
use std::sync::LazyLock;

pub use choices::{Beside, Choices, Divergence, IdPlaces, OtherChoice, Scores, TopRows};
pub use comparison::Comparison;
pub use metrics::{Difference, Metrics, Quantiles, Stats, TimesFloor, Worst};
pub use systematic::{Systematic, SystematicKind};

use crate::gate::Rule;
use crate::tensor::{Dtype, TensorView};

/// Elements per block: enough to make the work per block negligible, few enough to stay in a small cache.
const BLOCK: usize = 4096;
/// Elements at or above this magnitude are fill values, such as a mask's `-3.4e38`. Sums, means and floors ignore them.
const HUGE: f64 = 1e30;
/// Added to `|expected|` before a relative distance divides by it.
const REL_GUARD: f64 = 1e-8;
/// How many elements from the start are shown.
const FIRST: usize = 10;

/// Returns the measurements and whether `actual` agrees with `expected` under `rule`.
///
/// The checks run in the order shape, dtype, finite, untestable, value, systematic, range. The first that does not hold gives the
/// class.
///
/// - *finite*: an element that is NaN or infinite on one side must be the same on the other. The same infinity is the
///   same. NaN is the same as NaN only with `rule.nan_equal`.
/// - *value*, by tolerance: `|actual - expected| <= atol + rtol * |expected|` for every element. Floats are compared in
///   float64, complex numbers by modulus, integers and bools exactly. Equal elements agree under any bound. Different
///   ones never agree when their distance, their bound or the sum of all squared distances overflows float64.
/// - *untestable* and *value*, by noise: see [`Gate::Noise`](crate::gate::Gate::Noise). `rms` and `absmax` cover pairs
///   whose golden is finite and below 1e30. A golden element at or above that is a fill value with a bound of its own,
///   `k * eps * |expected|`. `floor.rms > 0.1 * rms(expected)` is untestable. For integers `eps` is 0.
/// - *systematic*: the error is inside a noise gate, but most of it is a factor or an offset; see [`Systematic::clear`].
///   It fails only with `rule.judge_systematic`.
/// - *untestable*, *choice* and *value*, by choices: see [`compare_choices`].
/// - *range*: every element of the actual is in `rule.range`, which NaN never is.
///
/// Two checks come before all of these: a noise gate without a floor is *missing*, and a floor that is not a pair of
/// numbers from 0 to 2e30 is *corrupt*.
///
/// When the shapes differ, nothing is measured. When only the dtypes differ, each side is measured alone.
pub fn compare(expected: &TensorView, actual: &TensorView, rule: &Rule) -> Comparison {
    Comparison::of(expected, actual, rule)
}

/// [`compare`] for gates that judge choices by more than golden and actual.
///
/// - [`Gate::Distribution`](crate::gate::Gate::Distribution): *value*, if a limit does not hold. If the gate has `top`, the
///   golden is read by [`TopRows`], and all ids that it lacks count as one.
/// - [`Gate::Tokens`](crate::gate::Gate::Tokens) and [`Gate::Set`](crate::gate::Gate::Set): *choice*, if an id differs
///   where `beside.scores` has no tie. Before that: *missing* without scores, *spec* if the scores do not fit the ids or
///   the golden's own ids do not have the highest scores, and *untestable* if the scores of most of at least eight rows
///   are so near that another id would be a tie.
/// - [`Gate::Text`](crate::gate::Gate::Text): *value*, if any element differs. Two texts may have different lengths.
///
/// For any other gate, `beside` is ignored.
pub fn compare_choices(
    expected: &TensorView,
    actual: &TensorView,
    rule: &Rule,
    beside: &Beside<'_>,
) -> Comparison {
    verdict::compare(all_cores(), expected, actual, rule, beside)
}

/// [`compare`] on at most this many threads. The result does not depend on their number.
pub fn compare_on(
    threads: NonZeroUsize,
    expected: &TensorView,
    actual: &TensorView,
    rule: &Rule,
) -> Comparison {
    verdict::compare(threads, expected, actual, rule, &Beside::default())
}

/// Returns the verdict of [`compare`] on an actual with a wrong shape or dtype, without measurements and without any
/// value; `None` when shape and dtype agree, so that the values decide.
pub fn compare_forms(
    expected: (Dtype, &[usize]),
    actual: (Dtype, &[usize]),
    rule: &Rule,
) -> Option<Comparison> {
    verdict::compare_forms(expected, actual, rule)
}

/// Returns the measurements of a tensor without a golden, and whether it is in `rule.range`.
///
/// The gate and the floor are ignored. Without `nan_equal`, elements must be finite or infinities inside the range. With
/// a range, every element must be in it.
pub fn examine(actual: &TensorView, rule: &Rule) -> Comparison {
    verdict::examine(all_cores(), actual, rule)
}

fn all_cores() -> NonZeroUsize {
    // Cached, because asking takes longer than comparing a small tensor: Linux reads files to answer.
    static CORES: LazyLock<NonZeroUsize> =
        LazyLock::new(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN));
    *CORES
}
