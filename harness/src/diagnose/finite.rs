//! What no ordinary value can be: NaN and infinity, foreign memory, a constant.

use super::facts::Seen;
use super::field::row_major;
use super::others::with;
use super::scene::plain;
use super::{FactKind, Looked};
use crate::compare::number::Short;
use crate::tensor::Dtype;

pub(super) fn non_finite(looked: &Looked) -> Seen {
    let pair = &looked.pair;
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
    let agrees = if pair.agrees_where(|index| pair.a[index].is_finite()) { "; the rest agrees" } else { "" };
    let text =
        format!("{what} in {total} of {} elements, first at {at:?}, {which}{agrees}{why}", pair.a.len());
    Some((FactKind::NonFinite, text))
}

/// What the golden and the tensor before have in such rows that can make them.
fn likely(looked: &Looked, rows: &[usize], infinite: bool) -> String {
    let pair = &looked.pair;
    let absmax = pair.e.iter().filter(|x| plain(**x)).fold(0f64, |most, x| most.max(x.abs()));
    if infinite && absmax > 0.25 * 65504.0 && pair.actual.dtype() == Dtype::Float16 {
        return format!("; float16 ends at 65504, and the golden has {}", Short(absmax));
    }
    let before = looked.inputs(1).next();
    let width = pair.actual.width();
    let of_input = before.and_then(|other| {
        with(looked, other, |field| {
            let row = |row: usize| (0..width).map(move |at| row * width + at);
            let every =
                |of: &dyn Fn(f64) -> bool| rows.iter().take(16).all(|&r| row(r).all(|at| of(field.at(at))));
            if every(&|x| x < -1e4) {
                return Some(format!("; these rows of `{}` are masked whole", other.name));
            }
            let constant =
                rows.iter().take(16).all(|&r| row(r).all(|at| field.at(at) == field.at(r * width)));
            constant.then(|| {
                format!(
                    "; these rows of `{}` are constant, where a norm without an eps divides by zero",
                    other.name
                )
            })
        })
    });
    of_input.unwrap_or_default()
}

/// Numbers that are subnormal, where the golden has ordinary ones.
pub(super) fn subnormal(looked: &Looked) -> Seen {
    let pair = &looked.pair;
    let least = match pair.actual.dtype() {
        Dtype::Float16 => return None,
        Dtype::Float64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    };
    let strange = |x: f64| x != 0.0 && x.abs() < least;
    // The tail of a softmax is tiny on both sides.
    let wrong = |index: &usize| strange(pair.a[*index]) && pair.e[*index].abs() > 1e-30;
    let count = (0..pair.a.len()).filter(wrong).count();
    if count == 0 || count * 64 < pair.a.len() {
        return None;
    }
    let first = pair.a[(0..pair.a.len()).find(wrong)?];
    let text = format!(
        "{count} of {} elements are subnormal, like {first:e}, where the golden has ordinary numbers",
        pair.a.len()
    );
    Some((FactKind::Subnormal, text))
}

pub(super) fn constant(looked: &Looked) -> Seen {
    let pair = &looked.pair;
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
    if pair.a.len() < 4 || !is_constant {
        return None;
    }
    let text = match first {
        0.0 => "zero throughout".to_owned(),
        value => format!("{} throughout", Short(value)),
    };
    Some((FactKind::Constant, text))
}
