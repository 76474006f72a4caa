//! Functions of two elements with broadcasting, and selections by a condition.

use super::array::{Array, elements};
use super::error::ReplayError;
use super::walk::{Walk, broadcast, broadcast_strides};
use super::work::{Buffer, Work};
use crate::recipe::Binary;

/// Applies a function to each pair of elements.
pub(super) fn binary(function: Binary, a: &Array, b: &Array, work: &Work) -> Result<Array, ReplayError> {
    if a.is_complex() || b.is_complex() {
        return complex_binary(function, &to_complex(a, work)?, &to_complex(b, work)?, work);
    }
    let is = |truth: bool| f64::from(u8::from(truth));
    match function {
        Binary::Add => zip(a, b, work, |x, y| x + y),
        Binary::Sub => zip(a, b, work, |x, y| x - y),
        Binary::Mul => zip(a, b, work, |x, y| x * y),
        Binary::Div => zip(a, b, work, |x, y| x / y),
        Binary::FloorDiv => zip(a, b, work, floor_div),
        Binary::Mod => zip(a, b, work, remainder),
        Binary::Pow => power(a, b, work),
        Binary::Maximum => zip(a, b, work, maximum),
        Binary::Minimum => zip(a, b, work, minimum),
        Binary::Atan2 => {
            work.functions(a.len().max(b.len()))?;
            zip(a, b, work, f64::atan2)
        }
        Binary::Eq => zip(a, b, work, |x, y| is(x == y)),
        Binary::Ne => zip(a, b, work, |x, y| is(x != y)),
        Binary::Lt => zip(a, b, work, |x, y| is(x < y)),
        Binary::Le => zip(a, b, work, |x, y| is(x <= y)),
        Binary::Gt => zip(a, b, work, |x, y| is(x > y)),
        Binary::Ge => zip(a, b, work, |x, y| is(x >= y)),
        Binary::And => zip(a, b, work, |x, y| is(x != 0.0 && y != 0.0)),
        Binary::Or => zip(a, b, work, |x, y| is(x != 0.0 || y != 0.0)),
        Binary::Xor => zip(a, b, work, |x, y| is((x != 0.0) != (y != 0.0))),
    }
}

/// `a` where the condition is not 0, else `b`.
pub(super) fn select(condition: &Array, a: &Array, b: &Array, work: &Work) -> Result<Array, ReplayError> {
    condition.check_real()?;
    if a.is_complex() || b.is_complex() {
        // The condition gets one more axis of length 1, so that it selects both parts of a complex number.
        let (a, b) = (to_complex(a, work)?, to_complex(b, work)?);
        let mut shape = condition.shape().to_vec();
        shape.push(1);
        return select(&condition.reshaped(shape)?, &a.as_real(), &b.as_real(), work)?.as_complex();
    }
    let shape = broadcast(&[condition.shape(), a.shape(), b.shape()])?;
    let (mut out, is_empty) = room(&shape, work)?;
    if !is_empty {
        let strides = [condition, a, b].map(|operand| broadcast_strides(operand.shape(), &shape));
        let walk = Walk::new(&shape, strides.each_ref().map(Vec::as_slice));
        let [step, step_a, step_b] = walk.steps;
        let (condition, a, b) = (condition.values(), a.values(), b.values());
        walk.rows(|[at, at_a, at_b]| {
            out.extend((0..walk.length).map(|i| {
                if condition[at + i * step] != 0.0 { a[at_a + i * step_a] } else { b[at_b + i * step_b] }
            }));
        });
    }
    Ok(Array::real(shape, out))
}

/// Real numbers as complex ones.
pub(super) fn to_complex(x: &Array, work: &Work) -> Result<Array, ReplayError> {
    if x.is_complex() {
        return Ok(x.clone());
    }
    work.elements(2 * x.len())?;
    let values = work.collect(2 * x.len(), x.values().iter().flat_map(|&x| [x, 0.0]))?;
    Ok(Array::from_buffer(x.shape().to_vec(), values, true))
}

