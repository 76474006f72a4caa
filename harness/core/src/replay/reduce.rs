//! Functions that compute one number per group of elements.

use super::array::{Array, elements};
use super::binary::{maximum, minimum};
use super::error::ReplayError;
use super::rows::AxesLast;
use super::work::Work;
use crate::recipe::Reduction;

/// Computes a number per group of elements.
pub(super) fn reduce(
    function: Reduction,
    axes: &[usize],
    keep: bool,
    x: &Array,
    work: &Work,
) -> Result<Array, ReplayError> {
    if x.is_complex() && matches!(function, Reduction::Sum | Reduction::Mean) {
        // The real and the imaginary parts are summed separately. The axis that holds them cannot be reduced.
        for &axis in axes {
            x.length(axis)?;
        }
        return reduce(function, axes, keep, &x.as_real(), work)?.as_complex();
    }
    if matches!(function, Reduction::Argmax | Reduction::Argmin) && axes.len() != 1 && axes.len() != x.ndim()
    {
        return Err(ReplayError::operands(format!("it takes one axis or all of them, not {axes:?}")));
    }
    // An index over all axes counts elements in row-major order, so the axes must be sorted.
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    let rows = AxesLast::of(x, &sorted, work)?;
    let shape: Vec<usize> = match keep {
        true => (0..x.ndim()).map(|axis| if axes.contains(&axis) { 1 } else { x.shape()[axis] }).collect(),
        false => (0..x.ndim()).filter(|axis| !axes.contains(axis)).map(|axis| x.shape()[axis]).collect(),
    };
    let length = elements(&shape)?;
    work.elements(x.len().max(length))?;
    if matches!(function, Reduction::Logsumexp) {
        work.functions(x.len())?;
    }
    let mut out = work.buffer(length)?;
    if rows.length == 0 {
        let empty = of_nothing(function)?;
        out.extend(std::iter::repeat_n(empty, length));
    } else {
        out.extend(rows.iter().map(|row| of_row(function, row)));
    }
    Ok(Array::real(shape, out))
}

/// The number of a group without elements.
fn of_nothing(function: Reduction) -> Result<f64, ReplayError> {
    match function {
        Reduction::Max | Reduction::Min | Reduction::Argmax | Reduction::Argmin => {
            Err(ReplayError::operands("a group without elements has no extremes"))
        }
        Reduction::Norm { p } if p < 0.0 || p == f64::INFINITY => {
            Err(ReplayError::operands("a group without elements has no extremes"))
        }
        other => Ok(of_row(other, &[])),
    }
}

fn of_row(function: Reduction, row: &[f64]) -> f64 {
    let count = row.len() as f64;
    let is = |truth: bool| f64::from(u8::from(truth));
    match function {
        Reduction::Sum => sum(row),
        Reduction::Mean => sum(row) / count,
        Reduction::Prod => row.iter().product(),
        Reduction::Max => row.iter().copied().fold(f64::NEG_INFINITY, maximum),
        Reduction::Min => row.iter().copied().fold(f64::INFINITY, minimum),
        Reduction::Argmax => first(row, |x, best| x > best),
        Reduction::Argmin => first(row, |x, best| x < best),
        Reduction::Any => is(row.iter().any(|&x| x != 0.0)),
        Reduction::All => is(row.iter().all(|&x| x != 0.0)),
        Reduction::Var { ddof } => variance(row, ddof),
        Reduction::Std { ddof } => variance(row, ddof).sqrt(),
        Reduction::Norm { p } => norm(row, p),
        Reduction::Logsumexp => logsumexp(row),
    }
}

/// The sum, in eight parts that the compiler can add in parallel.
pub(super) fn sum(row: &[f64]) -> f64 {
    let (parts, rest) = row.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    sums.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

/// The sum of the squares.
pub(super) fn sum_of_squares(row: &[f64]) -> f64 {
    let (parts, rest) = row.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x * x);
    }
    sums.iter().sum::<f64>() + rest.iter().map(|x| x * x).sum::<f64>()
}

/// The sum of squared distances from a number.
pub(super) fn squared_distance(row: &[f64], from: f64) -> f64 {
    row.iter().map(|x| (x - from) * (x - from)).sum()
}

fn variance(row: &[f64], ddof: f64) -> f64 {
    let count = row.len() as f64;
    squared_distance(row, sum(row) / count) / (count - ddof).max(0.0)
}

/// The index of the first best element; NaN is better than every number, as in torch and NumPy.
fn first(row: &[f64], better: fn(f64, f64) -> bool) -> f64 {
    let mut best = 0;
    for (index, &x) in row.iter().enumerate() {
        if x.is_nan() {
            return index as f64;
        }
        if better(x, row[best]) {
            best = index;
        }
    }
    best as f64
}

fn norm(row: &[f64], p: f64) -> f64 {
    let sizes = row.iter().map(|x| x.abs());
    match p {
        0.0 => sizes.filter(|&x| x != 0.0).count() as f64,
        1.0 => sizes.sum(),
        2.0 => sum_of_squares(row).sqrt(),
        f64::INFINITY => sizes.fold(f64::NEG_INFINITY, maximum),
        f64::NEG_INFINITY => sizes.fold(f64::INFINITY, minimum),
        _ => sizes.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p),
    }
}

