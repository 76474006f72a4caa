//! The golden with one factor, one offset or the opposite sign.

use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, Search};
use crate::number::Short;

/// Factors that occur in models, with their meaning.
const KNOWN: &[(f64, &str)] = &[
    (2.0, "2"),
    (0.5, "1/2"),
    (255.0, "255, the range of 8-bit pixels"),
    (127.5, "127.5, half the range of 8-bit pixels"),
    (1000.0, "1000, the number of timesteps"),
    (0.18215, "0.18215, the scaling factor of Stable Diffusion's VAE"),
    (0.13025, "0.13025, the scaling factor of SDXL's VAE"),
    (0.3611, "0.3611, the scaling factor of FLUX's VAE"),
    (1.5305, "1.5305, the scaling factor of Stable Diffusion 3's VAE"),
    (std::f64::consts::SQRT_2, "sqrt(2)"),
    (std::f64::consts::LN_2, "ln 2"),
];

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let pair = &search.pair;
    if !pair.same_shape() || pair.actual.len() < 2 {
        return Vec::new();
    }
    let sums = RegressionSums::of(pair);
    sign(pair)
        .or_else(|| factor(search, &sums))
        .or_else(|| offset(pair, &sums))
        .or_else(|| affine(search, &sums))
        .into_iter()
        .collect()
}

/// The sums over all plain elements that a linear fit of the actual to the golden needs.
struct RegressionSums {
    n: f64,
    e: f64,
    a: f64,
    ee: f64,
    ea: f64,
}

impl RegressionSums {
    fn of(pair: &SampledPair) -> Self {
        let mut sums = Self { n: 0.0, e: 0.0, a: 0.0, ee: 0.0, ea: 0.0 };
        for index in (0..pair.positions.len()).filter(|&index| pair.is_plain(index)) {
            let (e, a) = (pair.e[index], pair.a[index]);
            sums.n += 1.0;
            sums.e += e;
            sums.a += a;
            sums.ee += e * e;
            sums.ea += e * a;
        }
        sums
    }
}

fn sign(pair: &SampledPair) -> Option<Explanation> {
    let residual = pair.explained(0, |index| -pair.e[index])?;
    Some(Explanation::new(CauseKind::Sign, 1, residual, "the golden with the opposite sign".to_owned()))
}

fn factor(search: &Search, sums: &RegressionSums) -> Option<Explanation> {
    let pair = &search.pair;
    let factor = sums.ea / sums.ee;
    if !factor.is_finite() || factor == 0.0 {
        return None;
    }
    let named = named(factor, pair.bound.eps(), &search.lengths());
    if named.is_none() && !is_deliberate(factor) {
        return None;
    }
    let (predict, undo) = (|index: usize| factor * pair.e[index], |index: usize| pair.a[index] / factor);
    // Two elements are enough only for a well-known factor.
    let residual = match (pair.actual.len(), &named) {
        (2, Some(_)) => pair.explained_few(predict, undo)?,
        _ => pair.explained_both(1, predict, undo)?,
    };
    let text = format!("the golden times {}{}", Short(factor), in_brackets(factor, named));
    Some(Explanation::new(CauseKind::Factor, 1, residual, text))
}

/// Whether somebody may have written this factor. A factor near one also comes from another eps, another order of a sum or
/// a narrower format.
pub(super) fn is_deliberate(factor: f64) -> bool {
    (factor.abs() - 1.0).abs() >= 1e-3
}

fn offset(pair: &SampledPair, sums: &RegressionSums) -> Option<Explanation> {
    let offset = (sums.a - sums.e) / sums.n;
    let residual = pair.explained(1, |index| pair.e[index] + offset)?;
    Some(Explanation::new(CauseKind::Offset, 1, residual, format!("the golden plus {}", Short(offset))))
}

fn affine(search: &Search, sums: &RegressionSums) -> Option<Explanation> {
    let pair = &search.pair;
    let variance = sums.ee - sums.e * sums.e / sums.n;
    let factor = (sums.ea - sums.e * sums.a / sums.n) / variance;
    let offset = (sums.a - factor * sums.e) / sums.n;
    if !factor.is_finite() || !is_deliberate(factor) || factor == 0.0 {
        return None;
    }
    let (predict, undo) =
        (|index: usize| factor * pair.e[index] + offset, |index: usize| (pair.a[index] - offset) / factor);
    let residual = pair.explained_both(2, predict, undo)?;
    let named = in_brackets(factor, named(factor, pair.bound.eps(), &search.lengths()));
    let text = format!("the golden times {}{named} plus {}", Short(factor), Short(offset));
    Some(Explanation::new(CauseKind::Affine, 2, residual, text))
}

/// The name of a factor in brackets; empty without a name, or if the name is only the number again.
fn in_brackets(factor: f64, name: Option<String>) -> String {
    let name = name.filter(|name| *name != Short(factor).to_string());
    name.map(|name| format!(" ({name})")).unwrap_or_default()
}

/// The name of a factor: a well-known constant, a nearby axis length or its root, or one over any of these.
pub(super) fn named(factor: f64, eps: f64, lengths: &[usize]) -> Option<String> {
    let close = |x: f64| (factor.abs() / x - 1.0).abs() < (2.0 * eps).clamp(2e-6, 1e-3);
    let known = KNOWN.iter().find_map(|&(x, name)| match (close(x), close(1.0 / x)) {
        (true, _) => Some(name.to_owned()),
        (_, true) => Some(format!("1 over {name}")),
        _ => None,
    });
    known.or_else(|| {
        lengths.iter().filter(|&&length| length > 2).find_map(|&length| {
            let d = length as f64;
            [
                (d.sqrt(), format!("sqrt({length}), where {length} is the length of an axis")),
                (d.sqrt().recip(), format!("1/sqrt({length}), where {length} is the length of an axis")),
                (d, format!("{length}, the length of an axis")),
                (d.recip(), format!("1/{length}, where {length} is the length of an axis")),
            ]
            .into_iter()
            .find_map(|(x, name)| close(x).then_some(name))
        })
    })
}
