//! Positions of patches, and the windows in which they attend to each other.

use mlx_rs::Array;
use serde::Deserialize;

/// An image or video in patches: frames, height, width.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(from = "[i32; 3]")]
pub struct Grid {
    /// Number of frames, 1 for an image.
    pub frames: i32,
    /// Height in patches.
    pub height: i32,
    /// Width in patches.
    pub width: i32,
}

impl From<[i32; 3]> for Grid {
    fn from([frames, height, width]: [i32; 3]) -> Self {
        Self { frames, height, width }
    }
}

/// Tokens in the order of windows.
#[derive(Debug, Clone, Default)]
pub(super) struct Windows {
    /// The token at each place.
    pub(super) order: Vec<i32>,
    /// Number of patches in each window.
    pub(super) lengths: Vec<i32>,
}

/// Row and column of each patch, `[patches, 2]`. The patches of one token are adjacent.
pub(super) fn positions(grids: &[Grid], merge: i32) -> Array {
    let mut positions = Vec::new();
    for grid in grids {
        for _ in 0..grid.frames {
            for (row, column) in cells(grid.height, grid.width, merge) {
                positions
                    .extend(cells(merge, merge, 1).flat_map(|(y, x)| [row * merge + y, column * merge + x]));
            }
        }
    }
    Array::from_slice(&positions, &[positions.len() as i32 / 2, 2])
}

/// Number of patches in each frame.
pub(super) fn frames(grids: &[Grid]) -> Vec<i32> {
    grids.iter().flat_map(|grid| (0..grid.frames).map(|_| grid.height * grid.width)).collect()
}

/// Windows of `window` times `window` tokens, smaller at the right and at the bottom.
pub(super) fn windows(grids: &[Grid], merge: i32, window: i32) -> Windows {
    let mut windows = Windows::default();
    let mut before = 0;
    for grid in grids {
        let (height, width) = (grid.height / merge, grid.width / merge);
        for _ in 0..grid.frames {
            for (top, left) in cells(height + window - 1, width + window - 1, window) {
                let rows = top * window..height.min((top + 1) * window);
                let columns = left * window..width.min((left + 1) * window);
                windows.lengths.push(rows.len() as i32 * columns.len() as i32 * merge * merge);
                let tokens =
                    rows.flat_map(|row| columns.clone().map(move |column| before + row * width + column));
                windows.order.extend(tokens);
            }
            before += height * width;
        }
    }
    windows
}

/// Rows and columns of the squares of this size, line by line.
fn cells(height: i32, width: i32, size: i32) -> impl Iterator<Item = (i32, i32)> {
    (0..height / size).flat_map(move |row| (0..width / size).map(move |column| (row, column)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_at_the_edges_are_smaller_and_none_is_empty() {
        let windows = windows(&[Grid { frames: 2, height: 6, width: 4 }], 2, 2);
        assert_eq!(windows.order, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(windows.lengths, [16, 8, 16, 8]);
    }

    #[test]
    fn patches_of_a_token_stand_together() {
        let positions = positions(&[Grid { frames: 1, height: 2, width: 4 }], 2);
        let rows_and_columns: Vec<i32> = positions.as_slice().to_vec();
        assert_eq!(rows_and_columns, [0, 0, 0, 1, 1, 0, 1, 1, 0, 2, 0, 3, 1, 2, 1, 3]);
    }
}
