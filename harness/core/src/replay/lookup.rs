//! Look-ups by index.

use super::array::{Array, elements};
use super::error::ReplayError;
use super::pick::{advance, pick};
use super::work::Work;
use crate::recipe::Lookup;
use crate::tensor::row_major;

/// Elements at given indices.
pub(super) fn lookup(
    lookup: &Lookup,
    x: &Array,
    indices: Option<&Array>,
    work: &Work,
) -> Result<Array, ReplayError> {
    match (lookup, indices) {
        (Lookup::Embedding, Some(ids)) => {
            if x.ndim() != 2 {
                return Err(ReplayError::operands(format!(
                    "a table has two axes, not shape {:?}",
                    x.shape()
                )));
            }
            take(x, 0, ids, work)
        }
        (Lookup::Take { axis }, Some(indices)) => take(x, *axis, indices, work),
        (Lookup::Gather { axis }, Some(indices)) => gather(x, *axis, indices, work),
        (Lookup::OneHot { classes }, _) => one_hot(x, *classes, work),
        (_, None) => Err(ReplayError::operands("its indices are missing")),
    }
}

/// The indices along an axis of this length; negative ones count from the end.
fn whole_indices(indices: &Array, length: usize) -> Result<Vec<usize>, ReplayError> {
    indices.check_real()?;
    let whole = |&index: &f64| {
        let from_start = if index < 0.0 { index + length as f64 } else { index };
        if from_start.fract() != 0.0 || from_start < 0.0 || from_start >= length as f64 {
            return Err(ReplayError::operands(format!(
                "index {index} is outside an axis of length {length}"
            )));
        }
        Ok(from_start as usize)
    };
    indices.values().iter().map(whole).collect()
}

fn take(x: &Array, axis: usize, indices: &Array, work: &Work) -> Result<Array, ReplayError> {
    let list = whole_indices(indices, x.length(axis)?)?;
    let shape = [&x.shape()[..axis], indices.shape(), &x.shape()[axis + 1..]].concat();
    let mut lists = vec![None; x.ndim()];
    lists[axis] = Some(list);
    pick(x, &lists, 0.0, work)?.reshaped(shape)
}

fn gather(x: &Array, axis: usize, indices: &Array, work: &Work) -> Result<Array, ReplayError> {
    let list = whole_indices(indices, x.length(axis)?)?;
    let fits = |other: usize| other == axis || indices.shape()[other] <= x.shape()[other];
    if indices.ndim() != x.ndim() || !(0..x.ndim()).all(fits) {
        return Err(ReplayError::operands(format!(
            "indices of shape {:?} do not fit shape {:?}",
            indices.shape(),
            x.shape()
        )));
    }
    let (units, strides) = (x.units(), row_major(x.shape()));
    work.elements(list.len() * units)?;
    let mut out = work.buffer(list.len() * units)?;
    let mut index = vec![0; x.ndim()];
    for i in list {
        let at: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        let at = at - index[axis] * strides[axis] + i * strides[axis];
        out.extend_from_slice(&x.values()[at * units..][..units]);
        advance(&mut index, indices.shape());
    }
    Ok(Array::from_buffer(indices.shape().to_vec(), out, x.is_complex()))
}

fn one_hot(ids: &Array, classes: usize, work: &Work) -> Result<Array, ReplayError> {
    let list = whole_indices(ids, classes)?;
    let shape = [ids.shape(), &[classes]].concat();
    let length = elements(&shape)?;
    work.elements(length)?;
    let mut out = work.filled(length, 0.0)?;
    for (row, id) in list.into_iter().enumerate() {
        out[row * classes + id] = 1.0;
    }
    Ok(Array::real(shape, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> Work {
        Work::new(1 << 30, 1 << 30)
    }

    fn array(shape: &[usize], values: &[f64]) -> Array {
        Array::new(shape.to_vec(), values.to_vec()).unwrap()
    }

    #[track_caller]
    fn check(found: Result<Array, ReplayError>, shape: &[usize], values: &[f64]) {
        let found = found.unwrap();
        assert_eq!((found.shape(), found.values()), (shape, values));
    }

    #[test]
    fn indices_choose_rows_and_elements() {
        let x = array(&[2, 3], &[0., 1., 2., 3., 4., 5.]);
        let find = |kind: Lookup, indices: &Array| lookup(&kind, &x, Some(indices), &work());
        let ids = array(&[1, 3], &[1., 0., 1.]);
        check(find(Lookup::Embedding, &ids), &[1, 3, 3], &[3., 4., 5., 0., 1., 2., 3., 4., 5.]);
        check(find(Lookup::Take { axis: 1 }, &array(&[2], &[2., -3.])), &[2, 2], &[2., 0., 5., 3.]);
        check(find(Lookup::Take { axis: 1 }, &Array::scalar(1.0)), &[2], &[1., 4.]);
        let places = array(&[2, 2], &[0., 2., 1., 1.]);
        check(find(Lookup::Gather { axis: 1 }, &places), &[2, 2], &[0., 2., 4., 4.]);
        check(find(Lookup::Gather { axis: 0 }, &array(&[1, 2], &[1., 0.])), &[1, 2], &[3., 1.]);
        assert!(find(Lookup::Gather { axis: 0 }, &array(&[1, 4], &[0.; 4])).is_err());
        assert!(find(Lookup::Gather { axis: 0 }, &ids.reshaped(vec![3]).unwrap()).is_err());
        for wrong in [2.0, -3.0, 0.5, f64::NAN, f64::INFINITY] {
            let error = find(Lookup::Take { axis: 0 }, &Array::scalar(wrong)).unwrap_err().to_string();
            assert_eq!(error, format!("index {wrong} is outside an axis of length 2"));
        }
        assert!(find(Lookup::Take { axis: 2 }, &ids).is_err());
        check(find(Lookup::Take { axis: 0 }, &array(&[0], &[])), &[0, 3], &[]);
    }

    #[test]
    fn a_class_becomes_a_row_with_a_one() {
        let ids = array(&[2], &[2., 0.]);
        check(
            lookup(&Lookup::OneHot { classes: 3 }, &ids, None, &work()),
            &[2, 3],
            &[0., 0., 1., 1., 0., 0.],
        );
        assert!(lookup(&Lookup::OneHot { classes: 2 }, &ids, None, &work()).is_err());
        assert!(lookup(&Lookup::OneHot { classes: usize::MAX }, &ids, None, &work()).is_err());
    }
}
