//! Sums that stay accurate over any number of elements.
//!
//! A block is summed in plain float64 over independent lanes. The sum of blocks also keeps the rounding error of every
//! addition, so a billion elements lose no more digits than a thousand.

/// A float64 sum with the error of its additions (Neumaier).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    #[inline]
    pub(super) fn add(&mut self, x: f64) {
        let sum = self.high + x;
        // An infinite sum has no error to keep: `inf - inf` would turn it into NaN.
        if sum.is_finite() {
            let larger_is_sum = self.high.abs() >= x.abs();
            let (large, small) = if larger_is_sum { (self.high, x) } else { (x, self.high) };
            self.low += (large - sum) + small;
        }
        self.high = sum;
    }

    #[inline]
    pub(super) fn merge(&mut self, other: Self) {
        self.add(other.high);
        self.add(other.low);
    }

    #[inline]
    pub(super) fn value(self) -> f64 {
        if self.high.is_finite() { self.high + self.low } else { self.high }
    }

    /// Adds `sign * x * x / n`, where `x` is itself a sum, with the error of the product and of the quotient.
    #[inline]
    fn add_square_over(&mut self, x: Self, n: f64, sign: f64) {
        let high = x.value();
        let low = if high.is_finite() { (x.high - high) + x.low } else { 0.0 };
        let (square, error) = product(high, high);
        let quotient = square / n;
        self.add(sign * quotient);
        let (back, back_error) = product(quotient, n);
        let rest = ((square - back) - back_error + error + 2.0 * high * low) / n;
        if rest.is_finite() {
            self.add(sign * rest);
        }
    }
}

/// A product and its rounding error (Dekker). A fused operation would be a library call on most machines. The error is
/// NaN when a factor or the product is above about 1e300.
#[inline]
fn product(x: f64, y: f64) -> (f64, f64) {
    let split = |x: f64| {
        let scaled = 134_217_729.0 * x;
        let high = scaled - (scaled - x);
        (high, x - high)
    };
    let ((x_high, x_low), (y_high, y_low)) = (split(x), split(y));
    let product = x * y;
    (product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low)
}

/// Count, sum and spread of numbers that arrive in blocks.
///
/// The spread inside blocks and between them are kept apart, so that a large mean does not hide a small deviation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Moments {
    pub(super) count: u64,
    sum: Sum,
    within: Sum,
    between: Sum,
}

impl Moments {
    /// Adds a block of `count` numbers with this `sum`; `spread` is the sum of squared distances from their mean.
    #[inline]
    pub(super) fn push(&mut self, count: u64, sum: f64, spread: f64) {
        if count == 0 {
            return;
        }
        self.count += count;
        self.sum.add(sum);
        self.within.add(spread);
        self.between.add_square_over(Sum { high: sum, low: 0.0 }, count as f64, 1.0);
    }

    #[inline]
    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum.merge(other.sum);
        self.within.merge(other.within);
        self.between.merge(other.between);
    }

    /// The mean; NaN without numbers.
    pub(super) fn mean(&self) -> f64 {
        self.sum.value() / self.count as f64
    }

    /// The sum of squares; infinite when it overflows float64.
    pub(super) fn sum_of_squares(&self) -> f64 {
        let mut total = self.within;
        total.merge(self.between);
        // The numbers were finite, so only the difference of two overflows can make a NaN.
        if total.value().is_nan() { f64::INFINITY } else { total.value() }
    }

    /// The sum of squared distances from the mean of all numbers.
    pub(super) fn spread(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let mut total = self.within;
        total.merge(self.between);
        total.add_square_over(self.sum, self.count as f64, -1.0);
        total.value().max(0.0)
    }

    /// The population standard deviation, the default of numpy's `std`; NaN without numbers.
    pub(super) fn deviation(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { (self.spread() / self.count as f64).sqrt() }
    }
}

/// Count, sum and spread of a block, in two passes: the mean first, then the distances from it.
pub(super) fn centred(values: impl Iterator<Item = f64> + Clone) -> (u64, f64, f64) {
    let (mut count, mut sum) = (0u64, Sum::default());
    for x in values.clone() {
        count += 1;
        sum.add(x);
    }
    let sum = sum.value();
    let mean = sum / count as f64;
    let (mut distance, mut squares) = (0.0, 0.0);
    for x in values {
        let d = x - mean;
        distance += d;
        squares += d * d;
    }
    // The mean is rounded, so the distances do not add up to zero. This corrects for it.
    let spread = if count == 0 { 0.0 } else { squares - distance * distance / count as f64 };
    // `NaN.max(0.0)` is 0, which would turn an overflow into a spread of zero.
    (count, sum, if spread.is_nan() { f64::INFINITY } else { spread.max(0.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_terms_survive_large_ones() {
        let mut sum = Sum::default();
        for _ in 0..1000 {
            for x in [1e17, 1.0, -1e17] {
                sum.add(x);
            }
        }
        assert_eq!(sum.value(), 1000.0);
    }

    #[test]
    fn an_infinite_sum_stays_infinite() {
        let mut sum = Sum::default();
        [f64::MAX, f64::MAX, 1.0].into_iter().for_each(|x| sum.add(x));
        assert_eq!(sum.value(), f64::INFINITY);
    }

    #[test]
    fn a_large_mean_does_not_swallow_the_deviation() {
        // Two blocks around 1e9, each of -1 and +1 around its own mean, the means 2 apart.
        let mut moments = Moments::default();
        for mean in [1e9 - 1.0, 1e9 + 1.0] {
            let block = [mean - 1.0, mean + 1.0];
            let (count, sum, spread) = centred(block.into_iter());
            moments.push(count, sum, spread);
        }
        assert_eq!(moments.mean(), 1e9);
        assert_eq!(moments.deviation(), 2f64.sqrt());
    }
}
