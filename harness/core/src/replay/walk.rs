//! Walking over arrays of one shape with different strides.

use super::error::ReplayError;

/// The common shape of arrays by NumPy's rules.
///
/// # Errors
///
/// When two lengths differ and neither is 1.
pub(super) fn broadcast(shapes: &[&[usize]]) -> Result<Vec<usize>, ReplayError> {
    let ndim = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut common = vec![1; ndim];
    for shape in shapes {
        let skipped = ndim - shape.len();
        for (length, &other) in common[skipped..].iter_mut().zip(*shape) {
            if *length != other && *length != 1 && other != 1 {
                return Err(ReplayError::operands(format!("shapes {shapes:?} do not broadcast")));
            }
            if *length == 1 {
                *length = other;
            }
        }
    }
    Ok(common)
}

/// The strides that read an array as if it had the larger shape: 0 along axes that are repeated.
///
/// The shape must be a [`broadcast`] of the array's own shape.
pub(super) fn broadcast_strides(own: &[usize], shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = 1;
    for (axis, &length) in own.iter().enumerate().rev() {
        if length != 1 {
            strides[axis + shape.len() - own.len()] = stride;
        }
        stride *= length.max(1);
    }
    strides
}

/// A walk over `N` arrays in the order of their common shape.
pub(super) struct Walk<const N: usize> {
    /// Lengths of all axes but the last one.
    outer: Vec<usize>,
    /// A stride per outer axis and array.
    strides: Vec<[usize; N]>,
    /// The length of the last axis.
    pub(super) length: usize,
    /// The stride of each array along the last axis.
    pub(super) steps: [usize; N],
}

impl<const N: usize> Walk<N> {
    /// A walk over elements of this shape, which must not be empty. Axes that can be walked as one are merged.
    pub(super) fn new(shape: &[usize], strides: [&[usize]; N]) -> Self {
        let mut merged: Vec<(usize, [usize; N])> = Vec::with_capacity(shape.len());
        for (axis, &length) in shape.iter().enumerate() {
            if length == 1 {
                continue;
            }
            let steps = strides.map(|strides| strides[axis]);
            match merged.last_mut() {
                Some((outer, strides))
                    if strides
                        .iter()
                        .zip(steps)
                        .all(|(&outer, step)| outer == step.saturating_mul(length)) =>
                {
                    *outer *= length;
                    *strides = steps;
                }
                _ => merged.push((length, steps)),
            }
        }
        let (length, steps) = merged.pop().unwrap_or((1, [0; N]));
        let (outer, strides) = merged.into_iter().unzip();
        Self { outer, strides, length, steps }
    }

    /// Calls `row` for each row along the last axis, with the position of its first element in each array.
    pub(super) fn rows(&self, mut row: impl FnMut([usize; N])) {
        let mut index = vec![0; self.outer.len()];
        let mut at = [0; N];
        loop {
            row(at);
            let mut axis = self.outer.len();
            loop {
                let Some(next) = axis.checked_sub(1) else { return };
                axis = next;
                index[axis] += 1;
                let strides = &self.strides[axis];
                if index[axis] < self.outer[axis] {
                    at.iter_mut().zip(strides).for_each(|(at, stride)| *at += stride);
                    break;
                }
                index[axis] = 0;
                let back = self.outer[axis] - 1;
                at.iter_mut().zip(strides).for_each(|(at, stride)| *at -= stride * back);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_walk(shape: &[usize], strides: [&[usize]; 2], length: usize, expected: &[[usize; 2]]) {
        let walk = Walk::new(shape, strides);
        let mut rows = Vec::new();
        walk.rows(|at| rows.push(at));
        assert_eq!((walk.length, rows.as_slice()), (length, expected));
    }

    #[test]
    fn a_walk_merges_axes_and_visits_rows_in_order() {
        check_walk(&[2, 3], [&[3, 1], &[3, 1]], 6, &[[0, 0]]);
        check_walk(&[2, 3], [&[3, 1], &[0, 1]], 3, &[[0, 0], [3, 0]]);
        check_walk(&[2, 2, 2], [&[4, 2, 1], &[1, 2, 4]], 2, &[[0, 0], [2, 2], [4, 1], [6, 3]]);
        check_walk(&[], [&[], &[]], 1, &[[0, 0]]);
        check_walk(&[1, 1], [&[7, 7], &[0, 0]], 1, &[[0, 0]]);
    }

    #[test]
    fn shapes_broadcast_as_in_numpy() {
        assert_eq!(broadcast(&[&[3, 1], &[2, 1, 4]]), Ok(vec![2, 3, 4]));
        assert_eq!(broadcast(&[&[1], &[0]]), Ok(vec![0]));
        assert_eq!(broadcast(&[&[], &[2]]), Ok(vec![2]));
        assert!(broadcast(&[&[3], &[2]]).is_err());
        assert!(broadcast(&[&[0], &[2]]).is_err());
        assert_eq!(broadcast_strides(&[3, 1], &[2, 3, 4]), [0, 1, 0]);
    }
}
