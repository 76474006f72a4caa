//! An error that grows along an axis, and an actual without any correlation with the golden.

use super::diagnosis::Observation;
use super::per_index::group_ids;
use super::{FactKind, Search};

/// Fewer elements are not enough for a correlation or a growth.
const FEWEST: usize = 64;
/// A correlation below the first bound counts as none, and one above the second never does. Between them the number of
/// elements decides. Equal rows make chance correlations more likely, hence the first bound.
const NO_CORRELATION: f64 = 0.15;
const SOME_CORRELATION: f64 = 0.25;

/// The actual has no correlation with the golden that chance does not explain.
pub(super) fn uncorrelated(search: &Search) -> Observation {
    let pair = &search.pair;
    let plain: Vec<usize> = (0..pair.e.len()).filter(|&index| pair.is_plain(index)).collect();
    if plain.len() < FEWEST || pair.bound.eps() == 0.0 {
        return None;
    }
    let n = plain.len() as f64;
    let moments = |values: &[f64]| {
        let mean = plain.iter().map(|&index| values[index]).sum::<f64>() / n;
        let variance = plain.iter().map(|&index| (values[index] - mean).powi(2)).sum::<f64>() / n;
        (mean, variance.sqrt())
    };
    let ((mean_e, spread_e), (mean_a, spread_a)) = (moments(&pair.e), moments(&pair.a));
    let product = plain.iter().map(|&index| (pair.e[index] - mean_e) * (pair.a[index] - mean_a)).sum::<f64>();
    let correlation = product / n / (spread_e * spread_a);
    if correlation.is_nan() || correlation.abs() > (4.0 / n.sqrt()).clamp(NO_CORRELATION, SOME_CORRELATION) {
        return None;
    }
    let alike = (mean_a - mean_e).abs() < 0.1 * spread_e && (spread_a / spread_e - 1.0).abs() < 0.1;
    let alike = if alike { "; mean and spread are the same as the golden's" } else { "" };
    Some((FactKind::Uncorrelated, format!("the correlation with the golden is {correlation:.3}{alike}")))
}

/// The error is zero at the first index of an axis and grows along it.
pub(super) fn grows(search: &Search) -> Observation {
    let pair = &search.pair;
    if pair.bound.eps() == 0.0 || pair.actual.len() < FEWEST {
        return None;
    }
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
        let starts_right = errors[0] <= 8.0 * pair.bound.typical() && errors[0] < 0.02 * last;
        let pairs = errors.windows(2).filter(|pair| pair[1] > pair[0]).count();
        if !starts_right || pairs * 10 < (length - 1) * 8 {
            return None;
        }
        let text = format!(
            "right at the first index of axis {axis}, with an error that grows along it: {:.1e} at the second index, {:.1e} at the last",
            errors[1], last
        );
        Some((FactKind::GrowsWithPosition, text))
    })
}
