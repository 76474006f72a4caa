//! Products of matrices.

use super::array::{Array, elements};
use super::error::ReplayError;
use super::walk::{Walk, broadcast, broadcast_strides};
use super::work::Work;

/// If the left matrix has at most this many rows, the product does not use the kernels of matrixmultiply.
const FEW: usize = 2;

/// A matrix inside a slice: its first element and its strides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) values: &'a [f64],
    /// The distance between rows.
    pub(super) row: usize,
    /// The distance between columns.
    pub(super) column: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix whose rows are contiguous, with this many columns.
    pub(super) fn rows(values: &'a [f64], columns: usize) -> Self {
        Self { values, row: columns, column: 1 }
    }

    /// The transpose of a matrix whose rows are contiguous, with this many columns before transposing.
    pub(super) fn transposed(values: &'a [f64], columns: usize) -> Self {
        Self { values, row: 1, column: columns }
    }

    /// Whether all elements of a matrix with these lengths lie in the slice.
    fn holds(&self, rows: usize, columns: usize) -> bool {
        if rows == 0 || columns == 0 {
            return true;
        }
        let last = (rows - 1)
            .checked_mul(self.row)
            .zip((columns - 1).checked_mul(self.column))
            .and_then(|(row, column)| row.checked_add(column));
        last.is_some_and(|last| last < self.values.len())
    }
}

/// Writes `a b` into `out`, whose rows are contiguous. `a` is `m` by `k`, `b` is `k` by `n`.
///
/// # Panics
/// When a matrix does not lie in its slice, which would be a mistake of the caller.
#[expect(unsafe_code, reason = "the kernels of matrixmultiply take pointers")]
pub(super) fn product([m, k, n]: [usize; 3], a: Matrix<'_>, b: Matrix<'_>, out: &mut [f64]) {
    assert!(a.holds(m, k) && b.holds(k, n), "operands lie in their slices");
    assert!(m.checked_mul(n) == Some(out.len()), "the result fills its slice");
    if m <= FEW && (b.row == 1 || b.column == 1) && a.column == 1 {
        return few_rows([m, k, n], a, b, out);
    }
    let stride = |stride: usize| isize::try_from(stride).unwrap_or(isize::MAX);
    // SAFETY: `dgemm` reads `a` and `b` at the offsets i * row + j * column below their lengths, all of which `holds` found
    // to be inside the slices. It writes `out` at i * n + j, which is below `m * n`, the length of `out`. `out` is borrowed
    // mutably, so it overlaps with neither.
    unsafe {
        matrixmultiply::dgemm(
            m,
            k,
            n,
            1.0,
            a.values.as_ptr(),
            stride(a.row),
            stride(a.column),
            b.values.as_ptr(),
            stride(b.row),
            stride(b.column),
            0.0,
            out.as_mut_ptr(),
            stride(n),
            1,
        );
    }
}

/// The product of few rows and a matrix. It reads the matrix once, where a kernel would first copy all of it.
fn few_rows([m, k, n]: [usize; 3], a: Matrix<'_>, b: Matrix<'_>, out: &mut [f64]) {
    if m == 0 || k == 0 || n == 0 {
        return out.fill(0.0);
    }
    let row = |i: usize| &a.values[i * a.row..][..k];
    if b.row == 1 {
        // Columns are contiguous: an inner product each.
        for j in 0..n {
            let column = &b.values[j * b.column..][..k];
            for i in 0..m {
                out[i * n + j] = inner_product(row(i), column);
            }
        }
        return;
    }
    out.fill(0.0);
    for j in 0..k {
        let line = &b.values[j * b.row..][..n];
        for (i, out) in out.chunks_exact_mut(n).enumerate() {
            let factor = row(i)[j];
            out.iter_mut().zip(line).for_each(|(sum, x)| *sum += factor * x);
        }
    }
}

