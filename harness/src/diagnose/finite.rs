//! What no ordinary value can be: NaN and infinity, foreign memory, a constant.

use super::field::row_major;
use super::others::with;
use super::residual::Prediction;
use super::scene::{Pair, plain};
use super::{Found, Kind, Looked, Residual};
use crate::compare::number::Short;
use crate::tensor::Dtype;

pub(super) fn look(looked: &Looked) -> Vec<Found> {
    let pair = &looked.pair;
    if pair.e.is_empty() || pair.bar.eps() == 0.0 {
        return constant(pair).into_iter().collect();
    }
    non_finite(looked).or_else(|| subnormal(pair)).or_else(|| constant(pair)).into_iter().collect()
}

fn non_finite(looked: &Looked) -> Option<Found> {
    let pair = &looked.pair;
    if !pair.same_shape() {
        return None;
    }
    let wrong = |index: usize| !pair.a[index].is_finite() && pair.e[index].is_finite();
    let first = (0..pair.a.len()).find(|&index| wrong(index))?;
    let (total, nan) = (0..pair.a.len())
        .filter(|&index| wrong(index))
        .fold((0usize, 0usize), |(total, nan), index| (total + 1, nan + usize::from(pair.a[index].is_nan())));
    let what = match nan {
        0 => "infinity",
        nan if nan == total => "NaN",
        _ => "NaN and infinity",
    };
    let at: Vec<usize> = row_major(pair.shape())
        .iter()
        .zip(pair.shape())
        .map(|(stride, length)| pair.positions[first] / stride % length)
        .collect();
    let width = pair.actual.width();
    let mut rows: Vec<usize> =
        (0..pair.a.len()).filter(|&index| wrong(index)).map(|index| pair.positions[index] / width).collect();
    rows.dedup();
    let shown: Vec<String> = rows.iter().take(4).map(usize::to_string).collect();
    let all = pair.actual.len() / width;
    let which = match rows.len() {
        n if n == all => "in every row".to_owned(),
        1 => format!("in row {} only", rows[0]),
        n if n <= 4 => format!("in rows {}", shown.join(", ")),
        n => format!("in {n} of {all} rows ({}, …)", shown.join(", ")),
    };
    let why = likely(looked, &rows, nan < total);
    let rest = pair.explained_rest(|index| match pair.a[index].is_finite() {
        true => Prediction::Value(pair.e[index]),
        false => Prediction::Silent,
    });
    let agrees = if rest.is_some() { "; the rest agrees" } else { "" };
    let text =
        format!("{what} in {total} of {} elements, first at {at:?}, {which}{agrees}{why}", pair.a.len());
    let residual = rest.unwrap_or(pair.unexplained());
    Some(Found::new(Kind::NonFinite, 1, residual, text))
}

/// What makes such rows, as far as the golden and the tensor before can tell.
fn likely(looked: &Looked, rows: &[usize], infinite: bool) -> String {
    let pair = &looked.pair;
    let absmax = pair.e.iter().filter(|x| plain(**x)).fold(0f64, |most, x| most.max(x.abs()));
    if infinite && absmax > 0.25 * 65504.0 && pair.actual.dtype() == Dtype::Float16 {
        return format!(": float16 ends at 65504, and the golden has {}", Short(absmax));
    }
    let before = looked.inputs(1).next();
    let width = pair.actual.width();
    let of_input = before.and_then(|other| {
        with(looked, other, |field| {
            let row = |row: usize| (0..width).map(move |at| row * width + at);
            let every =
                |of: &dyn Fn(f64) -> bool| rows.iter().take(16).all(|&r| row(r).all(|at| of(field.at(at))));
            if every(&|x| x < -1e4) {
                return Some(format!(": these rows of `{}` are masked whole", other.name));
            }
            let constant =
                rows.iter().take(16).all(|&r| row(r).all(|at| field.at(at) == field.at(r * width)));
            constant.then(|| {
                format!(
                    ": these rows of `{}` are constant, where a norm without an eps divides by zero",
                    other.name
                )
            })
        })
    });
    of_input.unwrap_or_default()
}

/// Numbers that are subnormal, where the golden has ordinary ones.
fn subnormal(pair: &Pair) -> Option<Found> {
    let least = match pair.actual.dtype() {
        Dtype::Float16 => 6.1e-5,
        Dtype::Float64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    };
    let strange = |x: f64| x != 0.0 && x.abs() < least;
    // The tail of a softmax is tiny on both sides.
    let wrong = |index: &usize| strange(pair.a[*index]) && pair.e[*index].abs() > 1e-30;
    let actual = (0..pair.a.len()).filter(wrong).count();
    if pair.actual.dtype() == Dtype::Float16
        || !pair.same_shape()
        || actual == 0
        || actual * 64 < pair.a.len()
    {
        return None;
    }
    let first = pair.a[(0..pair.a.len()).find(wrong)?];
    let text = format!(
        "not computed: {actual} of {} elements are like {first:e}, as memory past the end of an array is",
        pair.a.len()
    );
    let residual = pair.unexplained();
    Some(Found::new(Kind::Subnormal, 1, residual, text))
}

fn constant(pair: &Pair) -> Option<Found> {
    let spread = |values: &[f64]| {
        let (low, high) = values
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)));
        high - low
    };
    let first = *pair.a.first()?;
    let (golden, actual) = (spread(&pair.e), spread(&pair.a));
    // What rounding may have left of a constant.
    let rounding = 4.0 * pair.bar.eps() * first.abs();
    let is_constant = actual <= rounding && golden > 100.0 * rounding && golden.is_finite();
    // An even spread of attention is told as that.
    let even = (first * pair.actual.width() as f64 - 1.0).abs() < 0.01;
    if pair.a.len() < 4 || !is_constant || even {
        return None;
    }
    let text = match first {
        0.0 => "zero throughout".to_owned(),
        value => format!("{} throughout", Short(value)),
    };
    Some(Found::new(Kind::Constant, 1, Residual { rms: actual, part: 1.0, used: f64::INFINITY }, text))
}
