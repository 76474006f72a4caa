//! The elements of a twin's tensor and of its counterpart that correspond.

use std::ops::Range;

use crate::spec::Counterpart;
use crate::tensor::{Dtype, Tensor, TensorView};

/// The same number of elements in two tensors: in that of a twin, and in that of the run it is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correspondence {
    /// The elements of the twin's tensor.
    pub actual: SelectedRows,
    /// The elements of the other run's tensor.
    pub expected: SelectedRows,
    /// With `along`: the indices that this hit covers, and how many are left for later hits.
    pub along: Option<(usize, usize)>,
}

/// Elements of a tensor, as runs of adjacent ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedRows {
    /// The shape of the tensor that they are selected from.
    from: Vec<usize>,
    /// The shape of the selected elements.
    shape: Vec<usize>,
    /// The first element of each run.
    starts: Vec<usize>,
    /// The length of each run.
    length: usize,
}

/// Why two tensors have no corresponding elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowsError {
    /// A key of the spec does not fit the tensors.
    Spec(String),
    /// The shapes of the corresponding parts differ.
    Shape(String),
}

impl Correspondence {
    /// Returns which elements of `actual` correspond to which of `expected`, two shapes.
    ///
    /// `taken` is the number of indices along `counterpart.along` that earlier hits have covered. `mask` is needed where
    /// the counterpart names one.
    ///
    /// # Errors
    ///
    /// When a key does not fit the tensors, or the parts have different shapes.
    pub fn new(
        counterpart: &Counterpart,
        expected: &[usize],
        actual: &[usize],
        taken: usize,
        mask: Option<&Tensor>,
    ) -> Result<Self, RowsError> {
        let part = |part: &Option<crate::spec::TensorPart>, key: &str, shape: &[usize]| match part {
            None => Ok(shape.iter().map(|&length| 0..length).collect::<Vec<_>>()),
            Some(part) => part.of(shape).map_err(|problem| RowsError::Spec(format!("`{key}`: {problem}"))),
        };
        let of_actual = part(&counterpart.slice, "slice", actual)?;
        let mut of_expected = part(&counterpart.of_slice, "of_slice", expected)?;
        let mut along = None;
        if let Some(axis) = counterpart.along {
            let (Some(rows), Some(all)) = (of_actual.get(axis), of_expected.get_mut(axis)) else {
                let problem =
                    format!("`along` is axis {axis}, but the shapes are {expected:?} and {actual:?}");
                return Err(RowsError::Spec(problem));
            };
            let start = all.start + taken;
            if start + rows.len() > all.end {
                return Err(RowsError::Shape(format!(
                    "the hits so far have {} rows along axis {axis}, but the other run has only {}",
                    taken + rows.len(),
                    all.len()
                )));
            }
            along = Some((rows.len(), all.end - start - rows.len()));
            *all = start..start + rows.len();
        }
        let lengths = |ranges: &[Range<usize>]| ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>();
        if lengths(&of_actual) != lengths(&of_expected) {
            return Err(RowsError::Shape(format!(
                "the other run has {:?}, this one {:?}",
                lengths(&of_expected),
                lengths(&of_actual)
            )));
        }
        let Some(mask) = mask else {
            let whole = |shape: &[usize], ranges: &[Range<usize>]| SelectedRows::new(shape, ranges, None);
            return Ok(Self {
                actual: whole(actual, &of_actual),
                expected: whole(expected, &of_expected),
                along,
            });
        };
        let kept = kept(mask, actual, &of_actual)?;
        Ok(Self {
            actual: SelectedRows::new(actual, &of_actual, Some((mask.shape().len(), &kept))),
            expected: SelectedRows::new(expected, &of_expected, Some((mask.shape().len(), &kept))),
            along,
        })
    }
}

/// Whether each row of the selected ones is compared: where the mask, over the first axes of the tensor, is not 0.
fn kept(mask: &Tensor, shape: &[usize], ranges: &[Range<usize>]) -> Result<Vec<bool>, RowsError> {
    let axes = mask.shape().len();
    if shape.get(..axes) != Some(mask.shape()) || axes == 0 {
        return Err(RowsError::Spec(format!(
            "`mask` has shape {:?}, expected the first lengths of {shape:?}",
            mask.shape()
        )));
    }
    let rows = SelectedRows::new(mask.shape(), &ranges[..axes], None).take(&mask.view());
    let size = rows.dtype().size();
    let view = rows.view();
    let bytes = view.row_major_bytes().unwrap_or_default();
    let kept: Vec<bool> = bytes.chunks(size).map(|element| element.iter().any(|&byte| byte != 0)).collect();
    match kept.contains(&true) {
        true => Ok(kept),
        false => Err(RowsError::Spec("`mask` selects no row".to_owned())),
    }
}

