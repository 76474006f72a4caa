//! A softmax with another scale or mask; scores without their mask.

use super::factor_offset::named;
use super::numbers::rms;
use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, Search};
use crate::number::Short;

/// A score below this belongs to a masked key.
const MASKED: f64 = -1e4;
/// Scores that are not masked may be off by this multiple of the dtype's eps.
const ROUNDING: f64 = 32.0;

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let pair = &search.pair;
    if !pair.same_shape() || pair.actual.width() < 2 || pair.bound.eps() == 0.0 {
        return Vec::new();
    }
    match ProbabilityRows::of(pair) {
        Some(rows) => mask(pair, &rows).or_else(|| temperature(search, &rows)),
        None => fill(pair),
    }
    .into_iter()
    .collect()
}

/// The rows of golden and actual, if both are probabilities: not negative, with a sum of one.
struct ProbabilityRows {
    /// Indices into the sample, one range per row.
    rows: Vec<std::ops::Range<usize>>,
}

impl ProbabilityRows {
    fn of(pair: &SampledPair) -> Option<Self> {
        let width = pair.actual.width();
        // A sampled tensor has no complete rows.
        if width < 2 || pair.sampled().is_some() {
            return None;
        }
        let rows: Vec<_> =
            (0..pair.positions.len() / width).map(|row| row * width..(row + 1) * width).collect();
        let tolerance = (4.0 * pair.bound.eps()).max(1e-4);
        let probabilities = |values: &[f64]| {
            values.iter().all(|x| (0.0..=1.0 + tolerance).contains(x))
                && (values.iter().sum::<f64>() - 1.0).abs() <= tolerance * (width as f64).sqrt().max(2.0)
        };
        rows.iter().all(|row| probabilities(&pair.e[row.clone()])).then_some(())?;
        rows.iter().all(|row| probabilities(&pair.a[row.clone()])).then_some(Self { rows })
    }
}

/// Golden and actual are the same softmax over different keys.
fn mask(pair: &SampledPair, rows: &ProbabilityRows) -> Option<Explanation> {
    let masked = |values: &[f64]| values.iter().filter(|p| **p < 1e-12).count();
    let (golden, actual) = (masked(&pair.e), masked(&pair.a));
    if golden == actual {
        return None;
    }
    let missing = golden > actual;
    let (wide, narrow) = if missing { (&pair.a, &pair.e) } else { (&pair.e, &pair.a) };
    // The side with more keys, normalised over the keys of the other side.
    let mut renormalised = vec![0.0; wide.len()];
    for row in &rows.rows {
        let kept: f64 = row.clone().filter(|&index| narrow[index] >= 1e-12).map(|index| wide[index]).sum();
        for index in row.clone().filter(|&index| narrow[index] >= 1e-12) {
            renormalised[index] = wide[index] / kept;
        }
    }
    let text = if missing {
        "a softmax that includes keys which the golden masks"
    } else {
        "a softmax that masks keys which the golden attends to"
    };
    let (many, of) = (golden.abs_diff(actual), wide.len());
    let text = format!("{text}, at {many} of {of} elements; over the same keys, golden and actual agree");
    // Where the mask is missing, the golden is predicted from the actual.
    let residual = match missing {
        false => pair.explained(0, |index| renormalised[index])?,
        true => pair.mirrored(|index| renormalised[index])?,
    };
    Some(Explanation::new(CauseKind::Mask, 1, residual, text))
}

