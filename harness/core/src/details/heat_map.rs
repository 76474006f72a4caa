//! The error by two axes, as a small grid.

use serde::{Deserialize, Serialize};

use super::PairView;
use crate::number;
use crate::tensor::row_major;

/// How many cells the grid has at most along either axis.
const MOST_CELLS: usize = 64;
/// The letters of the levels: the first for no error, the last for elements that are not finite on one side only.
const LEVELS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The level of elements that are not finite on one side only.
const NOT_FINITE: usize = LEVELS.len() - 1;

/// The largest error per block of a tensor, by the two axes along which the error varies most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeatMap {
    /// The shape of the tensor.
    pub shape: Vec<usize>,
    /// The axis from top to bottom; absent if the tensor has one axis.
    pub rows_axis: Option<usize>,
    /// The axis from left to right.
    pub columns_axis: usize,
    /// The smallest largest error of a block that has one.
    #[serde(with = "number")]
    pub low: f64,
    /// The largest finite error.
    #[serde(with = "number")]
    pub high: f64,
    /// One text per row of blocks, one letter per block. `A` is no error. `B` to `-` are levels from `low` to `high`, evenly
    /// spread over the logarithm of the error. `_` is a block with an element that is not finite on one side only.
    pub cells: Vec<String>,
}

impl HeatMap {
    pub(super) fn of(pair: &PairView<'_>) -> Option<Self> {
        let shape = pair.shape();
        let (rows_axis, columns_axis) = telling_axes(pair)?;
        let strides = row_major(shape);
        let rows = rows_axis.map_or(1, |axis| shape[axis]);
        let columns = shape[columns_axis];
        let (height, width) = (rows.min(MOST_CELLS), columns.min(MOST_CELLS));
        let mut grid = vec![0.0f64; height * width];
        for position in pair.positions() {
            let index = |axis: usize| position / strides[axis] % shape[axis];
            let row = rows_axis.map_or(0, index) * height / rows;
            let cell = &mut grid[row * width + index(columns_axis) * width / columns];
            *cell = cell.max(pair.distance(position));
        }
        let finite = || grid.iter().copied().filter(|x| *x > 0.0 && x.is_finite());
        let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(0.0, f64::max));
        let low = low.min(high);
        let letter = |&x: &f64| char::from(LEVELS[level(x, low, high)]);
        let cells = grid.chunks(width).map(|row| row.iter().map(letter).collect()).collect();
        Some(Self { shape: shape.to_vec(), rows_axis, columns_axis, low, high, cells })
    }
}

fn level(x: f64, low: f64, high: f64) -> usize {
    match x {
        0.0 => 0,
        x if x.is_infinite() => NOT_FINITE,
        _ if low >= high => NOT_FINITE - 1,
        x => {
            let part = (x / low).ln() / (high / low).ln();
            1 + (part * (NOT_FINITE - 2) as f64).round().clamp(0.0, (NOT_FINITE - 2) as f64) as usize
        }
    }
}

/// The two axes along which the error varies most, in the tensor's order; `None` for a scalar.
///
/// The measure per axis is the variance of the mean squared error per index, relative to its mean squared. Independent
/// errors alone give about `2 / n` with `n` elements per index, which is subtracted. Errors are relative to the largest one.
fn telling_axes(pair: &PairView<'_>) -> Option<(Option<usize>, usize)> {
    let shape = pair.shape();
    let strides = row_major(shape);
    let axes: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis] > 1).collect();
    let mut chosen = match axes[..] {
        [] => return (!shape.is_empty()).then_some((None, 0)),
        [only] => return Some((None, only)),
        [first, second] => vec![first, second],
        _ => {
            let finite = |x: &f64| x.is_finite();
            let most = pair.positions().map(|at| pair.distance(at)).filter(finite).fold(0.0, f64::max);
            let most = if most > 0.0 { most } else { 1.0 };
            let mut energy: Vec<Vec<f64>> = axes.iter().map(|&axis| vec![0.0; shape[axis]]).collect();
            for position in pair.positions() {
                let square = (pair.distance(position) / most).min(2.0).powi(2);
                for (&axis, energy) in axes.iter().zip(&mut energy) {
                    energy[position / strides[axis] % shape[axis]] += square;
                }
            }
            let count = pair.positions().count() as f64;
            let measure = |energy: &[f64]| {
                let length = energy.len() as f64;
                let mean = energy.iter().sum::<f64>() / length;
                let variance = energy.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / length;
                if mean > 0.0 { variance / (mean * mean) - 2.0 * length / count } else { 0.0 }
            };
            let mut ranked: Vec<(f64, usize)> =
                axes.iter().zip(&energy).map(|(&axis, energy)| (measure(energy), axis)).collect();
            // Of equally telling axes, the last ones: they hold features and tokens.
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
            ranked.iter().take(2).map(|(_, axis)| *axis).collect()
        }
    };
    chosen.sort_unstable();
    Some((chosen.first().copied(), *chosen.last()?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::tensor;
    use super::*;

    fn map(shape: &[usize], error: impl Fn(usize) -> f32) -> HeatMap {
        let (golden, actual) = (tensor(shape, |_| 0.0), tensor(shape, error));
        HeatMap::of(&PairView::new(&golden.view(), &actual.view(), 1 << 20).unwrap()).unwrap()
    }

    #[test]
    fn the_axes_along_which_the_error_varies_are_chosen() {
        // Heads 2 and 3, and the second half of the features; every token is equally wrong.
        let (heads, tokens, width) = (4, 6, 10);
        let found = map(&[heads, tokens, width], |at| {
            let (head, feature) = (at / (tokens * width), at % width);
            if head >= 2 && feature >= 5 { 0.25 } else { 0.0 }
        });
        assert_eq!((found.rows_axis, found.columns_axis), (Some(0), 2));
        assert_eq!(found.cells, ["AAAAAAAAAA", "AAAAAAAAAA", "AAAAA-----", "AAAAA-----"]);
        assert_eq!((found.low, found.high), (0.25, 0.25));
    }

    #[test]
    fn cells_are_block_maxima_on_a_log_scale_and_the_grid_is_bounded() {
        let found = map(&[200, 3], |at| match at {
            0 => 1e-6,
            300 => 1.0,
            599 => f32::NAN,
            _ => 0.0,
        });
        assert_eq!((found.cells.len(), found.cells[0].len()), (MOST_CELLS, 3));
        assert_eq!((&found.cells[0][..], &found.cells[32][..], &found.cells[63][..]), ("BAA", "-AA", "AA_"));
        assert!((found.low - 1e-6).abs() < 1e-12 && found.high == 1.0);
        assert_eq!(map(&[1, 1], |_| 0.5).cells, ["-"]);
        assert_eq!(map(&[7], |at| at as f32).cells.len(), 1);
    }
}