/// An empty buffer for an element-wise result, and whether it stays empty.
fn room(shape: &[usize], work: &Work) -> Result<(Buffer, bool), ReplayError> {
    let length = elements(shape)?;
    work.elements(length)?;
    Ok((work.buffer(length)?, length == 0))
}

fn zip(a: &Array, b: &Array, work: &Work, f: impl Fn(f64, f64) -> f64) -> Result<Array, ReplayError> {
    let shape = broadcast(&[a.shape(), b.shape()])?;
    let (mut out, is_empty) = room(&shape, work)?;
    if is_empty {
        return Ok(Array::real(shape, out));
    }
    let strides = [a, b].map(|operand| broadcast_strides(operand.shape(), &shape));
    let walk = Walk::new(&shape, strides.each_ref().map(Vec::as_slice));
    let (a, b, length) = (a.values(), b.values(), walk.length);
    // The usual strides have loops of their own, which the compiler vectorises.
    match walk.steps {
        [1, 1] => walk.rows(|[at_a, at_b]| {
            out.extend(a[at_a..][..length].iter().zip(&b[at_b..][..length]).map(|(&x, &y)| f(x, y)));
        }),
        [1, 0] => walk.rows(|[at_a, at_b]| {
            let y = b[at_b];
            out.extend(a[at_a..][..length].iter().map(|&x| f(x, y)));
        }),
        [0, 1] => walk.rows(|[at_a, at_b]| {
            let x = a[at_a];
            out.extend(b[at_b..][..length].iter().map(|&y| f(x, y)));
        }),
        [step_a, step_b] => walk.rows(|[at_a, at_b]| {
            out.extend((0..length).map(|i| f(a[at_a + i * step_a], b[at_b + i * step_b])));
        }),
    }
    Ok(Array::real(shape, out))
}

/// A power; the frequent exponents are computed without logarithms.
fn power(a: &Array, b: &Array, work: &Work) -> Result<Array, ReplayError> {
    match b.values() {
        [2.0] => zip(a, b, work, |x, _| x * x),
        [3.0] => zip(a, b, work, |x, _| x * x * x),
        [0.5] => zip(a, b, work, |x, _| x.sqrt()),
        [-0.5] => zip(a, b, work, |x, _| 1.0 / x.sqrt()),
        _ => {
            work.functions(a.len().max(b.len()))?;
            zip(a, b, work, f64::powf)
        }
    }
}

/// The remainder with the sign of the divisor.
fn remainder(x: f64, y: f64) -> f64 {
    let rest = x % y;
    if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }
}

/// The quotient rounded down, as Python computes it: exactly, even where `x / y` rounds up to a whole number.
fn floor_div(x: f64, y: f64) -> f64 {
    if y == 0.0 {
        return x / y;
    }
    let rest = x % y;
    let mut quotient = (x - rest) / y;
    if rest != 0.0 && (y < 0.0) != (rest < 0.0) {
        quotient -= 1.0;
    }
    // The division rounds: the quotient is next to a whole number, on either side of it.
    let floor = quotient.floor();
    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
}

/// The larger number; NaN if either number is NaN.
pub(super) fn maximum(x: f64, y: f64) -> f64 {
    if x > y || x.is_nan() { x } else { y }
}

/// The smaller number; NaN if either number is NaN.
pub(super) fn minimum(x: f64, y: f64) -> f64 {
    if x < y || x.is_nan() { x } else { y }
}

