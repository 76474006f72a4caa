//! How the error runs along an axis, and whether the actual has anything to do with the golden.

use super::facts::Seen;
use super::vectors::group_ids;
use super::{FactKind, Looked};

/// Fewer elements tell nothing of a correlation or a growth.
const FEWEST: usize = 64;
/// A smaller correlation is none, and a larger one is one, however few elements there are. Rows that occur several times
/// are correlated by chance more often than their number says.
const NO_CORRELATION: f64 = 0.15;
const SOME_CORRELATION: f64 = 0.25;

/// The actual is not correlated with the golden, as far as so many elements tell.
pub(super) fn uncorrelated(looked: &Looked) -> Seen {
    let pair = &looked.pair;
    let plain: Vec<usize> = (0..pair.e.len()).filter(|&index| pair.is_plain(index)).collect();
    if plain.len() < FEWEST || pair.bar.eps() == 0.0 {
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
    let alike = if alike { "; mean and spread are those of the golden" } else { "" };
    Some((FactKind::Uncorrelated, format!("the correlation with the golden is {correlation:.3}{alike}")))
}

/// The error is nothing at the first index of an axis and grows along it.
pub(super) fn grows(looked: &Looked) -> Seen {
    let pair = &looked.pair;
    if pair.bar.eps() == 0.0 || pair.actual.len() < FEWEST {
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
        let starts_right = errors[0] <= 8.0 * pair.bar.typical() && errors[0] < 0.02 * last;
        let pairs = errors.windows(2).filter(|pair| pair[1] > pair[0]).count();
        if !starts_right || pairs * 10 < (length - 1) * 8 {
            return None;
        }
        let text = format!(
            "right at the first index of axis {axis}, and off by the more the further along it: {:.1e} at the second, {:.1e} at the last",
            errors[1], last
        );
        Some((FactKind::GrowsWithPosition, text))
    })
}