/// The logarithm of the sum of the exponentials, without overflow.
pub(super) fn logsumexp(row: &[f64]) -> f64 {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, maximum);
    if largest.is_infinite() {
        return largest;
    }
    largest + row.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;

    fn work() -> Work {
        Work::new(1 << 30, 1 << 30)
    }

    #[track_caller]
    fn check(function: Reduction, row: &[f64], expected: f64) {
        let x = Array::new(vec![row.len()], row.to_vec()).unwrap();
        let found = reduce(function, &[0], false, &x, &work()).unwrap();
        assert_eq!(found.shape(), [0; 0]);
        let found = found.values()[0];
        assert!(
            (found - expected).abs() < 1e-12 || found == expected || found.is_nan() && expected.is_nan(),
            "{found}"
        );
    }

    #[test]
    fn functions_have_the_values_of_torch() {
        check(Reduction::Sum, &[1., 2., 3., 4., 5., 6., 7., 8., 9.], 45.0);
        check(Reduction::Mean, &[1., 2., 6.], 3.0);
        check(Reduction::Mean, &[], NAN);
        check(Reduction::Prod, &[2., 3.], 6.0);
        check(Reduction::Prod, &[], 1.0);
        check(Reduction::Max, &[2., 3., -1.], 3.0);
        check(Reduction::Max, &[2., NAN, -1.], NAN);
        check(Reduction::Min, &[2., 3., -1.], -1.0);
        check(Reduction::Argmax, &[2., 3., 3.], 1.0);
        check(Reduction::Argmax, &[2., NAN, 3.], 1.0);
        check(Reduction::Argmin, &[2., 1., 1.], 1.0);
        check(Reduction::Any, &[0., 2.], 1.0);
        check(Reduction::Any, &[], 0.0);
        check(Reduction::All, &[0., 2.], 0.0);
        check(Reduction::All, &[], 1.0);
        check(Reduction::Var { ddof: 0.0 }, &[1., 2., 3., 4.], 1.25);
        check(Reduction::Var { ddof: 1.0 }, &[1., 2., 3., 4.], 5.0 / 3.0);
        check(Reduction::Var { ddof: 1.0 }, &[1.], NAN);
        check(Reduction::Std { ddof: 0.0 }, &[1., 3.], 1.0);
        check(Reduction::Norm { p: 2.0 }, &[3., -4.], 5.0);
        check(Reduction::Norm { p: 1.0 }, &[3., -4.], 7.0);
        check(Reduction::Norm { p: 0.0 }, &[3., 0.], 1.0);
        check(Reduction::Norm { p: 3.0 }, &[1., -2.], 9f64.cbrt());
        check(Reduction::Norm { p: INF }, &[3., -4.], 4.0);
        check(Reduction::Norm { p: -INF }, &[3., -4.], 3.0);
        check(Reduction::Logsumexp, &[1000., 1000.], 1000.0 + 2f64.ln());
        check(Reduction::Logsumexp, &[-INF, -INF], -INF);
        check(Reduction::Logsumexp, &[], -INF);
    }

    #[test]
    fn any_axes_are_reduced_and_kept() {
        let x = Array::new(vec![2, 3, 2], (0..12).map(f64::from).collect()).unwrap();
        let sums = |axes: &[usize], keep| reduce(Reduction::Sum, axes, keep, &x, &work()).unwrap();
        assert_eq!(sums(&[0, 2], false).values(), [14., 22., 30.]);
        assert_eq!(sums(&[2, 0], true).shape(), [1, 3, 1]);
        assert_eq!(sums(&[1], false).values(), [6., 9., 24., 27.]);
        assert_eq!(sums(&[], false).values(), x.values());
        let best = reduce(Reduction::Argmax, &[0, 1, 2], false, &x, &work()).unwrap();
        assert_eq!(best.values(), [11.0]);
        assert!(reduce(Reduction::Argmax, &[0, 1], false, &x, &work()).is_err());
        assert!(reduce(Reduction::Sum, &[3], false, &x, &work()).is_err());
        assert!(reduce(Reduction::Sum, &[1, 1], false, &x, &work()).is_err());
        let complex = x.as_complex().unwrap();
        let found = reduce(Reduction::Sum, &[1], false, &complex, &work()).unwrap();
        assert_eq!((found.shape(), found.values()), (&[2][..], &[6., 9., 24., 27.][..]));
        let empty = Array::new(vec![2, 0], vec![]).unwrap();
        assert_eq!(reduce(Reduction::Sum, &[1], false, &empty, &work()).unwrap().values(), [0., 0.]);
        assert!(reduce(Reduction::Max, &[1], false, &empty, &work()).is_err());
        assert_eq!(reduce(Reduction::Max, &[0], false, &empty, &work()).unwrap().shape(), [0]);
    }
}