fn complex_binary(function: Binary, a: &Array, b: &Array, work: &Work) -> Result<Array, ReplayError> {
    match function {
        Binary::Add => pairs(a, b, work, |[a, b], [c, d]| [a + c, b + d]),
        Binary::Sub => pairs(a, b, work, |[a, b], [c, d]| [a - c, b - d]),
        Binary::Mul => pairs(a, b, work, |[a, b], [c, d]| [a * c - b * d, a * d + b * c]),
        Binary::Div => pairs(a, b, work, |[a, b], [c, d]| {
            let square = c * c + d * d;
            [(a * c + b * d) / square, (b * c - a * d) / square]
        }),
        _ => Err(ReplayError::operands(format!("`{}` of complex numbers is not supported", function.name()))),
    }
}

fn pairs(
    a: &Array,
    b: &Array,
    work: &Work,
    f: impl Fn([f64; 2], [f64; 2]) -> [f64; 2],
) -> Result<Array, ReplayError> {
    let shape = broadcast(&[a.shape(), b.shape()])?;
    let length = elements(&shape)?;
    work.elements(2 * length)?;
    let mut out = work.buffer(2 * length)?;
    if length > 0 {
        let strides = [a, b].map(|operand| broadcast_strides(operand.shape(), &shape));
        let walk = Walk::new(&shape, strides.each_ref().map(Vec::as_slice));
        let [step_a, step_b] = walk.steps;
        let (a, b) = (a.values().as_chunks().0, b.values().as_chunks().0);
        walk.rows(|[at_a, at_b]| {
            out.extend((0..walk.length).flat_map(|i| f(a[at_a + i * step_a], b[at_b + i * step_b])));
        });
    }
    Ok(Array::from_buffer(shape, out, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAN: f64 = f64::NAN;

    fn work() -> Work {
        Work::new(1 << 30, 1 << 30)
    }

    fn array(shape: &[usize], values: &[f64]) -> Array {
        Array::new(shape.to_vec(), values.to_vec()).unwrap()
    }

    #[track_caller]
    fn check(function: Binary, x: f64, y: f64, expected: f64) {
        let found = binary(function, &Array::scalar(x), &Array::scalar(y), &work()).unwrap().values()[0];
        assert!(found == expected || found.is_nan() && expected.is_nan(), "{found}, expected {expected}");
    }

    #[test]
    fn functions_have_the_values_of_torch() {
        check(Binary::Add, 1.0, 2.0, 3.0);
        check(Binary::Sub, 1.0, 2.0, -1.0);
        check(Binary::Mul, 3.0, 2.0, 6.0);
        check(Binary::Div, 1.0, 0.0, f64::INFINITY);
        check(Binary::FloorDiv, -7.0, 2.0, -4.0);
        check(Binary::FloorDiv, 7.0, -2.0, -4.0);
        check(Binary::FloorDiv, 1.0, 0.1, 9.0);
        check(Binary::FloorDiv, 1.0, 0.0, f64::INFINITY);
        check(Binary::Mod, -7.0, 3.0, 2.0);
        check(Binary::Mod, 7.0, -3.0, -2.0);
        check(Binary::Mod, 7.0, 0.0, NAN);
        check(Binary::Pow, 2.0, 10.0, 1024.0);
        check(Binary::Pow, -2.0, 3.0, -8.0);
        check(Binary::Pow, -2.0, 0.5, NAN);
        check(Binary::Pow, 4.0, -0.5, 0.5);
        check(Binary::Maximum, 1.0, NAN, NAN);
        check(Binary::Maximum, NAN, 1.0, NAN);
        check(Binary::Maximum, 1.0, 2.0, 2.0);
        check(Binary::Minimum, NAN, 1.0, NAN);
        check(Binary::Minimum, 1.0, 2.0, 1.0);
        check(Binary::Atan2, 1.0, -1.0, 2.356194490192345);
        check(Binary::Eq, NAN, NAN, 0.0);
        check(Binary::Ne, NAN, NAN, 1.0);
        check(Binary::Lt, 1.0, 2.0, 1.0);
        check(Binary::Le, 2.0, 2.0, 1.0);
        check(Binary::Gt, 1.0, 2.0, 0.0);
        check(Binary::Ge, 2.0, 2.0, 1.0);
        check(Binary::And, 2.0, 1.0, 1.0);
        check(Binary::Or, 0.0, 0.0, 0.0);
        check(Binary::Xor, 2.0, 1.0, 0.0);
    }

    #[test]
    fn a_condition_selects_and_all_three_broadcast() {
        let condition = array(&[2, 1], &[1.0, 0.0]);
        let (a, b) = (array(&[3], &[1.0, 2.0, 3.0]), Array::scalar(-9.0));
        let found = select(&condition, &a, &b, &work()).unwrap();
        assert_eq!((found.shape(), found.values()), (&[2, 3][..], &[1.0, 2.0, 3.0, -9.0, -9.0, -9.0][..]));
        let complex = array(&[1, 2], &[5.0, 6.0]).as_complex().unwrap();
        let found = select(&condition, &complex, &b, &work()).unwrap();
        assert_eq!((found.shape(), found.values()), (&[2, 1][..], &[5.0, 6.0, -9.0, 0.0][..]));
    }

    #[test]
    fn complex_numbers_have_the_four_operations() {
        let a = array(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).as_complex().unwrap();
        let b = array(&[1, 2], &[0.0, 2.0]).as_complex().unwrap();
        let found = |function| binary(function, &a, &b, &work()).unwrap().values().to_vec();
        assert_eq!(found(Binary::Add), [1.0, 4.0, 3.0, 6.0]);
        assert_eq!(found(Binary::Sub), [1.0, 0.0, 3.0, 2.0]);
        assert_eq!(found(Binary::Mul), [-4.0, 2.0, -8.0, 6.0]);
        assert_eq!(found(Binary::Div), [1.0, -0.5, 2.0, -1.5]);
        let scaled = binary(Binary::Mul, &a, &Array::scalar(2.0), &work()).unwrap();
        assert_eq!(scaled.values(), [2.0, 4.0, 6.0, 8.0]);
        assert!(binary(Binary::Lt, &a, &b, &work()).is_err());
    }

    proptest! {
        #[test]
        fn broadcasting_pairs_the_right_elements(
            lengths in prop::collection::vec((1usize..4, any::<bool>(), any::<bool>()), 0..5),
            dropped in 0usize..3,
        ) {
            let shape: Vec<usize> = lengths.iter().map(|(n, ..)| *n).collect();
            let own = |keep: fn(&(usize, bool, bool)) -> bool| -> Vec<usize> {
                lengths.iter().map(|l| if keep(l) { l.0 } else { 1 }).collect()
            };
            let (a, mut b) = (own(|l| l.1), own(|l| l.2));
            b.drain(..dropped.min(b.len()));
            let numbers = |shape: &[usize], scale: f64| {
                let values = (0..shape.iter().product()).map(|i: usize| i as f64 * scale).collect();
                Array::new(shape.to_vec(), values).unwrap()
            };
            let (a, b) = (numbers(&a, 1.0), numbers(&b, 1000.0));
            let found = binary(Binary::Add, &a, &b, &work()).unwrap();
            let at = |x: &Array, index: &[usize]| {
                let skipped = index.len() - x.ndim();
                let position = x.shape().iter().zip(&index[skipped..]).fold(0, |p, (&n, &i)| p * n + i % n);
                x.values()[position]
            };
            let common = broadcast(&[a.shape(), b.shape()]).unwrap();
            prop_assert_eq!(found.shape(), &common[..]);
            prop_assert!(common.len() <= shape.len());
            for (position, &x) in found.values().iter().enumerate() {
                let mut rest = position;
                let mut index = vec![0; common.len()];
                for axis in (0..common.len()).rev() {
                    index[axis] = rest % common[axis];
                    rest /= common[axis];
                }
                prop_assert_eq!(x, at(&a, &index) + at(&b, &index));
            }
        }
    }
}