/// `p^t`, normalised again: the softmax of scores times `t`.
fn temperature(search: &Search, rows: &ProbabilityRows) -> Option<Explanation> {
    let pair = &search.pair;
    let (mut up, mut down) = (0.0, 0.0);
    for row in &rows.rows {
        let seen: Vec<usize> =
            row.clone().filter(|&index| pair.e[index] > 1e-10 && pair.a[index] > 1e-10).collect();
        let n = seen.len() as f64;
        let mean = |values: &[f64]| seen.iter().map(|&index| values[index].ln()).sum::<f64>() / n;
        let (mean_e, mean_a) = (mean(&pair.e), mean(&pair.a));
        for &index in &seen {
            let e = pair.e[index].ln() - mean_e;
            // Small probabilities are less precise.
            let weight = pair.e[index].min(pair.a[index]);
            up += weight * e * (pair.a[index].ln() - mean_a);
            down += weight * e * e;
        }
    }
    let times = up / down;
    if !times.is_finite() || (times - 1.0).abs() < 1e-4 {
        return None;
    }
    let mut predicted = vec![0.0; pair.e.len()];
    for row in &rows.rows {
        let sum: f64 = pair.e[row.clone()].iter().map(|p| p.powf(times)).sum();
        row.clone().for_each(|index| predicted[index] = pair.e[index].powf(times) / sum);
    }
    let residual = pair.explained(1, |index| predicted[index])?;
    if times.abs() < 0.05 {
        let text = format!(
            "attention spread evenly: the softmax of scores that were multiplied by {}",
            Short(times)
        );
        return Some(Explanation::new(CauseKind::UniformAttention, 1, residual, text));
    }
    let name = named(times, (1e-4f64).max(pair.bound.eps()), &search.lengths());
    let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
    let text = format!("the golden's softmax of scores that were multiplied by {}{name}", Short(times));
    Some(Explanation::new(CauseKind::SoftmaxScale, 1, residual, text))
}

/// Scores that agree except for the keys that one side masks.
fn fill(pair: &SampledPair) -> Option<Explanation> {
    let masked = |x: f64| x < MASKED || x == f64::NEG_INFINITY;
    // A mask is one value, far below all others, and not a large activation.
    let is_mask = |values: &[f64]| {
        let (fill, rest): (Vec<f64>, Vec<f64>) = values.iter().partition(|x| masked(**x));
        let most = rest.iter().fold(0f64, |most, x| most.max(x.abs()));
        let (low, high) =
            fill.iter().fold((0f64, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)));
        fill.is_empty() || fill.len() >= 2 && high < -50.0 * most && (low == high || low / high < 1.05)
    };
    if !is_mask(&pair.e) || !is_mask(&pair.a) {
        return None;
    }
    let count = |of: &dyn Fn(usize) -> bool| (0..pair.e.len()).filter(|&index| of(index)).count();
    let missing = count(&|index| masked(pair.e[index]) && !masked(pair.a[index]));
    let added = count(&|index| !masked(pair.e[index]) && masked(pair.a[index]));
    // Without a mask in the golden, an infinity may also be an overflow or the logarithm of zero.
    let infinite = (0..pair.a.len()).any(|index| pair.a[index] == f64::NEG_INFINITY);
    if added > 0 && infinite && !pair.e.iter().any(|x| masked(*x)) {
        return None;
    }
    // With different masks, each side hides scores that the other would need.
    if (missing == 0) == (added == 0) {
        return None;
    }
    // Relative to the fill value, any score seems right.
    let open = || (0..pair.e.len()).filter(|&index| !masked(pair.e[index]) && !masked(pair.a[index]));
    let off = rms(open().map(|index| pair.a[index] - pair.e[index]));
    if off > ROUNDING * pair.bound.eps() * rms(open().map(|index| pair.e[index])) {
        return None;
    }
    let of = pair.e.len();
    // Where the mask is missing, the golden is predicted from the actual.
    let (residual, text) = match missing > 0 {
        true => (
            pair.mirrored(|index| if masked(pair.e[index]) { pair.e[index] } else { pair.a[index] })?,
            format!(
                "the golden without its mask: {missing} of {of} scores are not masked, and the others agree"
            ),
        ),
        false => (
            pair.explained(0, |index| if masked(pair.a[index]) { pair.a[index] } else { pair.e[index] })?,
            format!(
                "the golden with an additional mask: {added} of {of} scores are masked, and the others agree"
            ),
        ),
    };
    Some(Explanation::new(CauseKind::Mask, 1, residual, text))
}
