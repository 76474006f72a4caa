//! Values cut off at a bound, and values rounded to a narrower format.

use half::{bf16, f16};

use super::scene::{Pair, plain};
use super::{Found, Kind, Looked};
use crate::compare::number::Short;
use crate::tensor::Dtype;

pub(super) fn look(looked: &Looked) -> Vec<Found> {
    let pair = &looked.pair;
    if !pair.same_shape() || pair.bar.eps() == 0.0 || pair.actual.len() < 16 {
        return Vec::new();
    }
    clamped(pair).or_else(|| rounded(pair)).into_iter().collect()
}

/// `clamp(golden, low, high)`, the bounds being the actual's own ends.
fn clamped(pair: &Pair) -> Option<Found> {
    let ends = |values: &[f64]| {
        let plain = values.iter().copied().filter(|x| plain(*x));
        plain.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
    };
    let ((low_e, high_e), (low, high)) = (ends(&pair.e), ends(&pair.a));
    let margin = 8.0 * pair.bar.typical();
    let (cut_low, cut_high) = (low > low_e + margin, high < high_e - margin);
    // A bound is where several elements pile up.
    let at = |bound: f64| pair.a.iter().filter(|x| (**x - bound).abs() <= margin).count();
    if !(cut_low && at(low) >= 2 || cut_high && at(high) >= 2) || low >= high {
        return None;
    }
    let residual = pair.explained(0, |index| pair.e[index].clamp(low, high))?;
    let text = match (cut_low, cut_high) {
        (true, true) => format!("the golden cut off below {} and above {}", Short(low), Short(high)),
        (true, false) => format!("the golden cut off below {}", Short(low)),
        _ => format!("the golden cut off above {}", Short(high)),
    };
    Some(Found::new(Kind::Clamped, 2, residual, text))
}

type Format = (&'static str, fn(f64) -> f64);

const FORMATS: &[Format] = &[
    ("TF32", |x| {
        let bits = (x as f32).to_bits();
        // Ten bits of fraction, to nearest even.
        f64::from(f32::from_bits(bits.wrapping_add(0x0fff + (bits >> 13 & 1)) & !0x1fff))
    }),
    ("float16", |x| f16::from_f64(x).to_f64()),
    ("bfloat16", |x| bf16::from_f64(x).to_f64()),
    ("float8 (e4m3)", |x| narrow(x, 3, -6, 448.0)),
    ("float8 (e5m2)", |x| narrow(x, 2, -14, 57344.0)),
];

/// Rounds to so many bits of fraction, with a smallest exponent and a largest value.
fn narrow(x: f64, fraction: i32, least: i32, most: f64) -> f64 {
    if x == 0.0 {
        return 0.0;
    }
    let exponent = (x.abs().log2().floor() as i32).max(least);
    let step = 2f64.powi(exponent - fraction);
    ((x / step).round_ties_even() * step).clamp(-most, most)
}

/// The actual's elements are numbers of a narrower format than its dtype, near the golden's.
fn rounded(pair: &Pair) -> Option<Found> {
    let own = pair.expected.dtype();
    let narrower = FORMATS.iter().filter(|(name, _)| match own {
        Dtype::Float32 | Dtype::Float64 => true,
        Dtype::Float16 | Dtype::Bfloat16 => name.starts_with("float8"),
        _ => false,
    });
    let are = |values: &[f64], round: fn(f64) -> f64| {
        values.iter().filter(|x| plain(**x)).all(|x| (round(*x) - x).abs() <= 1e-7 * x.abs())
    };
    // The narrowest format that has all of the actual, and not all of the golden. Float16 and TF32 share their numbers.
    let mut narrower: Vec<&Format> = narrower.collect();
    narrower.reverse();
    for (name, round) in narrower {
        if !are(&pair.a, *round) || are(&pair.e, *round) {
            continue;
        }
        if let Some(residual) = pair.rounded(*round) {
            let text = format!("the golden rounded to {name}: precision, not structure");
            return Some(Found::new(Kind::Rounded, 2, residual, text));
        }
    }
    grid(pair)
}

/// The golden on an evenly spaced grid of at most 256 steps, over all of it or over each row.
fn grid(pair: &Pair) -> Option<Found> {
    let width = pair.actual.width();
    let absmax = |values: &mut dyn Iterator<Item = f64>| values.fold(0f64, |most, x| most.max(x.abs()));
    let whole = absmax(&mut pair.e.iter().copied().filter(|x| plain(*x))) / 127.0;
    if let Some(residual) = pair.explained(0, |index| (pair.e[index] / whole).round_ties_even() * whole) {
        let text =
            format!("the golden rounded to int8, in steps of {}: precision, not structure", Short(whole));
        return Some(Found::new(Kind::Rounded, 2, residual, text));
    }
    if pair.sampled().is_some() || width < 16 {
        return None;
    }
    let steps: Vec<f64> = pair
        .e
        .chunks(width)
        .map(|row| absmax(&mut row.iter().copied().filter(|x| plain(*x))) / 127.0)
        .collect();
    let residual = pair.explained(0, |index| {
        let step = steps[index / width];
        if step > 0.0 { (pair.e[index] / step).round_ties_even() * step } else { 0.0 }
    })?;
    let text = "the golden rounded to int8, with a step for each row: precision, not structure".to_owned();
    Some(Found::new(Kind::Rounded, 2, residual, text))
}
