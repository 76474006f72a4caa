//! What can be said when nothing explains the error: that there is no correlation, or that it grows with the position.

use super::scene::Pair;
use super::vectors::group_ids;
use super::{Found, Kind, Looked};

pub(super) fn look(looked: &Looked) -> Vec<Found> {
    let pair = &looked.pair;
    if !pair.same_shape() || pair.bar.eps() == 0.0 || pair.actual.len() < 64 {
        return Vec::new();
    }
    uncorrelated(pair).or_else(|| grows(pair)).into_iter().collect()
}

/// Both are standard noise, and not the same: numbers that a generator gave. Other tensors may be uncorrelated for many
/// reasons, other weights first of all, so nothing is said of them.
fn uncorrelated(pair: &Pair) -> Option<Found> {
    let plain: Vec<usize> = (0..pair.e.len()).filter(|&index| pair.is_plain(index)).collect();
    let (n, e, a) = (plain.len() as f64, Moments::of(&plain, &pair.e), Moments::of(&plain, &pair.a));
    let product = plain.iter().map(|&index| (pair.e[index] - e.mean) * (pair.a[index] - a.mean)).sum::<f64>();
    let correlation = product / n / (e.deviation * a.deviation);
    if n < 64.0
        || !e.is_noise(n)
        || !a.is_noise(n)
        || correlation.is_nan()
        || correlation.abs() > 4.0 / n.sqrt()
    {
        return None;
    }
    let text = format!(
        "noise like the golden, but another draw: mean and spread are the same, the correlation is {correlation:.3}"
    );
    Some(Found::new(Kind::Uncorrelated, 6, pair.unexplained(), text))
}

/// What tells standard noise from the output of a layer.
struct Moments {
    mean: f64,
    deviation: f64,
    /// The fourth moment: 3 for normal numbers, 1.8 for evenly spread ones.
    kurtosis: f64,
}

impl Moments {
    fn of(indices: &[usize], values: &[f64]) -> Self {
        let n = indices.len() as f64;
        let mean = indices.iter().map(|&index| values[index]).sum::<f64>() / n;
        let moment =
            |power: i32| indices.iter().map(|&index| (values[index] - mean).powi(power)).sum::<f64>() / n;
        let variance = moment(2);
        Self { mean, deviation: variance.sqrt(), kurtosis: moment(4) / (variance * variance) }
    }

    /// Normal with mean 0 and deviation 1, or even over [0, 1) or [-1, 1), as far as so many numbers can tell.
    fn is_noise(&self, n: f64) -> bool {
        let like = |mean: f64, deviation: f64, kurtosis: f64| {
            (self.mean - mean).abs() < 4.0 * deviation / n.sqrt()
                && (self.deviation / deviation - 1.0).abs() < 3.0 / (2.0 * n).sqrt() * (kurtosis / 2.0).sqrt()
                && (self.kurtosis - kurtosis).abs() < 5.0 * (24.0 / n).sqrt()
        };
        like(0.0, 1.0, 3.0) || like(0.5, 12f64.sqrt().recip(), 1.8) || like(0.0, 3f64.sqrt().recip(), 1.8)
    }
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
        Some(Found::new(Kind::GrowsWithPosition, 6, pair.unexplained(), text))
    })
}
