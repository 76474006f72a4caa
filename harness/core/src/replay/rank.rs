//! Cumulative sums, and sorted elements.

use std::cmp::Ordering;

use super::array::Array;
use super::error::ReplayError;
use super::rows::AxesLast;
use super::strided::slice;
use super::work::Work;
use crate::recipe::{Ranked, Slice};

/// The sum of all elements up to each one along an axis.
pub(super) fn cumsum(x: &Array, axis: usize, work: &Work) -> Result<Array, ReplayError> {
    let rows = AxesLast::of(x, &[axis], work)?;
    work.elements(x.len())?;
    let mut out = work.buffer(x.len())?;
    for row in rows.iter() {
        out.extend(row.iter().scan(0.0, |sum, x| {
            *sum += x;
            Some(*sum)
        }));
    }
    rows.restore(out, work)
}

/// The elements along an axis in order, or their places. Equal elements keep their order; NaN is larger than any number.
pub(super) fn sort(
    x: &Array,
    axis: usize,
    descending: bool,
    output: Ranked,
    work: &Work,
) -> Result<Array, ReplayError> {
    let rows = AxesLast::of(x, &[axis], work)?;
    // Sorting takes about as many rounds as the length has binary digits.
    work.elements(x.len().saturating_mul(rows.length.max(2).ilog2() as usize))?;
    let mut out = work.buffer(x.len())?;
    // An array without elements can still have a long axis, which needs no places.
    let mut places = vec![0usize; rows.length.min(x.len())];
    for row in rows.iter() {
        places.iter_mut().enumerate().for_each(|(index, place)| *place = index);
        places.sort_by(|&a, &b| {
            let order = by_size(row[a], row[b]);
            if descending { order.reverse() } else { order }
        });
        match output {
            Ranked::Values => out.extend(places.iter().map(|&place| row[place])),
            Ranked::Indices => out.extend(places.iter().map(|&place| place as f64)),
        }
    }
    rows.restore(out, work)
}

/// The `k` largest or smallest elements along an axis in order, or their places.
pub(super) fn topk(
    x: &Array,
    k: usize,
    axis: usize,
    largest: bool,
    output: Ranked,
    work: &Work,
) -> Result<Array, ReplayError> {
    if k > x.length(axis)? {
        return Err(ReplayError::operands(format!(
            "axis {axis} of shape {:?} has no {k} elements",
            x.shape()
        )));
    }
    let sorted = sort(x, axis, largest, output, work)?;
    slice(&sorted, Slice { axis, start: 0, end: k, step: 1 }, work)
}

fn by_size(x: f64, y: f64) -> Ordering {
    x.partial_cmp(&y).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> Work {
        Work::new(1 << 30, 1 << 30)
    }

    #[track_caller]
    fn check(found: Result<Array, ReplayError>, values: &[f64]) {
        let found = found.unwrap();
        let same = |(x, y): (&f64, &f64)| x == y || x.is_nan() && y.is_nan();
        assert!(found.values().iter().zip(values).all(same), "{:?}", found.values());
        assert_eq!(found.len(), values.len());
    }

    #[test]
    fn elements_are_summed_and_ordered_along_an_axis() {
        let x = Array::new(vec![2, 3], vec![3., 1., 2., 0., 5., 5.]).unwrap();
        check(cumsum(&x, 1, &work()), &[3., 4., 6., 0., 5., 10.]);
        check(cumsum(&x, 0, &work()), &[3., 1., 2., 3., 6., 7.]);
        assert!(cumsum(&x, 2, &work()).is_err());
        check(sort(&x, 1, false, Ranked::Values, &work()), &[1., 2., 3., 0., 5., 5.]);
        check(sort(&x, 1, true, Ranked::Indices, &work()), &[0., 2., 1., 1., 2., 0.]);
        check(sort(&x, 0, true, Ranked::Values, &work()), &[3., 5., 5., 0., 1., 2.]);
        check(topk(&x, 2, 1, true, Ranked::Values, &work()), &[3., 2., 5., 5.]);
        check(topk(&x, 1, 1, false, Ranked::Indices, &work()), &[1., 0.]);
        check(topk(&x, 0, 1, false, Ranked::Indices, &work()), &[]);
        assert!(topk(&x, 4, 1, true, Ranked::Values, &work()).is_err());
        let x = Array::new(vec![3], vec![1., f64::NAN, 2.]).unwrap();
        check(sort(&x, 0, false, Ranked::Values, &work()), &[1., 2., f64::NAN]);
        for shape in [vec![0], vec![1 << 40, 0]] {
            check(sort(&Array::new(shape, vec![]).unwrap(), 0, false, Ranked::Values, &work()), &[]);
        }
    }
}
