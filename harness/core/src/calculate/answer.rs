//! The values of expressions, and how they are printed.

use std::fmt;

use serde::Serialize;

use crate::number;
use crate::replay::Array;
use crate::text::printable::clean;

/// The value of one statement.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The text of the statement, or the variable that it sets.
    pub source: String,
    /// The value.
    pub value: Array,
}

/// A value in JSON: its shape, and its elements in row-major order.
#[derive(Debug, Clone, Serialize)]
pub struct Printed {
    /// Lengths of the axes.
    pub shape: Vec<usize>,
    /// The first elements, at most 10,000. A complex element is two numbers.
    pub values: Vec<Number>,
    /// Elements that are left out.
    pub left_out: usize,
}

/// A number in JSON, in which NaN and infinities are text.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(transparent)]
pub struct Number(#[serde(with = "number")] pub f64);

/// The most elements in JSON.
const MOST_LISTED: usize = 10_000;
/// The most elements that are printed whole.
const MOST_PRINTED: usize = 200;
/// Elements at each end of a longer axis.
const ENDS: usize = 3;

impl Answer {
    /// The value as text: a number as it is, a tensor as nested lists with its shape.
    pub fn text(&self) -> String {
        shown(&self.value)
    }

    pub(super) fn new(source: &str, value: Array) -> Self {
        Self { source: source.to_owned(), value }
    }
}

impl From<&Array> for Printed {
    fn from(value: &Array) -> Self {
        let values: Vec<Number> = value.values().iter().take(MOST_LISTED).copied().map(Number).collect();
        Self { shape: value.shape().to_vec(), left_out: value.values().len() - values.len(), values }
    }
}

/// Prints a number as it is, and a tensor as nested lists, with dots in a long axis and its shape at the end.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", clean(&self.source), shown(&self.value))
    }
}

/// A value as text.
pub(super) fn shown(value: &Array) -> String {
    if value.ndim() == 0 {
        return element(value, 0);
    }
    let mut text = String::new();
    let whole = value.len() <= MOST_PRINTED;
    list(value, 0, 0, whole, &mut text);
    format!("{text}  {:?}", value.shape())
}

fn list(value: &Array, axis: usize, start: usize, whole: bool, text: &mut String) {
    let Some(&length) = value.shape().get(axis) else {
        *text += &element(value, start);
        return;
    };
    let inner: usize = value.shape()[axis + 1..].iter().product();
    let is_last = axis + 1 == value.ndim();
    text.push('[');
    let mut is_first = true;
    for index in 0..length {
        let hidden = !whole && length > 2 * ENDS + 1 && (ENDS..length - ENDS).contains(&index);
        if hidden && index > ENDS {
            continue;
        }
        if !is_first {
            *text += if is_last { ", " } else { ",\n" };
            if !is_last {
                *text += &" ".repeat(axis + 1);
            }
        }
        is_first = false;
        if hidden {
            text.push('…');
        } else {
            list(value, axis + 1, start + index * inner, whole, text);
        }
    }
    text.push(']');
}

fn element(value: &Array, at: usize) -> String {
    match value.is_complex() {
        false => short(value.values()[at]),
        true => format!("({}, {})", short(value.values()[2 * at]), short(value.values()[2 * at + 1])),
    }
}

/// A number with up to eight significant digits; whole numbers have all of theirs.
pub fn short(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor();
    if (-4.0..8.0).contains(&magnitude) {
        let digits = (7.0 - magnitude).max(0.0) as usize;
        let text = format!("{value:.digits$}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let text = format!("{value:.7e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        None => text,
    }
}
