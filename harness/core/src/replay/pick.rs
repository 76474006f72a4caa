//! Operations that take elements by lists of indices: padding, rolling, flipping, tiling and repeating.

use super::array::{Array, elements};
use super::error::ReplayError;
use super::work::{Buffer, Work};
use crate::recipe::PadMode;

/// An index that stands for the fill value.
const FILL: usize = usize::MAX;

/// The elements of `x` at the listed indices. There is one list per axis; `None` stands for all indices, in order.
///
/// The index [`FILL`] gives `fill`. All other indices must be valid.
pub(super) fn pick(
    x: &Array,
    lists: &[Option<Vec<usize>>],
    fill: f64,
    work: &Work,
) -> Result<Array, ReplayError> {
    let shape: Vec<usize> =
        x.shape().iter().zip(lists).map(|(&length, list)| list.as_ref().map_or(length, Vec::len)).collect();
    let units = x.units();
    let length = elements(&shape)? * units;
    work.elements(length)?;
    let mut out = work.buffer(length)?;
    let Some(last) = lists.iter().rposition(Option::is_some) else { return Ok(x.clone()) };
    if length > 0 {
        // Axes after the last list are copied as a block.
        let block = x.shape()[last + 1..].iter().product::<usize>() * units;
        let mut strides = vec![block; last + 1];
        for axis in (0..last).rev() {
            strides[axis] = strides[axis + 1] * x.shape()[axis + 1];
        }
        let inner = lists[last].as_deref().unwrap_or_default();
        let mut index = vec![0; last];
        loop {
            let mut at = Some(0);
            for (axis, &i) in index.iter().enumerate() {
                let i = lists[axis].as_ref().map_or(i, |list| list[i]);
                at = at.filter(|_| i != FILL).map(|at| at + i * strides[axis]);
            }
            copy_blocks(
                x.values(),
                at,
                inner,
                block,
                |out_of| if out_of % units == 0 { fill } else { 0.0 },
                &mut out,
            );
            if !advance(&mut index, &shape) {
                break;
            }
        }
    }
    Ok(Array::from_buffer(shape, out, x.is_complex()))
}

/// Appends one block per index of the list, from `at` on; without `at`, all blocks are fill values.
fn copy_blocks(
    values: &[f64],
    at: Option<usize>,
    list: &[usize],
    block: usize,
    fill: impl Fn(usize) -> f64,
    out: &mut Buffer,
) {
    match at {
        Some(at) if block == 1 => {
            out.extend(list.iter().map(|&i| if i == FILL { fill(0) } else { values[at + i] }));
        }
        _ => {
            for &i in list {
                match at.filter(|_| i != FILL) {
                    Some(at) => out.extend_from_slice(&values[at + i * block..][..block]),
                    None => out.extend((0..block).map(&fill)),
                }
            }
        }
    }
}

/// Moves an index to the next one in row-major order; false after the last.
pub(super) fn advance(index: &mut [usize], shape: &[usize]) -> bool {
    for (i, &length) in index.iter_mut().zip(shape).rev() {
        *i += 1;
        if *i < length {
            return true;
        }
        *i = 0;
    }
    false
}

/// As [`pick`] along one axis. The list is made only if the result fits into memory.
fn pick_axis(
    x: &Array,
    axis: usize,
    length: usize,
    work: &Work,
    index: impl Fn(usize) -> usize,
) -> Result<Array, ReplayError> {
    let mut shape = x.shape().to_vec();
    x.length(axis)?;
    shape[axis] = length;
    if elements(&shape)? == 0 {
        return Ok(Array::from_buffer(shape, work.buffer(0)?, x.is_complex()));
    }
    // An axis is at most as long as the result, so the list takes at most as much memory.
    drop(work.buffer(elements(&shape)?)?);
    let mut lists = vec![None; x.ndim()];
    lists[axis] = Some((0..length).map(index).collect());
    pick(x, &lists, 0.0, work)
}

/// `x` in reversed order along the axes.
pub(super) fn flip(x: &Array, axes: &[usize], work: &Work) -> Result<Array, ReplayError> {
    axes.iter().try_fold(x.clone(), |x, &axis| {
        let length = x.length(axis)?;
        pick_axis(&x, axis, length, work, |i| length - 1 - i)
    })
}

