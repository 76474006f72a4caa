//! Operations that join arrays, set one side of a diagonal to zero, or move elements between channels and space.

use super::array::{Array, elements};
use super::binary::to_complex;
use super::error::ReplayError;
use super::strided::permute;
use super::work::Work;

/// Arrays one after the other along an axis.
pub(super) fn cat(parts: &[Array], axis: usize, work: &Work) -> Result<Array, ReplayError> {
    let complex = parts.iter().any(Array::is_complex);
    // torch.cat ignores empty arrays with one axis, whatever the shape of the others.
    let is_ignored = |part: &&Array| part.shape() == [0] && parts.iter().any(|other| other.ndim() != 1);
    let parts: Vec<Array> = parts
        .iter()
        .filter(|part| !is_ignored(part))
        .map(|part| if complex { to_complex(part, work) } else { Ok(part.clone()) })
        .collect::<Result<_, _>>()?;
    let Some(first) = parts.first() else { return Err(ReplayError::operands("no operand has elements")) };
    let mut shape = first.shape().to_vec();
    first.length(axis)?;
    shape[axis] = 0;
    for part in &parts {
        let agree = part.ndim() == shape.len()
            && (0..shape.len()).all(|other| other == axis || part.shape()[other] == shape[other]);
        if !agree {
            return Err(ReplayError::operands(format!(
                "shapes {:?} and {:?} cannot be joined along axis {axis}",
                first.shape(),
                part.shape()
            )));
        }
        shape[axis] = shape[axis]
            .checked_add(part.shape()[axis])
            .ok_or_else(|| ReplayError::operands("the joined axis is too long"))?;
    }
    let units = first.units();
    let length = elements(&shape)? * units;
    work.elements(length)?;
    let mut out = work.buffer(length)?;
    if length > 0 {
        let outer: usize = shape[..axis].iter().product();
        for row in 0..outer {
            for part in &parts {
                let block = part.values().len() / outer;
                out.extend_from_slice(&part.values()[row * block..][..block]);
            }
        }
    }
    Ok(Array::from_buffer(shape, out, complex))
}

/// Arrays of one shape along a new axis.
pub(super) fn stack(parts: &[Array], axis: usize, work: &Work) -> Result<Array, ReplayError> {
    let longer = |part: &Array| {
        let mut shape = part.shape().to_vec();
        if axis > shape.len() {
            return Err(ReplayError::operands(format!("shape {shape:?} gets no new axis {axis}")));
        }
        shape.insert(axis, 1);
        part.reshaped(shape)
    };
    let parts: Vec<Array> = parts.iter().map(longer).collect::<Result<_, _>>()?;
    cat(&parts, axis, work)
}

/// `x` with zeros above (`lower`) or below the diagonal of its last two axes.
pub(super) fn triangle(x: &Array, diagonal: i64, lower: bool, work: &Work) -> Result<Array, ReplayError> {
    let [.., rows, columns] = *x.shape() else {
        return Err(ReplayError::operands(format!("shape {:?} has no matrices", x.shape())));
    };
    work.elements(x.values().len())?;
    let mut out = work.buffer(x.values().len())?;
    out.extend_from_slice(x.values());
    if x.is_empty() {
        return Ok(x.clone());
    }
    let units = x.units();
    for (row, values) in out.chunks_exact_mut(columns * units).enumerate() {
        // The first column above the diagonal for `lower`, and the first on it otherwise.
        let first = (row % rows) as i128 + i128::from(diagonal) + i128::from(lower);
        let first = first.clamp(0, columns as i128) as usize * units;
        if lower {
            values[first..].fill(0.0);
        } else {
            values[..first].fill(0.0);
        }
    }
    Ok(Array::from_buffer(x.shape().to_vec(), out, x.is_complex()))
}

/// Channels to space: (…, c f², h, w) to (…, c, h f, w f).
pub(super) fn pixel_shuffle(x: &Array, factor: usize, work: &Work) -> Result<Array, ReplayError> {
    let bad = || ReplayError::operands(format!("shape {:?} has no channels for factor {factor}", x.shape()));
    let [outer @ .., channels, height, width] = x.shape() else { return Err(bad()) };
    let square = factor.checked_mul(factor).filter(|&square| square > 0).ok_or_else(bad)?;
    if channels % square != 0 {
        return Err(bad());
    }
    let ndim = outer.len();
    let split = x.reshaped([outer, &[channels / square, factor, factor, *height, *width]].concat())?;
    let axes: Vec<usize> = (0..ndim).chain([0, 3, 1, 4, 2].map(|axis| ndim + axis)).collect();
    let lengths = [channels / square, elements(&[*height, factor])?, elements(&[*width, factor])?];
    permute(&split, &axes, work)?.reshaped([outer, &lengths].concat())
}

