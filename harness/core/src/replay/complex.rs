//! Conversions to and from complex numbers.

use super::array::Array;
use super::binary::binary;
use super::error::ReplayError;
use super::join::stack;
use super::strided::expand;
use super::unary::{part, unary};
use super::walk::broadcast;
use super::work::Work;
use crate::recipe::{Binary, Complex, Unary};

/// Makes complex numbers, or takes them apart.
pub(super) fn complex(
    function: Complex,
    x: &Array,
    y: Option<&Array>,
    work: &Work,
) -> Result<Array, ReplayError> {
    match (function, y) {
        (Complex::Complex, Some(y)) => join(x, y, work),
        (Complex::Polar, Some(angle)) => {
            let (cos, sin) = (unary(Unary::Cos, angle, work)?, unary(Unary::Sin, angle, work)?);
            join(&binary(Binary::Mul, x, &cos, work)?, &binary(Binary::Mul, x, &sin, work)?, work)
        }
        (Complex::Complex | Complex::Polar, None) => Err(ReplayError::operands("an operand is missing")),
        (Complex::ViewAsComplex, _) => x.as_complex(),
        (Complex::ViewAsReal, _) if x.is_complex() => Ok(x.as_real()),
        (Complex::ViewAsReal, _) => Err(ReplayError::operands("it takes complex numbers")),
        (Complex::Real, _) if x.is_complex() => part(x, 0, work),
        (Complex::Imag, _) if x.is_complex() => part(x, 1, work),
        (Complex::Imag, _) => binary(Binary::Mul, x, &Array::scalar(0.0), work),
        (Complex::Conj, _) if x.is_complex() => {
            work.elements(x.values().len())?;
            let pairs = x.values().as_chunks::<2>().0;
            let values = work.collect(x.values().len(), pairs.iter().flat_map(|[re, im]| [*re, -im]))?;
            Ok(Array::from_buffer(x.shape().to_vec(), values, true))
        }
        (Complex::Real | Complex::Conj, _) => Ok(x.clone()),
    }
}

/// Complex numbers from their parts, which broadcast.
fn join(re: &Array, im: &Array, work: &Work) -> Result<Array, ReplayError> {
    re.check_real()?;
    im.check_real()?;
    let shape = broadcast(&[re.shape(), im.shape()])?;
    let [re, im] = [re, im].map(|part| expand(part, &shape, work));
    stack(&[re?, im?], shape.len(), work)?.as_complex()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_joined_and_taken_apart() {
        let work = Work::new(1 << 30, 1 << 30);
        let x = Array::new(vec![2], vec![1., 2.]).unwrap();
        let of = |function, x: &Array, y: Option<&Array>| complex(function, x, y, &work);
        let joined = of(Complex::Complex, &x, Some(&Array::scalar(3.0))).unwrap();
        assert_eq!((joined.shape(), joined.values()), (&[2][..], &[1., 3., 2., 3.][..]));
        assert!(joined.is_complex());
        assert_eq!(of(Complex::Real, &joined, None).unwrap().values(), [1., 2.]);
        assert_eq!(of(Complex::Imag, &joined, None).unwrap().values(), [3., 3.]);
        assert_eq!(of(Complex::Conj, &joined, None).unwrap().values(), [1., -3., 2., -3.]);
        let real = of(Complex::ViewAsReal, &joined, None).unwrap();
        assert_eq!((real.shape(), real.is_complex()), (&[2, 2][..], false));
        assert_eq!(of(Complex::ViewAsComplex, &real, None).unwrap().values(), joined.values());
        let polar = of(Complex::Polar, &x, Some(&Array::scalar(0.5))).unwrap();
        let (cos, sin) = (0.5f64.cos(), 0.5f64.sin());
        assert_eq!(polar.values(), [cos, sin, 2.0 * cos, 2.0 * sin]);
        assert!(of(Complex::ViewAsComplex, &x.reshaped(vec![2, 1]).unwrap(), None).is_err());
        assert!(of(Complex::ViewAsComplex, &joined, None).is_err());
        assert!(of(Complex::ViewAsReal, &x, None).is_err());
        assert_eq!(of(Complex::Imag, &x, None).unwrap().values(), [0., 0.]);
    }
}
