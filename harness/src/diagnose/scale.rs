//! One factor, one offset, one sign throughout.

use super::scene::Pair;
use super::{Found, Kind, Looked};
use crate::compare::number::Short;

/// Constants that models are scaled by, with what they are.
const KNOWN: &[(f64, &str)] = &[
    (2.0, "2"),
    (0.5, "1/2"),
    (255.0, "255: pixels that are not divided"),
    (127.5, "127.5: pixels in [-1, 1]"),
    (1000.0, "1000: timesteps in [0, 1] against those up to 1000"),
    (0.18215, "0.18215: the scaling factor of Stable Diffusion's VAE"),
    (0.13025, "0.13025: the scaling factor of SDXL's VAE"),
    (0.3611, "0.3611: the scaling factor of FLUX's VAE"),
    (1.5305, "1.5305: the scaling factor of Stable Diffusion 3's VAE"),
    (std::f64::consts::SQRT_2, "sqrt(2)"),
    (std::f64::consts::LN_2, "ln 2"),
];

pub(super) fn look(looked: &Looked) -> Vec<Found> {
    let pair = &looked.pair;
    if !pair.same_shape() || pair.actual.len() < 2 {
        return Vec::new();
    }
    let sums = Sums::of(pair);
    sign(pair)
        .or_else(|| factor(looked, &sums))
        .or_else(|| offset(pair, &sums))
        .or_else(|| affine(looked, &sums))
        .into_iter()
        .collect()
}

struct Sums {
    n: f64,
    e: f64,
    a: f64,
    ee: f64,
    ea: f64,
}

impl Sums {
    fn of(pair: &Pair) -> Self {
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

fn sign(pair: &Pair) -> Option<Found> {
    let residual = pair.explained(0, |index| -pair.e[index])?;
    Some(Found::new(Kind::Sign, 1, residual, "the golden with the opposite sign".to_owned()))
}

fn factor(looked: &Looked, sums: &Sums) -> Option<Found> {
    let pair = &looked.pair;
    let factor = sums.ea / sums.ee;
    if !factor.is_finite() || factor == 0.0 {
        return None;
    }
    let named = named(factor, pair.bar.eps(), &looked.lengths());
    if named.is_none() && !is_deliberate(factor) {
        return None;
    }
    let (predict, undo) = (|index: usize| factor * pair.e[index], |index: usize| pair.a[index] / factor);
    // Of two elements a factor is told only if it is one that people use.
    let residual = match (pair.actual.len(), &named) {
        (2, Some(_)) => pair.explained_few(predict, undo)?,
        _ => pair.explained_both(1, predict, undo)?,
    };
    let text = format!(
        "the golden times {}{}",
        Short(factor),
        named.map(|name| format!(" ({name})")).unwrap_or_default()
    );
    Some(Found::new(Kind::Factor, 1, residual, text))
}

/// Whether anybody would scale by that: an eps, a sum in another order or a narrower format come to a factor near one, too.
pub(super) fn is_deliberate(factor: f64) -> bool {
    (factor.abs() - 1.0).abs() >= 1e-3
}

fn offset(pair: &Pair, sums: &Sums) -> Option<Found> {
    let offset = (sums.a - sums.e) / sums.n;
    let residual = pair.explained(1, |index| pair.e[index] + offset)?;
    Some(Found::new(Kind::Offset, 1, residual, format!("the golden plus {}", Short(offset))))
}

fn affine(looked: &Looked, sums: &Sums) -> Option<Found> {
    let pair = &looked.pair;
    let variance = sums.ee - sums.e * sums.e / sums.n;
    let factor = (sums.ea - sums.e * sums.a / sums.n) / variance;
    let offset = (sums.a - factor * sums.e) / sums.n;
    if !factor.is_finite() || !is_deliberate(factor) || factor == 0.0 {
        return None;
    }
    let (predict, undo) =
        (|index: usize| factor * pair.e[index] + offset, |index: usize| (pair.a[index] - offset) / factor);
    let residual = pair.explained_both(2, predict, undo)?;
    let named =
        named(factor, pair.bar.eps(), &looked.lengths()).map(|name| format!(" ({name})")).unwrap_or_default();
    let text = format!("the golden times {}{named} plus {}", Short(factor), Short(offset));
    Some(Found::new(Kind::Affine, 2, residual, text))
}

/// What a factor is known as: a constant of models, the root of a length that occurs, or one over either.
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
                (d.sqrt(), format!("sqrt({length}), {length} being the length of an axis here")),
                (d.sqrt().recip(), format!("1/sqrt({length}), {length} being the length of an axis here")),
                (d, format!("{length}, the length of an axis here")),
                (d.recip(), format!("1/{length}, {length} being the length of an axis here")),
            ]
            .into_iter()
            .find_map(|(x, name)| close(x).then_some(name))
        })
    })
}
