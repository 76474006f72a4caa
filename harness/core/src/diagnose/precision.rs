//! Values cut off at a bound, or rounded to a narrower format.

use super::diagnosis::Observation;
use super::linear::{ROUNDINGS, cut};
use super::numbers::plain;
use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, FactKind, Search};
use crate::number::Short;
use crate::tensor::{Dtype, nearest_bf16};
use half::f16;

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let pair = &search.pair;
    if !pair.same_shape() || pair.bound.eps() == 0.0 || pair.actual.len() < 16 {
        return Vec::new();
    }
    clamped(pair).or_else(|| rounded(pair)).into_iter().collect()
}

/// `clamp(golden, low, high)`, where the bounds are the smallest and largest actual.
fn clamped(pair: &SampledPair) -> Option<Explanation> {
    let ends = |values: &[f64]| {
        let plain = values.iter().copied().filter(|x| plain(*x));
        plain.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
    };
    let ((low_e, high_e), (low, high)) = (ends(&pair.e), ends(&pair.a));
    let margin = 8.0 * pair.bound.typical();
    let (cut_low, cut_high) = (low > low_e + margin, high < high_e - margin);
    // Several elements lie at a bound.
    let at = |bound: f64| pair.a.iter().filter(|x| (**x - bound).abs() <= margin).count();
    if !(cut_low && at(low) >= 2 || cut_high && at(high) >= 2) || high - low <= 2.0 * margin {
        return None;
    }
    // Without elements between the bounds, anything would fit.
    let between = pair.e.iter().filter(|x| **x > low && **x < high).count();
    let choices = usize::from(cut_low) + usize::from(cut_high);
    if between < 3 * choices {
        return None;
    }
    let residual = pair.explained(choices, |index| pair.e[index].clamp(low, high))?;
    let text = match (cut_low, cut_high) {
        (true, true) => format!("the golden cut off below {} and above {}", Short(low), Short(high)),
        (true, false) => format!("the golden cut off below {}", Short(low)),
        _ => format!("the golden cut off above {}", Short(high)),
    };
    Some(Explanation::new(CauseKind::Clamped, 2, residual, text))
}

type Format = (&'static str, fn(f64) -> f64);

/// Formats narrower than 16 bits.
const NARROW: &[Format] = &[
    ("rounded to float8 (e4m3)", |x| narrow(x, 3, -6, 448.0)),
    ("rounded to float8 (e5m2)", |x| narrow(x, 2, -14, 57344.0)),
    ("truncated to the 3 fraction bits of float8 (e4m3)", |x| cut(x, 3)),
    ("truncated to the 2 fraction bits of float8 (e5m2)", |x| cut(x, 2)),
];

/// Rounds to this many bits of fraction, with a smallest exponent and a largest value.
fn narrow(x: f64, fraction: i32, least: i32, most: f64) -> f64 {
    if x == 0.0 {
        return 0.0;
    }
    let exponent = (x.abs().log2().floor() as i32).max(least);
    let step = 2f64.powi(exponent - fraction);
    ((x / step).round_ties_even() * step).clamp(-most, most)
}

/// Whether `round` leaves all values as they are.
fn are(values: &[f64], round: fn(f64) -> f64) -> bool {
    values.iter().filter(|x| plain(**x)).all(|x| (round(*x) - x).abs() <= 1e-7 * x.abs())
}

/// Narrowest first.
const FORMATS: &[Format] = &[
    ("float8 (e5m2)", |x| narrow(x, 2, -14, 57344.0)),
    ("float8 (e4m3)", |x| narrow(x, 3, -6, 448.0)),
    ("bfloat16", |x| nearest_bf16(x).to_f64()),
    ("float16", |x| f16::from_f64(x).to_f64()),
];

/// Every element fits a narrower format, and the golden's elements do not.
pub(super) fn narrow_format(search: &Search) -> Observation {
    let pair = &search.pair;
    if !matches!(pair.expected.dtype(), Dtype::Float32 | Dtype::Float64) || pair.actual.len() < 16 {
        return None;
    }
    // Zeros, ones and other whole numbers fit every format.
    let is_whole = pair.a.iter().all(|x| x.fract() == 0.0);
    let format = FORMATS.iter().find(|(_, round)| are(&pair.a, *round))?;
    let of_both = are(&pair.e, format.1);
    (!is_whole && !of_both).then(|| {
        let text = format!("every element fits {}, and the golden's elements do not", format.0);
        (FactKind::NarrowFormat, text)
    })
}

/// The golden rounded to a narrower format than its dtype.
fn rounded(pair: &SampledPair) -> Option<Explanation> {
    let own = pair.expected.dtype();
    // The narrowest format that fits every actual but not every golden element. Float16 and TF32 have the same precision.
    let wide = matches!(own, Dtype::Float32 | Dtype::Float64);
    let narrower = NARROW.iter().rev().chain(ROUNDINGS.iter().rev().filter(|_| wide));
    for (name, round) in narrower {
        if !are(&pair.a, *round) || are(&pair.e, *round) {
            continue;
        }
        if let Some(residual) = pair.rounded(|_, x| round(x)) {
            let text = format!("the golden {name}, which is a loss of precision only");
            return Some(Explanation::new(CauseKind::Rounded, 2, residual, text));
        }
    }
    grid(pair)
}

/// The golden rounded to a grid of at most 256 even steps, for the whole tensor or per row. The largest element is the end
/// of the grid.
fn grid(pair: &SampledPair) -> Option<Explanation> {
    let width = pair.actual.width();
    let step =
        |values: &[f64]| values.iter().filter(|x| plain(**x)).fold(0f64, |most, x| most.max(x.abs())) / 127.0;
    let on_grid = |x: f64, step: f64| if step > 0.0 { (x / step).round_ties_even() * step } else { 0.0 };
    let whole = step(&pair.a);
    // A grid as fine as the dtype fits any values.
    if whole <= 16.0 * pair.bound.typical() {
        return None;
    }
    if let Some(residual) = pair.rounded(|_, x| on_grid(x, whole)) {
        let text = format!(
            "the golden rounded to int8 in steps of {}, which is a loss of precision only",
            Short(whole)
        );
        return Some(Explanation::new(CauseKind::Rounded, 2, residual, text));
    }
    if pair.sampled().is_some() || width < 16 {
        return None;
    }
    let steps: Vec<f64> = pair.a.chunks(width).map(step).collect();
    let residual = pair.rounded(|index, x| on_grid(x, steps[index / width]))?;
    let text =
        "the golden rounded to int8 with one step size per row, which is a loss of precision only".to_owned();
    Some(Explanation::new(CauseKind::Rounded, 2, residual, text))
}
