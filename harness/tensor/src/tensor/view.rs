//! A view of a tensor: shape, strides and borrowed bytes.

use thiserror::Error;

use super::Dtype;

/// Elements in a strided order over borrowed bytes. Making one copies nothing.
///
/// Fortran order, permuted axes, dropped axes of length one and foreign byte order are kept as strides and a flag, so
/// goldens of any size are compared without a copy.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorView<'a> {
    dtype: Dtype,
    shape: Vec<usize>,
    /// One per axis, in elements.
    strides: Vec<usize>,
    swapped: bool,
    bytes: &'a [u8],
}

/// Why bytes and a shape do not make a tensor, or a view cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
#[non_exhaustive]
pub enum ViewError {
    /// The tensor would have more bytes than memory can hold.
    #[error("shape {shape:?} of {dtype} has more bytes than memory can hold")]
    Overflow { dtype: Dtype, shape: Vec<usize> },
    /// The bytes are more or fewer than the shape needs.
    #[error("{dtype} {shape:?} takes {wanted} bytes, but there are {found}")]
    Length { dtype: Dtype, shape: Vec<usize>, wanted: usize, found: usize },
    /// The list does not name each axis exactly once.
    #[error("{axes:?} does not name each of the {ndim} axes once")]
    Axes { axes: Vec<usize>, ndim: usize },
    /// An axis to drop does not exist or has a length other than one.
    #[error("axis {axis} of shape {shape:?} cannot be dropped: it is not an axis of length 1")]
    Squeeze { axis: usize, shape: Vec<usize> },
}

impl<'a> TensorView<'a> {
    /// A view of `bytes` as row-major, little-endian elements.
    ///
    /// # Errors
    ///
    /// When `bytes` has more or fewer bytes than the dtype and the shape need.
    pub fn new(dtype: Dtype, shape: &[usize], bytes: &'a [u8]) -> Result<Self, ViewError> {
        let wanted = byte_len(dtype, shape)?;
        if bytes.len() != wanted {
            return Err(ViewError::Length { dtype, shape: shape.to_vec(), wanted, found: bytes.len() });
        }
        Ok(Self { dtype, shape: shape.to_vec(), strides: row_major(shape), swapped: false, bytes })
    }

    /// A view of bytes whose number was checked when their owner was made.
    pub(super) fn checked_before(dtype: Dtype, shape: &[usize], bytes: &'a [u8]) -> Self {
        debug_assert_eq!(byte_len(dtype, shape), Ok(bytes.len()));
        Self { dtype, shape: shape.to_vec(), strides: row_major(shape), swapped: false, bytes }
    }

    /// The same bytes read in Fortran order, in which the first axis varies fastest.
    pub fn fortran(self) -> Self {
        let mut reversed = self.shape.clone();
        reversed.reverse();
        let mut strides = row_major(&reversed);
        strides.reverse();
        Self { strides, ..self }
    }

    /// The same bytes read as big-endian elements.
    pub fn big_endian(self) -> Self {
        Self { swapped: self.dtype.size() > 1, ..self }
    }

