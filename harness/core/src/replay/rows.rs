//! Arrays as rows: some axes are moved to the end, so that the elements of a row are contiguous.

use super::array::{Array, elements};
use super::error::ReplayError;
use super::strided::permute;
use super::work::{Buffer, Work};

/// An array whose chosen axes were moved to the end.
pub(super) struct AxesLast {
    /// The array in its new order.
    pub(super) array: Array,
    /// Elements of a row: the product of the chosen axes.
    pub(super) length: usize,
    /// The order of the axes.
    order: Vec<usize>,
}

impl AxesLast {
    /// Moves the axes to the end, in their given order. No element is copied when they are there already.
    pub(super) fn of(x: &Array, axes: &[usize], work: &Work) -> Result<Self, ReplayError> {
        x.check_real()?;
        for (index, &axis) in axes.iter().enumerate() {
            x.length(axis)?;
            if axes[..index].contains(&axis) {
                return Err(ReplayError::operands(format!("axes {axes:?} name an axis twice")));
            }
        }
        let kept = (0..x.ndim()).filter(|axis| !axes.contains(axis));
        let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
        let lengths: Vec<usize> = axes.iter().map(|&axis| x.shape()[axis]).collect();
        Ok(Self { array: permute(x, &order, work)?, length: elements(&lengths)?, order })
    }

    /// The rows. An array without elements has none, even if it has axes that are not empty.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[f64]> {
        self.array.values().chunks_exact(self.length.max(1))
    }

    /// Returns an array of new values for these elements, with the axes in their old order.
    pub(super) fn restore(&self, values: Buffer, work: &Work) -> Result<Array, ReplayError> {
        let mut back = vec![0; self.order.len()];
        for (to, &from) in self.order.iter().enumerate() {
            back[from] = to;
        }
        permute(&Array::real(self.array.shape().to_vec(), values), &back, work)
    }
}
