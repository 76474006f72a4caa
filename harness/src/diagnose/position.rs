//! What can be said when nothing explains the error: that there is no correlation, or that it grows with the position.

use super::scene::Pair;
use super::vectors::group_ids;
use super::{Found, Kind, Looked, Residual};

pub(super) fn look(looked: &Looked) -> Vec<Found> {
    let pair = &looked.pair;
    if !pair.same_shape() || pair.bar.eps() == 0.0 || pair.actual.len() < 64 {
        return Vec::new();
    }
    uncorrelated(pair).or_else(|| grows(pair)).into_iter().collect()
}

fn unexplained(pair: &Pair) -> Residual {
    Residual { rms: pair.bar.error_rms, part: 1.0, used: f64::INFINITY }
}

/// The golden's mean and spread, and no correlation with it.
fn uncorrelated(pair: &Pair) -> Option<Found> {
    let (mut n, mut e1, mut a1, mut e2, mut a2, mut ea) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for index in (0..pair.e.len()).filter(|&index| pair.is_plain(index)) {
        let (e, a) = (pair.e[index], pair.a[index]);
        n += 1.0;
        e1 += e;
        a1 += a;
        e2 += e * e;
        a2 += a * a;
        ea += e * a;
    }
    let (mean_e, mean_a) = (e1 / n, a1 / n);
    let (std_e, std_a) = ((e2 / n - mean_e * mean_e).sqrt(), (a2 / n - mean_a * mean_a).sqrt());
    let correlation = (ea / n - mean_e * mean_a) / (std_e * std_a);
    // Two draws of so many numbers differ by that much anyway.
    let chance = 4.0 / f64::sqrt(n);
    let same = (std_a / std_e - 1.0).abs() < (0.02f64).max(chance)
        && (mean_a - mean_e).abs() < (0.02f64).max(chance) * std_e;
    if n < 256.0 || !same || correlation.abs().is_nan() || correlation.abs() > (0.02f64).max(chance) {
        return None;
    }
    let text =
        format!("of the golden's mean and spread, but without any correlation with it ({correlation:.3})");
    Some(Found::new(Kind::Uncorrelated, 6, unexplained(pair), text))
}

/// The error is nothing at the first index of an axis and grows along it.
fn grows(pair: &Pair) -> Option<Found> {
    let shape = pair.shape();
    (0..shape.len().saturating_sub(1)).rev().filter(|&axis| shape[axis] >= 6).find_map(|axis| {
        let (ids, length) = group_ids(pair, &[axis]);
        let (mut sums, mut counts) = (vec![0.0; length], vec![0.0; length]);
        for index in (0..pair.e.len()).filter(|&index| pair.is_plain(index)) {
            sums[ids[index] as usize] += (pair.a[index] - pair.e[index]).powi(2);
            counts[ids[index] as usize] += 1.0;
        }
        let errors: Vec<f64> = sums.iter().zip(&counts).map(|(sum, count)| (sum / f64::max(*count, 1.0)).sqrt()).collect();
        let last = *errors.last()?;
        let starts_right = errors[0] <= 8.0 * pair.bar.typical() && errors[0] < 0.02 * last;
        let pairs = errors.windows(2).filter(|pair| pair[1] > pair[0]).count();
        if !starts_right || pairs * 10 < (length - 1) * 8 {
            return None;
        }
        let text = format!(
            "right at the first index of axis {axis}, and off by the more the further along it: {:.1e} at the second, {:.1e} at the last",
            errors[1], last
        );
        Some(Found::new(Kind::GrowsWithPosition, 6, unexplained(pair), text))
    })
}
