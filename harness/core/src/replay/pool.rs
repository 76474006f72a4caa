//! Averages and maxima of windows.

use super::array::{Array, elements};
use super::binary::maximum;
use super::error::ReplayError;
use super::window::{Axis, check_lists, index_of, three};
use super::work::Work;
use crate::recipe::Pooling;

/// A number per window of the last axes of `x`. An average counts padding as zeros, a maximum ignores it.
pub(super) fn pool(
    x: &Array,
    function: Pooling,
    kernel: &[usize],
    stride: &[usize],
    padding: &[[usize; 2]],
    work: &Work,
) -> Result<Array, ReplayError> {
    x.check_real()?;
    let Some(first) = x.ndim().checked_sub(kernel.len()) else {
        let problem = format!("shape {:?} has fewer axes than a window {kernel:?}", x.shape());
        return Err(ReplayError::operands(problem));
    };
    let (outer, space) = x.shape().split_at(first);
    check_lists(space, &[kernel.len(), stride.len(), padding.len()])?;
    let axes = (0..space.len())
        .map(|axis| Axis::new(space[axis], kernel[axis], stride[axis], padding[axis], 1))
        .collect::<Result<Vec<_>, _>>()?;
    let windows: Vec<usize> = axes.iter().map(|axis| axis.windows).collect();
    let shape = [outer, &windows].concat();
    let (length, taps) = (elements(&shape)?, elements(kernel)?);
    work.functions(elements(&[length, taps])?)?;
    let mut out = work.buffer(length)?;
    let volume = space.iter().product::<usize>();
    let (axes, positions) = (three(&axes), windows.iter().product::<usize>());
    let (kernels, counts) = (axes.map(|axis| axis.kernel), axes.map(|axis| axis.windows));
    for position in 0..length {
        let channel = &x.values()[position / positions * volume..][..volume];
        let window = index_of(position % positions, counts);
        let values = (0..taps).filter_map(|tap| {
            let element = index_of(tap, kernels);
            let place = |axis: usize| axes[axis].place(window[axis], element[axis]);
            let at = (place(0)? * axes[1].length + place(1)?) * axes[2].length + place(2)?;
            Some(channel[at])
        });
        out.push(match function {
            Pooling::Average => values.sum::<f64>() / taps as f64,
            Pooling::Maximum => values.fold(f64::NEG_INFINITY, maximum),
        });
    }
    Ok(Array::real(shape, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_averaged_and_searched() {
        let work = Work::new(1 << 30, 1 << 30);
        let x = Array::new(vec![1, 1, 3, 3], (0..9).map(f64::from).collect()).unwrap();
        let of = |function, kernel: &[usize], stride: &[usize], padding: &[[usize; 2]]| {
            pool(&x, function, kernel, stride, padding, &work)
        };
        let even = &[[0, 0], [0, 0]];
        assert_eq!(of(Pooling::Average, &[2, 2], &[1, 1], even).unwrap().values(), [2., 3., 5., 6.]);
        assert_eq!(of(Pooling::Maximum, &[2, 2], &[2, 2], even).unwrap().values(), [4.]);
        let padded = of(Pooling::Average, &[2, 2], &[2, 2], &[[1, 0], [1, 0]]).unwrap();
        assert_eq!((padded.shape(), padded.values()), (&[1, 1, 2, 2][..], &[0., 0.75, 2.25, 6.][..]));
        assert_eq!(of(Pooling::Maximum, &[3], &[1], &[[1, 1]]).unwrap().shape(), [1, 1, 3, 3]);
        assert!(of(Pooling::Maximum, &[4, 1], &[1, 1], even).is_err());
        assert!(of(Pooling::Maximum, &[1, 1], &[0, 1], even).is_err());
        assert!(of(Pooling::Maximum, &[1, 1], &[1], even).is_err());
        assert!(of(Pooling::Maximum, &[1; 5], &[1; 5], &[[0, 0]; 5]).is_err());
        assert!(of(Pooling::Average, &[2], &[1], &[[1 << 62, 1 << 62]]).is_err());
    }
}