/// `x` shifted along each of the axes. Elements that leave an axis at one end enter it at the other.
pub(super) fn roll(x: &Array, shifts: &[i64], axes: &[usize], work: &Work) -> Result<Array, ReplayError> {
    if shifts.len() != axes.len() {
        let (shifts, axes) = (shifts.len(), axes.len());
        return Err(ReplayError::operands(format!("it has {shifts} shifts for {axes} axes")));
    }
    shifts.iter().zip(axes).try_fold(x.clone(), |x, (&shift, &axis)| {
        let length = x.length(axis)?;
        let back = i128::from(shift).rem_euclid(length.max(1) as i128) as usize;
        pick_axis(&x, axis, length, work, |i| (i + length - back) % length)
    })
}

/// Copies of the whole array along each axis. If `times` is longer than the shape, axes of length 1 are added in front.
pub(super) fn tile(x: &Array, times: &[usize], work: &Work) -> Result<Array, ReplayError> {
    let Some(added) = times.len().checked_sub(x.ndim()) else {
        return Err(ReplayError::operands(format!("{times:?} has fewer axes than shape {:?}", x.shape())));
    };
    let shape = [&vec![1; added], x.shape()].concat();
    let x = x.reshaped(shape)?;
    times.iter().enumerate().filter(|(_, times)| **times != 1).try_fold(x.clone(), |x, (axis, &times)| {
        let length = x.shape()[axis];
        let total = elements(&[length, times])?;
        pick_axis(&x, axis, total, work, |i| i % length)
    })
}

/// Copies of each element along an axis.
pub(super) fn repeat_interleave(
    x: &Array,
    repeats: usize,
    axis: usize,
    work: &Work,
) -> Result<Array, ReplayError> {
    let total = elements(&[x.length(axis)?, repeats])?;
    pick_axis(x, axis, total, work, |i| i / repeats)
}

/// `x` with another length of an axis. The new element `i` is the old element `index(i)`.
pub(super) fn resize(
    x: &Array,
    axis: usize,
    length: usize,
    work: &Work,
    index: impl Fn(usize) -> usize,
) -> Result<Array, ReplayError> {
    pick_axis(x, axis, length, work, index)
}

/// `x` with more elements at the ends of axes.
pub(super) fn pad(
    x: &Array,
    pads: &[[usize; 2]],
    mode: PadMode,
    value: f64,
    work: &Work,
) -> Result<Array, ReplayError> {
    if pads.len() != x.ndim() {
        return Err(ReplayError::operands(format!("{} pads do not fit shape {:?}", pads.len(), x.shape())));
    }
    let mut shape = Vec::with_capacity(pads.len());
    for (&length, &[before, after]) in x.shape().iter().zip(pads) {
        let added = before.checked_add(after);
        // `Reflect` omits the outermost element, so it adds fewer elements than the axis has. `Circular` can add as many.
        let fits = match mode {
            _ if added == Some(0) => true,
            PadMode::Constant => true,
            PadMode::Reflect => before < length && after < length,
            PadMode::Replicate => length > 0,
            PadMode::Circular => before <= length && after <= length,
        };
        let total = added.and_then(|added| added.checked_add(length)).filter(|_| fits);
        shape.push(total.ok_or_else(|| {
            ReplayError::operands(format!("pads {pads:?} do not fit shape {:?} in mode {mode:?}", x.shape()))
        })?);
    }
    if elements(&shape)? == 0 {
        return Ok(Array::from_buffer(shape, work.buffer(0)?, x.is_complex()));
    }
    drop(work.buffer(elements(&shape)?)?);
    let lists = x.shape().iter().zip(pads).zip(&shape).map(|((&length, &[before, _]), &total)| {
        (total != length).then(|| (0..total).map(|i| padded(i, before, length, mode)).collect())
    });
    pick(x, &lists.collect::<Vec<_>>(), value, work)
}

