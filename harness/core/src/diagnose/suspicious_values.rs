//! Values that no right computation gives: NaN and infinity, foreign memory, a constant.

use super::diagnosis::Observation;
use super::numbers::plain;
use super::{FactKind, Search};
use crate::number::Short;
use crate::tensor::Dtype;
use crate::tensor::row_major;

/// NaN or infinity where the golden is finite, with the rows that have them.
pub(super) fn non_finite(search: &Search) -> Observation {
    let pair = &search.pair;
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
    let why = likely(search, &rows, nan < total);
    let agrees =
        if pair.agrees_where(|index| pair.a[index].is_finite()) { "; all other elements agree" } else { "" };
    let text =
        format!("{what} in {total} of {} elements, first at {at:?}, {which}{agrees}{why}", pair.a.len());
    Some((FactKind::NonFinite, text))
}

/// A likely reason, from the golden and the tensor before; empty without one.
fn likely(search: &Search, rows: &[usize], infinite: bool) -> String {
    let pair = &search.pair;
    let absmax = pair.e.iter().filter(|x| plain(**x)).fold(0f64, |most, x| most.max(x.abs()));
    if infinite && absmax > 0.25 * 65504.0 && pair.actual.dtype() == Dtype::Float16 {
        return format!("; float16 ends at 65504, and the golden reaches {}", Short(absmax));
    }
    let before = search.inputs(1).next();
    let width = pair.actual.width();
    let of_input = before.and_then(|other| {
        search.with_values(other, |numbers| {
            let row = |row: usize| (0..width).map(move |at| row * width + at);
            let every =
                |of: &dyn Fn(f64) -> bool| rows.iter().take(16).all(|&r| row(r).all(|at| of(numbers.at(at))));
            if every(&|x| x < -1e4) {
                return Some(format!("; these rows of `{}` are masked completely", other.name));
            }
            let constant =
                rows.iter().take(16).all(|&r| row(r).all(|at| numbers.at(at) == numbers.at(r * width)));
            constant.then(|| {
                format!(
                    "; these rows of `{}` are constant, so that a norm without eps divides by zero",
                    other.name
                )
            })
        })
    });
    of_input.unwrap_or_default()
}

/// Subnormal numbers where the golden has ordinary ones.
pub(super) fn subnormal(search: &Search) -> Observation {
    let pair = &search.pair;
    let least = match pair.actual.dtype() {
        Dtype::Float16 => return None,
        Dtype::Float64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    };
    let strange = |x: f64| x != 0.0 && x.abs() < least;
    // In the tail of a softmax, both sides are tiny.
    let wrong = |index: &usize| strange(pair.a[*index]) && pair.e[*index].abs() > 1e-30;
    let count = (0..pair.a.len()).filter(wrong).count();
    if count == 0 || count * 64 < pair.a.len() {
        return None;
    }
    let first = pair.a[(0..pair.a.len()).find(wrong)?];
    let text = format!(
        "{count} of {} elements are subnormal, such as {first:e}, where the golden has ordinary numbers",
        pair.a.len()
    );
    Some((FactKind::Subnormal, text))
}

/// The same number everywhere, where the golden is not constant.
pub(super) fn constant(search: &Search) -> Observation {
    let pair = &search.pair;
    let spread = |values: &[f64]| {
        let (low, high) = values
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)));
        high - low
    };
    let first = *pair.a.first()?;
    let (golden, actual) = (spread(&pair.e), spread(&pair.a));
    // A constant may differ by rounding.
    let rounding = 4.0 * pair.bound.eps() * first.abs();
    let is_constant = actual <= rounding && golden > 100.0 * rounding && golden.is_finite();
    if pair.a.len() < 4 || !is_constant {
        return None;
    }
    let text = match first {
        0.0 => "zero everywhere".to_owned(),
        value => format!("{} everywhere", Short(value)),
    };
    Some((FactKind::Constant, text))
}
