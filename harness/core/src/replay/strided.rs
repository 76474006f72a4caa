//! Operations that read elements with other strides: permute, expand, slice, and writing into slices.

use super::array::{Array, elements};
use super::binary::to_complex;
use super::error::ReplayError;
use super::walk::{Walk, broadcast, broadcast_strides};
use super::work::Work;
use crate::recipe::Slice;
use crate::tensor::row_major;

/// The array whose axis `i` is axis `axes[i]` of `x`.
pub(super) fn permute(x: &Array, axes: &[usize], work: &Work) -> Result<Array, ReplayError> {
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..x.ndim()) {
        let shape = x.shape();
        return Err(ReplayError::operands(format!("{axes:?} does not name each axis of {shape:?} once")));
    }
    if axes.iter().copied().eq(0..x.ndim()) {
        return Ok(x.clone());
    }
    let shape = axes.iter().map(|&axis| x.shape()[axis]).collect();
    let strides = row_major(x.shape());
    copy(x, 0, shape, &axes.iter().map(|&axis| strides[axis]).collect::<Vec<_>>(), work)
}

/// `x` with axes of length 1 repeated, and axes added in front.
pub(super) fn expand(x: &Array, shape: &[usize], work: &Work) -> Result<Array, ReplayError> {
    if x.shape() == shape {
        return Ok(x.clone());
    }
    if broadcast(&[x.shape(), shape]).ok().as_deref() != Some(shape) {
        return Err(ReplayError::operands(format!("shape {:?} cannot be expanded to {shape:?}", x.shape())));
    }
    copy(x, 0, shape.to_vec(), &broadcast_strides(x.shape(), shape), work)
}

/// A range of indices along an axis.
pub(super) fn slice(x: &Array, slice: Slice, work: &Work) -> Result<Array, ReplayError> {
    let length = slice_length(x, slice)?;
    if length == x.shape()[slice.axis] && slice.step == 1 {
        return Ok(x.clone());
    }
    let (mut shape, mut strides) = (x.shape().to_vec(), row_major(x.shape()));
    let offset = slice.start.saturating_mul(strides[slice.axis]);
    shape[slice.axis] = length;
    strides[slice.axis] = strides[slice.axis].saturating_mul(slice.step);
    copy(x, offset, shape, &strides, work)
}

/// The number of indices of a slice, which must lie inside its axis.
fn slice_length(x: &Array, Slice { axis, start, end, step }: Slice) -> Result<usize, ReplayError> {
    let length = x.length(axis)?;
    if start > end || end > length || step == 0 {
        return Err(ReplayError::operands(format!(
            "slice {start}..{end} by {step} does not fit axis {axis} of shape {:?}",
            x.shape()
        )));
    }
    Ok((end - start).div_ceil(step))
}

/// `x` with the elements of the slices replaced by `value`, which is broadcast to them.
pub(super) fn put(x: &Array, slices: &[Slice], value: &Array, work: &Work) -> Result<Array, ReplayError> {
    if x.is_complex() || value.is_complex() {
        return put_complex(x, slices, value, work);
    }
    let (mut shape, mut strides) = (x.shape().to_vec(), row_major(x.shape()));
    let mut offset = 0;
    for (index, &slice) in slices.iter().enumerate() {
        if slices[..index].iter().any(|other| other.axis == slice.axis) {
            return Err(ReplayError::operands(format!("axis {} has two slices", slice.axis)));
        }
        shape[slice.axis] = slice_length(x, slice)?;
        offset += slice.start.saturating_mul(strides[slice.axis]);
        strides[slice.axis] = strides[slice.axis].saturating_mul(slice.step);
    }
    if broadcast(&[value.shape(), &shape]).ok().as_deref() != Some(&shape) {
        return Err(ReplayError::operands(format!(
            "shape {:?} cannot be written into a slice of shape {shape:?}",
            value.shape()
        )));
    }
    work.elements(x.len())?;
    let mut out = work.buffer(x.len())?;
    out.extend_from_slice(x.values());
    if elements(&shape)? > 0 {
        let walk = Walk::new(&shape, [&strides, &broadcast_strides(value.shape(), &shape)]);
        let [step, step_value] = walk.steps;
        let value = value.values();
        walk.rows(|[at, at_value]| {
            for i in 0..walk.length {
                out[offset + at + i * step] = value[at_value + i * step_value];
            }
        });
    }
    Ok(Array::real(x.shape().to_vec(), out))
}

fn put_complex(x: &Array, slices: &[Slice], value: &Array, work: &Work) -> Result<Array, ReplayError> {
    let [x, value] = [x, value].map(|operand| to_complex(operand, work));
    put(&x?.as_real(), slices, &value?.as_real(), work)?.as_complex()
}