/// The index of the old element that is at index `i` of a padded axis.
fn padded(i: usize, before: usize, length: usize, mode: PadMode) -> usize {
    if i >= before && i - before < length {
        return i - before;
    }
    match mode {
        PadMode::Constant => FILL,
        PadMode::Reflect if i < before => before - i,
        PadMode::Reflect => 2 * (length - 1) - (i - before),
        PadMode::Replicate if i < before => 0,
        PadMode::Replicate => length - 1,
        PadMode::Circular => (i + length - before) % length,
    }
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
    fn elements_are_flipped_and_rolled() {
        let x = counted(&[2, 3]);
        check(flip(&x, &[1], &work()), &[2, 3], &[2., 1., 0., 5., 4., 3.]);
        check(flip(&x, &[0, 1], &work()), &[2, 3], &[5., 4., 3., 2., 1., 0.]);
        check(roll(&x, &[1], &[1], &work()), &[2, 3], &[2., 0., 1., 5., 3., 4.]);
        check(roll(&x, &[-4, 1], &[1, 0], &work()), &[2, 3], &[4., 5., 3., 1., 2., 0.]);
        check(roll(&x, &[i64::MIN], &[0], &work()), &[2, 3], x.values());
        assert!(roll(&x, &[1], &[0, 1], &work()).is_err());
        assert!(flip(&x, &[2], &work()).is_err());
        check(flip(&counted(&[2, 0]), &[1], &work()), &[2, 0], &[]);
        check(roll(&counted(&[0]), &[3], &[0], &work()), &[0], &[]);
        let complex = counted(&[2, 2]).as_complex().unwrap();
        check(flip(&complex, &[0], &work()), &[2], &[2., 3., 0., 1.]);
    }

    #[test]
    fn elements_are_repeated() {
        let x = counted(&[2]);
        check(tile(&x, &[2, 2], &work()), &[2, 4], &[0., 1., 0., 1., 0., 1., 0., 1.]);
        check(tile(&counted(&[2, 1]), &[1, 2], &work()), &[2, 2], &[0., 0., 1., 1.]);
        check(tile(&x, &[0], &work()), &[0], &[]);
        assert!(tile(&counted(&[1, 1]), &[2], &work()).is_err());
        assert!(tile(&x, &[usize::MAX], &work()).is_err());
        assert!(tile(&x, &[1 << 40], &work()).is_err());
        check(repeat_interleave(&x, 2, 0, &work()), &[4], &[0., 0., 1., 1.]);
        check(repeat_interleave(&x, 0, 0, &work()), &[0], &[]);
        assert!(repeat_interleave(&x, 2, 1, &work()).is_err());
    }

    #[test]
    fn ends_are_padded_as_in_torch() {
        let x = counted(&[3]);
        check(pad(&x, &[[2, 1]], PadMode::Constant, 9.0, &work()), &[6], &[9., 9., 0., 1., 2., 9.]);
        check(pad(&x, &[[2, 1]], PadMode::Reflect, 0.0, &work()), &[6], &[2., 1., 0., 1., 2., 1.]);
        check(pad(&x, &[[2, 1]], PadMode::Replicate, 0.0, &work()), &[6], &[0., 0., 0., 1., 2., 2.]);
        check(pad(&x, &[[2, 1]], PadMode::Circular, 0.0, &work()), &[6], &[1., 2., 0., 1., 2., 0.]);
        assert!(pad(&x, &[[3, 0]], PadMode::Reflect, 0.0, &work()).is_err());
        assert!(pad(&x, &[[4, 0]], PadMode::Circular, 0.0, &work()).is_err());
        assert!(pad(&counted(&[0]), &[[1, 0]], PadMode::Replicate, 0.0, &work()).is_err());
        assert!(pad(&x, &[[usize::MAX, 1]], PadMode::Constant, 0.0, &work()).is_err());
        assert!(pad(&x, &[[1 << 50, 0]], PadMode::Constant, 0.0, &work()).is_err());
        let square = pad(&counted(&[2, 2]), &[[0, 1], [1, 0]], PadMode::Constant, 7.0, &work());
        check(square, &[3, 3], &[7., 0., 1., 7., 2., 3., 7., 7., 7.]);
        let complex = counted(&[1, 2]).as_complex().unwrap();
        check(pad(&complex, &[[1, 0]], PadMode::Constant, 7.0, &work()), &[2], &[7., 0., 0., 1.]);
        check(pad(&counted(&[0]), &[[1, 1]], PadMode::Constant, 4.0, &work()), &[2], &[4., 4.]);
        check(pad(&x, &[[0, 0]], PadMode::Reflect, 0.0, &work()), &[3], x.values());
    }
}