impl SelectedRows {
    /// `kept` has a number of axes, and for each selected combination of their indices whether it counts.
    fn new(from: &[usize], ranges: &[Range<usize>], kept: Option<(usize, &[bool])>) -> Self {
        // Axes behind the last one that is cut are whole, so their elements are adjacent.
        let cut = ranges.iter().zip(from).rposition(|(range, &length)| range.len() != length);
        let (masked, kept) = kept.map_or((0, None), |(axes, kept)| (axes, Some(kept)));
        let outer = cut.map_or(0, |axis| axis + 1).max(masked);
        let length: usize = from[outer..].iter().product();
        let count: usize = ranges[..outer].iter().map(ExactSizeIterator::len).product();
        let inner: usize = ranges[masked..outer].iter().map(ExactSizeIterator::len).product();
        let mut starts = Vec::with_capacity(count);
        for index in 0..count {
            if kept.is_some_and(|kept| !kept[index / inner.max(1)]) {
                continue;
            }
            let (mut rest, mut stride, mut start) = (index, length, 0);
            for (range, &whole) in ranges[..outer].iter().zip(from).rev() {
                start += (range.start + rest % range.len()) * stride;
                rest /= range.len();
                stride *= whole;
            }
            starts.push(start);
        }
        let mut shape: Vec<usize> = ranges.iter().map(ExactSizeIterator::len).collect();
        if let Some(kept) = kept {
            // The masked axes become one axis with the rows that count.
            shape.splice(..masked, [kept.iter().filter(|kept| **kept).count()]);
        }
        Self { from: from.to_vec(), shape, starts, length }
    }

    /// Returns the shape of the selected elements.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the rows of `width` elements, counted in the whole tensor, that the selected elements begin.
    ///
    /// Selected parts of rows are those of the last axis; 1 stands for elements that are rows themselves.
    pub fn rows(&self, width: usize) -> Vec<usize> {
        let selected = if width == 1 { 1 } else { self.shape.last().copied().unwrap_or(1).max(1) };
        let count = self.starts.len() * self.length;
        let position = |at: usize| self.starts[at / self.length] + at % self.length;
        (0..count).step_by(selected).map(|at| position(at) / width.max(1)).collect()
    }

    /// Returns the selected elements. The tensor must have the shape that the selection was made for.
    pub fn take(&self, tensor: &TensorView<'_>) -> Tensor {
        let size = tensor.dtype().size();
        let mut bytes = vec![0; self.starts.len() * self.length * size];
        if self.length > 0 {
            for (start, out) in self.starts.iter().zip(bytes.chunks_mut(self.length * size)) {
                tensor.gather(*start, out);
            }
        }
        made(tensor.dtype(), &self.shape, bytes)
    }

    /// Returns `tensor` with `values` in place of the selected elements. Both must have the same dtype.
    pub fn put(&self, tensor: &TensorView<'_>, values: &TensorView<'_>) -> Tensor {
        let size = tensor.dtype().size();
        let mut bytes = vec![0; tensor.len() * size];
        tensor.gather(0, &mut bytes);
        for (row, start) in self.starts.iter().enumerate() {
            let place = start * size..(start + self.length) * size;
            values.gather(row * self.length, &mut bytes[place]);
        }
        made(tensor.dtype(), &self.from, bytes)
    }
}

