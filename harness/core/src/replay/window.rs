//! Windows of convolutions and pools along each spatial axis.

use super::array::elements;
use super::error::ReplayError;

/// The windows along one axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    /// The length of the axis without padding.
    pub(super) length: usize,
    /// Elements of a window.
    pub(super) kernel: usize,
    /// Distance between windows.
    pub(super) stride: usize,
    /// Elements added in front.
    pub(super) before: usize,
    /// Distance between the elements of a window.
    pub(super) dilation: usize,
    /// The number of windows.
    pub(super) windows: usize,
}

impl Axis {
    /// The windows along an axis. At least one window must fit.
    pub(super) fn new(
        length: usize,
        kernel: usize,
        stride: usize,
        [before, after]: [usize; 2],
        dilation: usize,
    ) -> Result<Self, ReplayError> {
        let bad = || {
            ReplayError::operands(format!(
                "a window of {kernel} with dilation {dilation} and stride {stride} does not fit a length of {length} with \
                 padding {before} and {after}"
            ))
        };
        // Limits both lengths, so that the sums below do not overflow.
        elements(&[length.max(1), kernel.max(1)])?;
        let reach = kernel.checked_sub(1).and_then(|last| last.checked_mul(dilation)).ok_or_else(bad)?;
        let padded =
            length.checked_add(before).and_then(|length| length.checked_add(after)).ok_or_else(bad)?;
        let room = padded.checked_sub(1).and_then(|last| last.checked_sub(reach)).ok_or_else(bad)?;
        if stride == 0 || dilation == 0 || padded >= usize::MAX / 4 {
            return Err(bad());
        }
        Ok(Self { length, kernel, stride, before, dilation, windows: room / stride + 1 })
    }

    /// The windows that a transposed convolution fills: one per element of its input, along an axis of its result.
    pub(super) fn of_result(
        windows: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
        more: usize,
        dilation: usize,
    ) -> Result<Self, ReplayError> {
        let length = || {
            let last_window = windows.saturating_sub(1).checked_mul(stride)?;
            let last_element = kernel.saturating_sub(1).checked_mul(dilation)?;
            let padded = last_window.checked_add(last_element)?.checked_add(more)?.checked_add(1)?;
            padded.checked_sub(padding.checked_mul(2)?)
        };
        let length = length().ok_or_else(|| {
            ReplayError::operands(format!(
                "padding {padding} is more than the result of {windows} windows has"
            ))
        })?;
        Ok(Self { length, kernel, stride, before: padding, dilation, windows })
    }

    /// The position on the axis of an element of a window; `None` in the padding.
    pub(super) fn place(&self, window: usize, element: usize) -> Option<usize> {
        let padded = window * self.stride + element * self.dilation;
        padded.checked_sub(self.before).filter(|&place| place < self.length)
    }
}

/// Checks that each list has one item per spatial axis, of which there are one to three.
pub(super) fn check_lists(space: &[usize], lists: &[usize]) -> Result<(), ReplayError> {
    if (1..=3).contains(&space.len()) && lists.iter().all(|&length| length == space.len()) {
        return Ok(());
    }
    Err(ReplayError::operands(format!(
        "lists of {lists:?} numbers do not fit the spatial axes {space:?}, of which there are one to three"
    )))
}

/// The index along each axis of a row-major position.
pub(super) fn index_of<const N: usize>(mut position: usize, lengths: [usize; N]) -> [usize; N] {
    let mut index = [0; N];
    for axis in (0..N).rev() {
        index[axis] = position % lengths[axis].max(1);
        position /= lengths[axis].max(1);
    }
    index
}

/// Extends one or two axes to three. The new axes are in front, have length 1 and a window of 1.
pub(super) fn three(axes: &[Axis]) -> [Axis; 3] {
    let one = Axis { length: 1, kernel: 1, stride: 1, before: 0, dilation: 1, windows: 1 };
    let mut all = [one; 3];
    all[3 - axes.len()..].copy_from_slice(axes);
    all
}
