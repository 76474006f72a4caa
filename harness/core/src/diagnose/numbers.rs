//! Numbers of a tensor: which of them are fill values, and their root mean square.

/// Only fill values, such as those of a mask, have this magnitude.
const HUGE: f64 = 1e30;

/// Whether a number is finite and no fill value.
pub(super) fn plain(x: f64) -> bool {
    x.abs() < HUGE
}

/// Root mean square; 0 without values.
pub(super) fn rms(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0usize, 0.0), |(n, sum), x| (n + 1, sum + x * x));
    if count == 0 { 0.0 } else { (sum / count as f64).sqrt() }
}
