//! `|actual - expected| <= atol + rtol * |expected|` for integers, without rounding.

use std::cmp::Ordering;

/// The exponent of the smallest positive float64: every finite float64 is a whole multiple of `2^-1074`.
const SCALE: usize = 1074;
/// Enough words for a product below `2^(65 + 64)` in multiples of `2^-1074`, plus a number below `2^65`.
const WORDS: usize = 20;

/// An exact tolerance for integers: both parts in whole multiples of `2^-1074`.
#[derive(Debug, Clone)]
pub(super) struct IntegerBound {
    rtol: f64,
    atol: f64,
    exact_rtol: Wide,
    exact_atol: Wide,
}

type Wide = [u64; WORDS];

impl IntegerBound {
    pub(super) fn new(rtol: f64, atol: f64) -> Self {
        Self { rtol, atol, exact_rtol: scaled(rtol), exact_atol: scaled(atol) }
    }

    /// Whether `difference <= atol + rtol * expected`, both absolute values. A bound that overflows float64 allows no
    /// difference, as for floats.
    pub(super) fn allows(&self, difference: u64, expected: u64) -> bool {
        if difference == 0 && self.atol >= 0.0 && self.rtol >= 0.0 {
            return true;
        }
        // The rounded bound decides, unless the difference is so close that rounding could change the answer.
        let (bound, difference_rounded) = (self.atol + self.rtol * expected as f64, difference as f64);
        if !bound.is_finite() || difference_rounded > bound * (1.0 + 1e-14) {
            return false;
        }
        if difference_rounded < bound * (1.0 - 1e-14) {
            return true;
        }
        let mut exact = self.exact_atol;
        add_product(&mut exact, &self.exact_rtol, expected);
        compare(&shifted(difference, SCALE), &exact) != Ordering::Greater
    }
}

/// A non-negative float64 in multiples of `2^-1074`. Numbers at or above `2^65` count as `2^65`, which is more than any
/// difference.
fn scaled(x: f64) -> Wide {
    if x.is_nan() || x <= 0.0 {
        return [0; WORDS];
    }
    let bits = x.min(2f64.powi(65)).to_bits();
    let exponent = (bits >> 52) as usize;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 { shifted(fraction, 0) } else { shifted(fraction | 1 << 52, exponent - 1) }
}

fn shifted(x: u64, by: usize) -> Wide {
    let mut wide = [0; WORDS];
    let (word, bit) = (by / 64, by % 64);
    wide[word] = x << bit;
    if bit > 0 {
        wide[word + 1] = x >> (64 - bit);
    }
    wide
}

fn add_product(into: &mut Wide, x: &Wide, factor: u64) {
    let mut carry = 0u128;
    for (into, &x) in into.iter_mut().zip(x) {
        // At most (2^64 - 1)^2 + 2 * (2^64 - 1), which is 2^128 - 1.
        let sum = u128::from(x) * u128::from(factor) + u128::from(*into) + carry;
        *into = sum as u64;
        carry = sum >> 64;
    }
}

fn compare(a: &Wide, b: &Wide) -> Ordering {
    a.iter().rev().cmp(b.iter().rev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rtol: f64, atol: f64, difference: u64, expected: u64, allowed: bool) {
        assert_eq!(IntegerBound::new(rtol, atol).allows(difference, expected), allowed);
    }

    #[test]
    fn a_unit_decides_where_float64_cannot_see_it() {
        let big = 1 << 60;
        check(0.0, big as f64, big, 0, true);
        check(0.0, big as f64, big + 1, 0, false);
        check(0.5, 0.0, big, 2 * big, true);
        check(0.5, 0.0, big + 1, 2 * big + 1, false);
        check(0.5, 0.5, big + 1, 2 * big + 1, true);
        check(1.0, 0.0, u64::MAX, u64::MAX, true);
        check(1.0, 0.0, u64::MAX, u64::MAX - 1, false);
        check(1.0, f64::MIN_POSITIVE, u64::MAX, u64::MAX - 1, false);
        check(1.0, 1.0, u64::MAX, u64::MAX - 1, true);
    }

    #[test]
    fn decimal_tolerances_are_the_float64_they_are() {
        // 0.1 is a little more than a tenth, 0.7 a little less than seven tenths.
        check(0.1, 0.0, 1, 10, true);
        check(0.7, 0.0, 7, 10, false);
        check(0.0, 5e-324, 1, 0, false);
        check(0.0, 0.0, 0, 9, true);
        check(0.0, f64::INFINITY, 1, 0, false);
        check(1e300, 0.0, 1, u64::MAX, false);
        check(1e300, 0.0, 0, u64::MAX, true);
        check(f64::NAN, 0.0, 1, 1, false);
    }
}