/// Copies the elements of `x` that the strides reach from `offset`. These must be inside `x` unless the shape is empty.
fn copy(
    x: &Array,
    offset: usize,
    shape: Vec<usize>,
    strides: &[usize],
    work: &Work,
) -> Result<Array, ReplayError> {
    let units = x.units();
    let length = elements(&shape)? * units;
    work.elements(length)?;
    let mut out = work.buffer(length)?;
    if length > 0 {
        // The two parts of complex numbers form a last axis, which no operation changes.
        let mut inner = shape.clone();
        inner.push(units);
        let mut strides: Vec<usize> = strides.iter().map(|stride| stride * units).collect();
        strides.push(1);
        let walk = Walk::new(&inner, [&strides]);
        let [step] = walk.steps;
        let values = &x.values()[offset * units..];
        match step {
            1 => walk.rows(|[at]| out.extend_from_slice(&values[at..][..walk.length])),
            0 => walk.rows(|[at]| out.extend(std::iter::repeat_n(values[at], walk.length))),
            _ => walk.rows(|[at]| out.extend(values[at..].iter().step_by(step).take(walk.length).copied())),
        }
    }
    Ok(Array::from_buffer(shape, out, x.is_complex()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> Work {
        Work::new(1 << 30, 1 << 30)
    }

    fn counted(shape: &[usize]) -> Array {
        let length = elements(shape).unwrap();
        Array::new(shape.to_vec(), (0..length).map(|i| i as f64).collect()).unwrap()
    }

    #[track_caller]
    fn check(found: Result<Array, ReplayError>, shape: &[usize], values: &[f64]) {
        let found = found.unwrap();
        assert_eq!((found.shape(), found.values()), (shape, values));
    }

    #[test]
    fn axes_are_permuted_and_expanded() {
        let x = counted(&[2, 3]);
        check(permute(&x, &[1, 0], &work()), &[3, 2], &[0., 3., 1., 4., 2., 5.]);
        assert!(permute(&x, &[0, 0], &work()).is_err());
        assert!(permute(&x, &[0], &work()).is_err());
        check(
            expand(&counted(&[2, 1]), &[2, 2, 3], &work()),
            &[2, 2, 3],
            &[0., 0., 0., 1., 1., 1., 0., 0., 0., 1., 1., 1.],
        );
        assert!(expand(&x, &[4, 3], &work()).is_err());
        assert!(expand(&x, &[3], &work()).is_err());
        assert!(expand(&x, &[1 << 40, 2, 3], &work()).is_err());
        check(expand(&counted(&[1]), &[0], &work()), &[0], &[]);
        check(permute(&counted(&[0, 3]), &[1, 0], &work()), &[3, 0], &[]);
    }

    #[test]
    fn slices_are_read_and_written() {
        let x = counted(&[3, 4]);
        let cut = |axis, start, end, step| Slice { axis, start, end, step };
        check(slice(&x, cut(0, 1, 2, 1), &work()), &[1, 4], &[4., 5., 6., 7.]);
        check(slice(&x, cut(1, 1, 4, 2), &work()), &[3, 2], &[1., 3., 5., 7., 9., 11.]);
        check(slice(&x, cut(1, 2, 2, 1), &work()), &[3, 0], &[]);
        check(slice(&x, cut(0, 2, 3, usize::MAX), &work()), &[1, 4], &[8., 9., 10., 11.]);
        assert!(slice(&x, cut(1, 2, 5, 1), &work()).is_err());
        assert!(slice(&x, cut(2, 0, 1, 1), &work()).is_err());
        assert!(slice(&x, cut(1, 3, 2, 1), &work()).is_err());
        let value = Array::new(vec![2], vec![-1., -2.]).unwrap();
        check(
            put(&x, &[cut(1, 0, 4, 3), cut(0, 0, 2, 1)], &value, &work()),
            &[3, 4],
            &[-1., 1., 2., -2., -1., 5., 6., -2., 8., 9., 10., 11.],
        );
        check(put(&x, &[cut(1, 1, 1, 1)], &Array::scalar(7.0), &work()), &[3, 4], x.values());
        assert!(put(&x, &[cut(1, 0, 3, 1)], &value, &work()).is_err());
        assert!(put(&x, &[cut(1, 0, 2, 1), cut(1, 0, 2, 1)], &value, &work()).is_err());
        assert!(put(&x, &[cut(7, 0, 2, 1)], &value, &work()).is_err());
    }

    #[test]
    fn complex_elements_stay_together() {
        let x = counted(&[2, 2, 2]).as_complex().unwrap();
        check(permute(&x, &[1, 0], &work()), &[2, 2], &[0., 1., 4., 5., 2., 3., 6., 7.]);
        check(slice(&x, Slice { axis: 1, start: 1, end: 2, step: 1 }, &work()), &[2, 1], &[2., 3., 6., 7.]);
        let row = put(&x, &[Slice { axis: 0, start: 0, end: 1, step: 1 }], &Array::scalar(9.0), &work());
        check(row, &[2, 2], &[9., 0., 9., 0., 4., 5., 6., 7.]);
    }
}
