//! The spread of a block: the sum of squared distances from its mean.

use pulp::{Arch, NullaryFnOnce};

use super::element::Element;

/// The numbers of a block.
#[derive(Debug, Clone, Copy)]
pub(super) enum Numbers<'a, T> {
    Of(&'a [T]),
    /// `actual - expected` of these two.
    Errors(&'a [T], &'a [T]),
}

/// The spread from the plain sums, or `None` when they cancel too many digits.
pub(super) fn spread_from_sums(count: usize, sum: f64, squares: f64) -> Option<f64> {
    let spread = squares - sum * sum / count as f64;
    (squares.is_finite() && spread >= 0.05 * squares).then_some(spread)
}

/// The spread from a rounded mean.
pub(super) fn spread_around<T: Element>(mean: f64, numbers: Numbers<'_, T>) -> f64 {
    Arch::new().dispatch(SpreadAround { mean, numbers })
}

struct SpreadAround<'a, T> {
    mean: f64,
    numbers: Numbers<'a, T>,
}

/// Independent additions.
const LANES: usize = 16;

impl<T: Element> NullaryFnOnce for SpreadAround<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let (mut total, mut squares, mut count) = ([0.0; LANES], [0.0; LANES], 0);
        match self.numbers {
            Numbers::Of(values) => {
                let (chunks, rest) = values.as_chunks::<LANES>();
                for chunk in chunks {
                    for i in 0..LANES {
                        add(&mut total[i], &mut squares[i], chunk[i].number() - self.mean);
                    }
                }
                for x in rest {
                    add(&mut total[0], &mut squares[0], x.number() - self.mean);
                }
                count += values.len();
            }
            Numbers::Errors(expected, actual) => {
                let ((e, e_rest), (a, a_rest)) = (expected.as_chunks::<LANES>(), actual.as_chunks::<LANES>());
                for (e, a) in e.iter().zip(a) {
                    for i in 0..LANES {
                        add(&mut total[i], &mut squares[i], a[i].number() - e[i].number() - self.mean);
                    }
                }
                for (e, a) in e_rest.iter().zip(a_rest) {
                    add(&mut total[0], &mut squares[0], a.number() - e.number() - self.mean);
                }
                count += expected.len();
            }
        }
        let (total, squares): (f64, f64) = (total.iter().sum(), squares.iter().sum());
        // The mean is rounded, so the distances do not add up to zero. This corrects for it.
        (squares - total * total / count as f64).max(0.0)
    }
}

#[inline(always)]
fn add(total: &mut f64, squares: &mut f64, distance: f64) {
    *total += distance;
    *squares += distance * distance;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_plain_sums_cannot_tell_is_found_around_the_mean() {
        assert_eq!(spread_from_sums(2, 2e9, 2e18 + 2.0), None);
        let numbers: Vec<f64> = (0..35).map(|i| 1e9 + f64::from(i) - 17.0).collect();
        assert_eq!(spread_around(1e9 + 0.25, Numbers::Of(&numbers)), 3570.0);
        let zeros = vec![0.0; 35];
        assert_eq!(spread_around(1e9 + 0.25, Numbers::Errors(&zeros, &numbers)), 3570.0);
    }
}