    /// The view whose axis `i` is this view's axis `axes[i]`, as in numpy's `transpose`.
    ///
    /// # Errors
    ///
    /// When `axes` does not name each axis exactly once.
    pub fn permute(self, axes: &[usize]) -> Result<Self, ViewError> {
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..self.ndim()) {
            return Err(ViewError::Axes { axes: axes.to_vec(), ndim: self.ndim() });
        }
        let shape = axes.iter().map(|&axis| self.shape[axis]).collect();
        let strides = axes.iter().map(|&axis| self.strides[axis]).collect();
        Ok(Self { shape, strides, ..self })
    }

    /// The view without the given axes.
    ///
    /// # Errors
    ///
    /// When an axis does not exist or has a length other than one.
    pub fn squeeze(mut self, axes: &[usize]) -> Result<Self, ViewError> {
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        axes.dedup();
        for &axis in axes.iter().rev() {
            if self.shape.get(axis) != Some(&1) {
                return Err(ViewError::Squeeze { axis, shape: self.shape });
            }
            self.shape.remove(axis);
            self.strides.remove(axis);
        }
        Ok(self)
    }

    /// The element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Lengths of the axes; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of axes.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements: 1 for a scalar, 0 when any axis is empty.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// Whether the view has no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes, when they already are the elements in row-major order and native byte order. They may be unaligned.
    pub fn row_major_bytes(&self) -> Option<&'a [u8]> {
        let in_order = row_major(&self.shape)
            .iter()
            .zip(&self.strides)
            .zip(&self.shape)
            .all(|((wanted, stride), &length)| length <= 1 || wanted == stride);
        (self.is_empty() || in_order && self.swapped == cfg!(target_endian = "big")).then_some(self.bytes)
    }

    /// Fills `out` with the elements from row-major position `start`, in native byte order.
    ///
    /// # Panics
    /// When `out` does not hold a whole number of elements, or reaches past the last one.
    pub fn gather(&self, start: usize, out: &mut [u8]) {
        let size = self.dtype.size();
        assert_eq!(out.len() % size, 0, "a gather is of whole elements");
        let count = out.len() / size;
        assert!(start.checked_add(count).is_some_and(|end| end <= self.len()), "a gather past the end");
        if let Some(bytes) = self.row_major_bytes() {
            out.copy_from_slice(&bytes[start * size..][..out.len()]);
            return;
        }
        // The compiler knows the size in each arm, so an element is one load and one store.
        match size {
            1 => self.gather_in_order::<1>(start, out),
            2 => self.gather_in_order::<2>(start, out),
            4 => self.gather_in_order::<4>(start, out),
            _ => self.gather_in_order::<8>(start, out),
        }
        if self.swapped != cfg!(target_endian = "big") {
            // A complex number is two floats, each with its own byte order.
            let unit = if self.dtype == Dtype::Complex64 { 4 } else { size };
            out.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
        }
    }

    /// Fills `out` with elements of `N` bytes in their own byte order, one run along the last axis after the other.
    fn gather_in_order<const N: usize>(&self, start: usize, out: &mut [u8]) {
        let elements = self.bytes.as_chunks::<N>().0;
        let mut out = out.as_chunks_mut::<N>().0;
        let Some((&length, &stride)) = self.shape.last().zip(self.strides.last()) else {
            out.copy_from_slice(&elements[..out.len()]);
            return;
        };
        let last = self.ndim() - 1;
        let mut index = self.index_of(start);
        while !out.is_empty() {
            let at: usize = index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum();
            let (run, rest) = out.split_at_mut((length - index[last]).min(out.len()));
            index[last] += run.len();
            for (i, element) in run.iter_mut().enumerate() {
                *element = elements[at + i * stride];
            }
            out = rest;
            for axis in (1..=last).rev() {
                if index[axis] == self.shape[axis] {
                    index[axis] = 0;
                    index[axis - 1] += 1;
                }
            }
        }
    }

    /// All that reading a single element needs: the bytes, the strides in elements, and whether the bytes of an element
    /// must be swapped on this machine.
    pub fn parts(&self) -> (&'a [u8], &[usize], bool) {
        (self.bytes, &self.strides, self.swapped != cfg!(target_endian = "big"))
    }

    /// The index along each axis of row-major position `position`.
    pub fn index_of(&self, position: usize) -> Vec<usize> {
        let mut rest = position;
        let mut index = vec![0; self.ndim()];
        for (axis, &length) in self.shape.iter().enumerate().rev() {
            index[axis] = rest % length.max(1);
            rest /= length.max(1);
        }
        index
    }
}

/// The number of bytes of a tensor.
///
/// # Errors
///
/// When memory cannot hold so many.
pub fn byte_len(dtype: Dtype, shape: &[usize]) -> Result<usize, ViewError> {
    // An empty axis makes an empty tensor, even when the product of the others overflows.
    let elements =
        if shape.contains(&0) { Some(0) } else { shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) };
    elements
        .and_then(|n| n.checked_mul(dtype.size()))
        .filter(|&n| isize::try_from(n).is_ok())
        .ok_or_else(|| ViewError::Overflow { dtype, shape: shape.to_vec() })
}