fn inner_product(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

/// `x` times the transposed weight, plus the bias.
pub(super) fn linear(
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    work: &Work,
) -> Result<Array, ReplayError> {
    x.check_real()?;
    weight.check_real()?;
    let (Some((&inner, outer)), &[to, from]) = (x.shape().split_last(), weight.shape()) else {
        let problem = format!("shapes {:?} and {:?} are not a linear layer's", x.shape(), weight.shape());
        return Err(ReplayError::operands(problem));
    };
    if inner != from {
        let problem = format!("a weight of shape {:?} does not fit shape {:?}", weight.shape(), x.shape());
        return Err(ReplayError::operands(problem));
    }
    let rows = elements(outer)?;
    work.products(&[rows, from, to])?;
    work.elements(elements(&[rows, to])?)?;
    let mut out = work.filled(elements(&[rows, to])?, 0.0)?;
    let matrix = Matrix::rows(x.values(), from);
    product([rows, from, to], matrix, Matrix::transposed(weight.values(), from), &mut out);
    if let Some(bias) = bias {
        bias.check_real()?;
        if bias.shape() != [to] {
            let problem = format!("a bias of shape {:?} does not fit {to} outputs", bias.shape());
            return Err(ReplayError::operands(problem));
        }
        for row in out.chunks_exact_mut(to.max(1)) {
            row.iter_mut().zip(bias.values()).for_each(|(x, bias)| *x += bias);
        }
    }
    Ok(Array::real([outer, &[to]].concat(), out))
}

/// The product of the last two axes, by NumPy's rules: leading axes broadcast, and a single axis is a row or a column.
pub(super) fn matmul(a: &Array, b: &Array, work: &Work) -> Result<Array, ReplayError> {
    a.check_real()?;
    b.check_real()?;
    let bad = || ReplayError::operands(format!("shapes {:?} and {:?} have no product", a.shape(), b.shape()));
    let (row, column) = (a.ndim() == 1, b.ndim() == 1);
    let a_shape = if row { [&[1], a.shape()].concat() } else { a.shape().to_vec() };
    let b_shape = if column { [b.shape(), &[1]].concat() } else { b.shape().to_vec() };
    let ([a_outer @ .., m, k], [b_outer @ .., other, n]) = (&a_shape[..], &b_shape[..]) else {
        return Err(bad());
    };
    if k != other {
        return Err(bad());
    }
    let outer = broadcast(&[a_outer, b_outer]).map_err(|_| bad())?;
    let mut shape = outer.clone();
    shape.extend((!row).then_some(*m));
    shape.extend((!column).then_some(*n));
    let length = elements(&shape)?;
    work.products(&[elements(&outer)?, *m, *k, *n])?;
    work.elements(length)?;
    let mut out = work.filled(length, 0.0)?;
    if length == 0 {
        return Ok(Array::real(shape, out));
    }
    if b_outer.is_empty() {
        // There is one matrix on the right, so that all rows on the left form one product.
        let rows = length / n;
        product([rows, *k, *n], Matrix::rows(a.values(), *k), Matrix::rows(b.values(), *n), &mut out);
        return Ok(Array::real(shape, out));
    }
    let strides = [(a_outer, m * k), (b_outer, k * n)].map(|(own, matrix)| {
        broadcast_strides(own, &outer).into_iter().map(|stride| stride * matrix).collect::<Vec<_>>()
    });
    let walk = Walk::new(&outer, strides.each_ref().map(Vec::as_slice));
    let mut results = out.chunks_exact_mut(m * n);
    walk.rows(|[at_a, at_b]| {
        for (i, out) in results.by_ref().take(walk.length).enumerate() {
            let a = Matrix::rows(&a.values()[at_a + i * walk.steps[0]..], *k);
            let b = Matrix::rows(&b.values()[at_b + i * walk.steps[1]..], *n);
            product([*m, *k, *n], a, b, out);
        }
    });
    Ok(Array::real(shape, out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn work() -> Work {
        Work::new(1 << 40, 1 << 30)
    }

    fn counted(shape: &[usize]) -> Array {
        let length = elements(shape).unwrap();
        Array::new(shape.to_vec(), (0..length).map(|i| (i % 7) as f64 - 2.0).collect()).unwrap()
    }

    #[track_caller]
    fn check(found: Result<Array, ReplayError>, shape: &[usize], values: &[f64]) {
        let found = found.unwrap();
        assert_eq!((found.shape(), found.values()), (shape, values));
    }

    #[test]
    fn a_layer_multiplies_by_the_transpose_and_adds_its_bias() {
        let x = Array::new(vec![1, 2, 2], vec![1., 2., 3., 4.]).unwrap();
        let weight = Array::new(vec![3, 2], vec![1., 0., 0., 1., 1., 1.]).unwrap();
        let bias = Array::new(vec![3], vec![10., 20., 30.]).unwrap();
        check(linear(&x, &weight, None, &work()), &[1, 2, 3], &[1., 2., 3., 3., 4., 7.]);
        check(linear(&x, &weight, Some(&bias), &work()), &[1, 2, 3], &[11., 22., 33., 13., 24., 37.]);
        assert!(linear(&x, &x, None, &work()).is_err());
        assert!(linear(&x, &weight, Some(&x), &work()).is_err());
        assert!(linear(&Array::scalar(1.0), &weight, None, &work()).is_err());
        let none = Array::new(vec![0, 2], vec![]).unwrap();
        check(linear(&none, &weight, Some(&bias), &work()), &[0, 3], &[]);
        let no_inner = Array::new(vec![2, 0], vec![]).unwrap();
        check(linear(&no_inner, &Array::new(vec![1, 0], vec![]).unwrap(), None, &work()), &[2, 1], &[0., 0.]);
    }

    #[test]
    fn products_follow_the_rules_of_numpy() {
        let (a, b) = (
            Array::new(vec![2], vec![1., 2.]).unwrap(),
            Array::new(vec![2, 2], vec![1., 2., 3., 4.]).unwrap(),
        );
        check(matmul(&a, &a, &work()), &[], &[5.0]);
        check(matmul(&a, &b, &work()), &[2], &[7., 10.]);
        check(matmul(&b, &a, &work()), &[2], &[5., 11.]);
        assert!(matmul(&Array::scalar(1.0), &b, &work()).is_err());
        assert!(matmul(&b, &counted(&[3, 2]), &work()).is_err());
        assert!(matmul(&counted(&[2, 2, 2]), &counted(&[3, 2, 2]), &work()).is_err());
        check(matmul(&counted(&[2, 0]), &counted(&[0, 1]), &work()), &[2, 1], &[0., 0.]);
    }

    #[test]
    fn too_much_work_is_refused_before_it_is_done() {
        let x = counted(&[100, 100]);
        let little = Work::new(1_000_000, 1 << 30);
        assert_eq!(matmul(&x, &x, &little).unwrap_err(), ReplayError::Work);
        let small = Work::new(1 << 40, 1000);
        assert!(matches!(matmul(&x, &x, &small), Err(ReplayError::Memory { wanted: 80_000, left: 1000 })));
    }

    proptest! {
        #[test]
        fn batches_are_multiplied_one_by_one(
            outer in prop::collection::vec((1usize..4, any::<bool>(), any::<bool>()), 0..3),
            [m, k, n] in [0usize..6, 0usize..6, 0usize..6],
        ) {
            let own = |keep: fn(&(usize, bool, bool)) -> bool, last: [usize; 2]| -> Vec<usize> {
                outer.iter().map(|l| if keep(l) { l.0 } else { 1 }).chain(last).collect()
            };
            let (a, b) = (counted(&own(|l| l.1, [m, k])), counted(&own(|l| l.2, [k, n])));
            let found = matmul(&a, &b, &work()).unwrap();
            let shape = broadcast(&[&a.shape()[..outer.len()], &b.shape()[..outer.len()]]).unwrap();
            prop_assert_eq!(found.shape(), &[&shape[..], &[m, n]].concat()[..]);
            for (position, &x) in found.values().iter().enumerate() {
                let (batch, row, column) = (position / (m * n), position / n % m, position % n);
                let start = |own: &Array, size: usize| {
                    let strides = broadcast_strides(&own.shape()[..outer.len()], &shape);
                    let mut rest = batch;
                    let mut at = 0;
                    for axis in (0..shape.len()).rev() {
                        at += rest % shape[axis] * strides[axis];
                        rest /= shape[axis];
                    }
                    at * size
                };
                let (at_a, at_b) = (start(&a, m * k), start(&b, k * n));
                let sum: f64 = (0..k)
                    .map(|i| a.values()[at_a + row * k + i] * b.values()[at_b + i * n + column])
                    .sum();
                prop_assert_eq!(x, sum);
            }
        }
    }
}