/// Space to channels: (…, c, h f, w f) to (…, c f², h, w).
pub(super) fn pixel_unshuffle(x: &Array, factor: usize, work: &Work) -> Result<Array, ReplayError> {
    let bad = || ReplayError::operands(format!("shape {:?} is not divisible by {factor}", x.shape()));
    let [outer @ .., channels, height, width] = x.shape() else { return Err(bad()) };
    if factor == 0 || height % factor != 0 || width % factor != 0 {
        return Err(bad());
    }
    let ndim = outer.len();
    let (height, width) = (height / factor, width / factor);
    let split = x.reshaped([outer, &[*channels, height, factor, width, factor]].concat())?;
    let axes: Vec<usize> = (0..ndim).chain([0, 2, 4, 1, 3].map(|axis| ndim + axis)).collect();
    let lengths = [elements(&[*channels, factor, factor])?, height, width];
    permute(&split, &axes, work)?.reshaped([outer, &lengths].concat())
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
    fn arrays_are_joined_along_old_and_new_axes() {
        let (a, b) = (counted(&[2, 1]), counted(&[2, 2]));
        check(cat(&[a.clone(), b.clone()], 1, &work()), &[2, 3], &[0., 0., 1., 1., 2., 3.]);
        assert!(cat(&[a.clone(), b.clone()], 0, &work()).is_err());
        assert!(cat(std::slice::from_ref(&a), 2, &work()).is_err());
        check(cat(&[counted(&[0]), b.clone()], 0, &work()), &[2, 2], b.values());
        check(cat(&[counted(&[0]), counted(&[0])], 0, &work()), &[0], &[]);
        check(stack(&[b.clone(), b.clone()], 1, &work()), &[2, 2, 2], &[0., 1., 0., 1., 2., 3., 2., 3.]);
        check(stack(&[Array::scalar(1.0), Array::scalar(2.0)], 0, &work()), &[2], &[1., 2.]);
        assert!(stack(&[b], 3, &work()).is_err());
        let complex = counted(&[1, 2]).as_complex().unwrap();
        check(cat(&[complex, counted(&[1])], 0, &work()), &[2], &[0., 1., 0., 0.]);
    }

    #[test]
    fn triangles_keep_one_side_of_a_diagonal() {
        let x = Array::new(vec![2, 3], vec![1., 2., 3., 4., 5., 6.]).unwrap();
        check(triangle(&x, 0, true, &work()), &[2, 3], &[1., 0., 0., 4., 5., 0.]);
        check(triangle(&x, -1, true, &work()), &[2, 3], &[0., 0., 0., 4., 0., 0.]);
        check(triangle(&x, 1, false, &work()), &[2, 3], &[0., 2., 3., 0., 0., 6.]);
        check(triangle(&x, i64::MAX, true, &work()), &[2, 3], x.values());
        check(triangle(&x, i64::MIN, true, &work()), &[2, 3], &[0.; 6]);
        assert!(triangle(&counted(&[3]), 0, true, &work()).is_err());
        check(triangle(&counted(&[2, 0]), 0, true, &work()), &[2, 0], &[]);
    }

    #[test]
    fn channels_become_space_and_back() {
        let x = counted(&[1, 4, 1, 2]);
        let shuffled = pixel_shuffle(&x, 2, &work()).unwrap();
        check(Ok(shuffled.clone()), &[1, 1, 2, 4], &[0., 2., 1., 3., 4., 6., 5., 7.]);
        check(pixel_unshuffle(&shuffled, 2, &work()), &[1, 4, 1, 2], x.values());
        assert!(pixel_shuffle(&x, 3, &work()).is_err());
        assert!(pixel_shuffle(&x, usize::MAX, &work()).is_err());
        assert!(pixel_unshuffle(&x, 2, &work()).is_err());
        assert!(pixel_unshuffle(&x, 0, &work()).is_err());
    }
}