/// The strides of a row-major tensor, in elements: the last axis varies fastest.
pub fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn values(view: &TensorView) -> Vec<f32> {
        let mut out = vec![0; view.len() * 4];
        view.gather(0, &mut out);
        out.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    #[test]
    fn permuting_is_what_numpy_means() {
        let data = bytes(&[0., 1., 2., 3., 4., 5.]);
        let view = TensorView::new(Dtype::Float32, &[1, 2, 3], &data).unwrap();
        assert!(view.row_major_bytes().is_some());
        let turned = view.permute(&[2, 0, 1]).unwrap();
        assert_eq!(turned.shape(), [3, 1, 2]);
        assert_eq!(values(&turned), [0., 3., 1., 4., 2., 5.]);
        let mut tail = [0; 8];
        turned.gather(4, &mut tail);
        assert_eq!(tail, bytes(&[2., 5.])[..]);
        assert_eq!(values(&turned.squeeze(&[1]).unwrap()), [0., 3., 1., 4., 2., 5.]);
    }

    #[test]
    fn fortran_and_big_endian_are_undone() {
        let swapped: Vec<u8> = [0f32, 3., 1., 4., 2., 5.].iter().flat_map(|v| v.to_be_bytes()).collect();
        let view = TensorView::new(Dtype::Float32, &[2, 3], &swapped).unwrap().fortran().big_endian();
        assert_eq!(values(&view), [0., 1., 2., 3., 4., 5.]);
        let complex: Vec<u8> = [1f32, 2.].iter().flat_map(|v| v.to_be_bytes()).collect();
        let mut out = [0; 8];
        TensorView::new(Dtype::Complex64, &[], &complex).unwrap().big_endian().gather(0, &mut out);
        assert_eq!(out, bytes(&[1., 2.])[..]);
    }

    proptest! {
        #[test]
        fn any_part_of_any_order_is_what_its_indices_say(
            shape in prop::collection::vec(1..5usize, 0..5),
            turn in 0..24usize,
            fortran: bool,
            big: bool,
            wide: bool,
            ends in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        ) {
            let count: usize = shape.iter().product();
            let dtype = if wide { Dtype::Uint64 } else { Dtype::Uint16 };
            let size = dtype.size();
            // The element that lies at place n in memory is n.
            let data: Vec<u8> = (0..count as u64)
                .flat_map(|n| if big { n.to_be_bytes()[8 - size..].to_vec() } else { n.to_le_bytes()[..size].to_vec() })
                .collect();
            let mut view = TensorView::new(dtype, &shape, &data).unwrap();
            let mut weights: Vec<usize> = vec![1; shape.len()];
            for axis in 0..shape.len() {
                let inner = if fortran { &shape[..axis] } else { &shape[axis + 1..] };
                weights[axis] = inner.iter().product();
            }
            if fortran { view = view.fortran(); }
            if big { view = view.big_endian(); }
            let mut axes: Vec<usize> = (0..shape.len()).collect();
            axes.rotate_left(turn % shape.len().max(1));
            if shape.len() > 1 { axes.swap(0, turn % shape.len()); }
            let view = view.permute(&axes).unwrap();

            let (a, b) = (ends.0.index(count), ends.1.index(count));
            let (start, end) = (a.min(b), a.max(b) + 1);
            let mut out = vec![0; (end - start) * size];
            view.gather(start, &mut out);
            for (position, element) in (start..end).zip(out.chunks_exact(size)) {
                let index = view.index_of(position);
                let expected: usize = index.iter().zip(&axes).map(|(i, &axis)| i * weights[axis]).sum();
                prop_assert_eq!(element, &(expected as u64).to_ne_bytes()[if cfg!(target_endian = "big") { 8 - size..8 } else { 0..size }]);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = TensorView::new(Dtype::Float32, &[2, 2], &[0; 12]).unwrap_err();
        assert_eq!(error.to_string(), "float32 [2, 2] takes 16 bytes, but there are 12");
        assert!(matches!(byte_len(Dtype::Uint8, &[usize::MAX, 2]), Err(ViewError::Overflow { .. })));
        assert_eq!(byte_len(Dtype::Uint8, &[usize::MAX, 2, 0]), Ok(0));
        let view = TensorView::new(Dtype::Uint8, &[1, 2], &[0; 2]).unwrap();
        assert!(matches!(view.clone().permute(&[0, 0]), Err(ViewError::Axes { .. })));
        assert!(matches!(view.squeeze(&[1]), Err(ViewError::Squeeze { axis: 1, .. })));
    }

    #[test]
    fn scalars_and_empty_tensors_have_their_lengths() {
        assert_eq!(TensorView::new(Dtype::Int32, &[], &[0; 4]).unwrap().len(), 1);
        let empty = TensorView::new(Dtype::Int32, &[3, 0], &[]).unwrap();
        assert!(empty.is_empty() && empty.row_major_bytes().is_some());
    }
}
