//! How often the error has which size.

use serde::{Deserialize, Serialize};

use super::PairView;

/// Bins per factor of ten.
const PER_DECADE: f64 = 4.0;
/// How many bins are kept; smaller errors count in the first.
const MOST_BINS: usize = 64;

/// Counts of distances, in bins of a quarter of a power of ten.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Elements without any error.
    pub equal: u64,
    /// Elements that disagree and of which at least one is not finite.
    pub not_finite: u64,
    /// The first bin holds distances from `10^(first / 4)`, and smaller ones if there are more bins than are kept.
    pub first: i32,
    /// Elements per bin.
    pub counts: Vec<u64>,
}

impl Histogram {
    pub(super) fn of(pair: &PairView<'_>) -> Self {
        // Bins of float64 lie between -1296 and 1233.
        let mut bins = std::collections::BTreeMap::<i32, u64>::new();
        let mut histogram = Self::default();
        for position in pair.positions() {
            match pair.distance(position) {
                0.0 => histogram.equal += 1,
                distance if distance.is_infinite() => histogram.not_finite += 1,
                distance => *bins.entry((PER_DECADE * distance.log10()).floor() as i32).or_default() += 1,
            }
        }
        let Some((&last, _)) = bins.last_key_value() else { return histogram };
        let lowest = bins.keys().next().copied().unwrap_or(last);
        histogram.first = lowest.max(last - (MOST_BINS as i32 - 1));
        histogram.counts = vec![0; (last - histogram.first + 1) as usize];
        for (bin, count) in bins {
            histogram.counts[(bin - histogram.first).max(0) as usize] += count;
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tensor;
    use super::*;

    #[test]
    fn distances_are_counted_by_magnitude_and_the_bins_are_bounded() {
        let golden = tensor(&[5], |_| 0.0);
        let actual = tensor(&[5], |at| [0.0, 1.0, 1.5, 0.1, 1e-30][at]);
        let histogram = Histogram::of(&PairView::new(&golden.view(), &actual.view(), 1 << 20).unwrap());
        assert_eq!((histogram.equal, histogram.counts.len()), (1, MOST_BINS));
        assert_eq!(histogram.first + MOST_BINS as i32 - 1, 0, "the last bin starts at 1");
        assert_eq!(histogram.counts[MOST_BINS - 1], 2);
        assert_eq!(histogram.counts[0], 1, "1e-30 is below the first bin");
        assert_eq!(histogram.counts.iter().sum::<u64>(), 4);
    }
}