/// A tensor of bytes that were counted for its shape.
fn made(dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> Tensor {
    match Tensor::from_vec(dtype, shape.to_vec(), bytes) {
        Ok(tensor) => tensor,
        Err(error) => unreachable!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::TensorPart;

    fn counting(shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        let bytes = (0..count).flat_map(|x| (x as f32).to_le_bytes()).collect();
        Tensor::from_vec(Dtype::Float32, shape.to_vec(), bytes).unwrap()
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        let view = tensor.view();
        let bytes = view.row_major_bytes().unwrap();
        bytes.chunks(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
    }

    fn part(text: &str) -> Option<TensorPart> {
        Some(TensorPart::parse(text).unwrap())
    }

    fn mask(shape: &[usize], bits: &[u8]) -> Tensor {
        Tensor::from_vec(Dtype::Bool, shape.to_vec(), bits.to_vec()).unwrap()
    }

    #[test]
    fn a_slice_takes_and_puts_the_same_elements() {
        let counterpart = Counterpart { slice: part("[1:2, 1:]"), ..Counterpart::default() };
        let found = Correspondence::new(&counterpart, &[1, 2, 2], &[2, 3, 2], 0, None).unwrap();
        let actual = counting(&[2, 3, 2]);
        let taken = found.actual.take(&actual.view());
        assert_eq!((taken.shape(), values(&taken)), (&[1, 2, 2][..], vec![8.0, 9.0, 10.0, 11.0]));
        assert_eq!(values(&found.expected.take(&counting(&[1, 2, 2]).view())), [0.0, 1.0, 2.0, 3.0]);
        let put = found.actual.put(&actual.view(), &counting(&[1, 2, 2]).view());
        assert_eq!(values(&put), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn rows_are_counted_in_the_whole_tensor() {
        let counterpart = Counterpart { slice: part("[1:2, 1:]"), ..Counterpart::default() };
        let found = Correspondence::new(&counterpart, &[1, 2, 2], &[2, 3, 2], 0, None).unwrap();
        assert_eq!((found.actual.rows(2), found.expected.rows(2)), (vec![4, 5], vec![0, 1]));
        assert_eq!(found.expected.rows(1), [0, 1, 2, 3]);
        let counterpart = Counterpart { along: Some(1), ..Counterpart::default() };
        let found = Correspondence::new(&counterpart, &[2, 3], &[2, 1], 2, None).unwrap();
        assert_eq!(found.expected.rows(1), [2, 5]);
    }

    #[test]
    fn hits_follow_one_another_along_an_axis() {
        let counterpart = Counterpart { along: Some(1), ..Counterpart::default() };
        let found = Correspondence::new(&counterpart, &[2, 3], &[2, 1], 2, None).unwrap();
        assert_eq!(values(&found.expected.take(&counting(&[2, 3]).view())), [2.0, 5.0]);
        assert_eq!(found.along, Some((1, 0)));
        let more = Correspondence::new(&counterpart, &[2, 3], &[2, 2], 2, None).unwrap_err();
        let text = "the hits so far have 4 rows along axis 1, but the other run has only 3";
        assert_eq!(more, RowsError::Shape(text.to_owned()));
        let none = Correspondence::new(&counterpart, &[2], &[2], 0, None).unwrap_err();
        assert_eq!(none, RowsError::Spec("`along` is axis 1, but the shapes are [2] and [2]".to_owned()));
    }

    #[test]
    fn a_mask_selects_rows_of_both() {
        let counterpart = Counterpart { mask: Some("m".to_owned()), ..Counterpart::default() };
        let bits = mask(&[2, 2], &[0, 1, 1, 1]);
        let found = Correspondence::new(&counterpart, &[2, 2, 2], &[2, 2, 2], 0, Some(&bits)).unwrap();
        let tensor = counting(&[2, 2, 2]);
        let taken = found.actual.take(&tensor.view());
        assert_eq!((taken.shape(), values(&taken)), (&[3, 2][..], vec![2.0, 3.0, 4.0, 5.0, 6.0, 7.0]));
        assert_eq!(values(&found.expected.take(&tensor.view())), values(&taken));
        // Its indices are those of the twin's own tensor, before `slice`.
        let sliced = Counterpart { slice: part("[1:]"), ..counterpart.clone() };
        let bits = mask(&[2, 2], &[1, 1, 0, 1]);
        let found = Correspondence::new(&sliced, &[1, 2, 2], &[2, 2, 2], 0, Some(&bits)).unwrap();
        assert_eq!(values(&found.actual.take(&tensor.view())), [6.0, 7.0]);
        assert_eq!(values(&found.expected.take(&counting(&[1, 2, 2]).view())), [2.0, 3.0]);
        let none =
            Correspondence::new(&sliced, &[1, 2, 2], &[2, 2, 2], 0, Some(&mask(&[2, 2], &[1, 1, 0, 0])));
        assert_eq!(none.unwrap_err(), RowsError::Spec("`mask` selects no row".to_owned()));
        let other = Correspondence::new(&counterpart, &[3, 2], &[3, 2], 0, Some(&mask(&[2], &[1, 1])));
        let text = "`mask` has shape [2], expected the first lengths of [3, 2]";
        assert_eq!(other.unwrap_err(), RowsError::Spec(text.to_owned()));
    }

    #[test]
    fn parts_of_other_shapes_do_not_correspond() {
        let counterpart = Counterpart { slice: part("[:, 3:]"), ..Counterpart::default() };
        let found = Correspondence::new(&counterpart, &[1, 4], &[1, 8], 0, None).unwrap_err();
        assert_eq!(found, RowsError::Shape("the other run has [1, 4], this one [1, 5]".to_owned()));
        let short = Correspondence::new(&counterpart, &[1, 4], &[1, 2], 0, None).unwrap_err();
        assert!(
            matches!(short, RowsError::Spec(text) if text.starts_with("`slice`: `[:, 3:]` selects nothing"))
        );
    }
}
