//! Functions of one element, and casts.

use half::f16;

use super::array::Array;
use super::error::ReplayError;
use super::work::Work;
use crate::recipe::Unary;
use crate::tensor::{Dtype, nearest_bf16};

/// Applies a function to each element.
pub(super) fn unary(function: Unary, x: &Array, work: &Work) -> Result<Array, ReplayError> {
    if x.is_complex() {
        return complex_unary(function, x, work);
    }
    // One loop per function, so that the compiler can vectorise the cheap ones.
    match function {
        Unary::Neg => map(x, work, |x| -x),
        Unary::Abs => map(x, work, f64::abs),
        Unary::Exp => slow(x, work, f64::exp),
        Unary::Log => slow(x, work, f64::ln),
        Unary::Log2 => slow(x, work, f64::log2),
        Unary::Sqrt => map(x, work, f64::sqrt),
        Unary::Rsqrt => map(x, work, |x| 1.0 / x.sqrt()),
        Unary::Reciprocal => map(x, work, f64::recip),
        Unary::Sin => slow(x, work, f64::sin),
        Unary::Cos => slow(x, work, f64::cos),
        Unary::Tan => slow(x, work, f64::tan),
        Unary::Atan => slow(x, work, f64::atan),
        Unary::Tanh => slow(x, work, f64::tanh),
        Unary::Sigmoid => slow(x, work, sigmoid),
        Unary::Silu => slow(x, work, |x| x * sigmoid(x)),
        // A comparison with NaN is false, so NaN stays.
        Unary::Relu => map(x, work, |x| if x < 0.0 { 0.0 } else { x }),
        Unary::Erf => slow(x, work, libm::erf),
        Unary::Square => map(x, work, |x| x * x),
        Unary::Floor => map(x, work, f64::floor),
        Unary::Ceil => map(x, work, f64::ceil),
        Unary::Round => map(x, work, f64::round_ties_even),
        // 0 for NaN, as in torch and MLX.
        Unary::Sign => map(x, work, |x| f64::from(i8::from(x > 0.0) - i8::from(x < 0.0))),
        Unary::Not => map(x, work, |x| f64::from(u8::from(x == 0.0))),
        Unary::Isfinite => map(x, work, |x| f64::from(u8::from(x.is_finite()))),
        Unary::Softplus => slow(x, work, |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
        Unary::Gelu { tanh: false } => {
            slow(x, work, |x| 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)))
        }
        Unary::Gelu { tanh: true } => {
            // The square root of 2 / pi.
            let scale = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
            slow(x, work, move |x| 0.5 * x * (1.0 + (scale * (x + 0.044715 * x * x * x)).tanh()))
        }
        Unary::LeakyRelu { slope } => map(x, work, move |x| if x < 0.0 { slope * x } else { x }),
        Unary::Elu { alpha } => slow(x, work, move |x| if x > 0.0 { x } else { alpha * x.exp_m1() }),
        Unary::Clamp { min, max } => {
            let (min, max) = (min.unwrap_or(f64::NEG_INFINITY), max.unwrap_or(f64::INFINITY));
            // If the lower bound is above the upper one, the upper one wins, as in torch and NumPy. NaN stays.
            map(x, work, move |x| {
                let x = if x < min { min } else { x };
                if x > max { max } else { x }
            })
        }
    }
}

fn complex_unary(function: Unary, x: &Array, work: &Work) -> Result<Array, ReplayError> {
    let pairs = |work: &Work, f: fn([f64; 2]) -> [f64; 2]| {
        work.functions(x.len())?;
        let values = work.collect(2 * x.len(), x.values().as_chunks().0.iter().flat_map(|&pair| f(pair)))?;
        Ok(Array::from_buffer(x.shape().to_vec(), values, true))
    };
    match function {
        Unary::Neg => pairs(work, |[re, im]| [-re, -im]),
        Unary::Exp => pairs(work, |[re, im]| [re.exp() * im.cos(), re.exp() * im.sin()]),
        Unary::Square => pairs(work, |[re, im]| [re * re - im * im, 2.0 * re * im]),
        Unary::Abs => {
            work.functions(x.len())?;
            let pairs = x.values().as_chunks::<2>().0;
            let values = work.collect(x.len(), pairs.iter().map(|[re, im]| re.hypot(*im)))?;
            Ok(Array::real(x.shape().to_vec(), values))
        }
        _ => Err(ReplayError::operands(format!("`{}` of complex numbers is not supported", function.name()))),
    }
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Converts each element to a dtype. Floats round, integers truncate and wrap around, and bools are 0 or 1.
pub(super) fn cast(dtype: Dtype, x: &Array, work: &Work) -> Result<Array, ReplayError> {
    if dtype == Dtype::Complex64 {
        return to_complex(x, work);
    }
    let x = &if x.is_complex() { part(x, 0, work)? } else { x.clone() };
    // Numbers beyond 64 bits saturate. A processor converts them differently, but no index or mask is that large.
    match dtype {
        Dtype::Float64 | Dtype::Complex64 => Ok(x.clone()),
        Dtype::Float32 => map(x, work, |x| f64::from(x as f32)),
        Dtype::Float16 => map(x, work, |x| f16::from_f64(x).to_f64()),
        Dtype::Bfloat16 => map(x, work, |x| nearest_bf16(x).to_f64()),
        Dtype::Bool => map(x, work, |x| f64::from(u8::from(x != 0.0))),
        Dtype::Int8 => map(x, work, |x| f64::from(x as i64 as i8)),
        Dtype::Int16 => map(x, work, |x| f64::from(x as i64 as i16)),
        Dtype::Int32 => map(x, work, |x| f64::from(x as i64 as i32)),
        Dtype::Int64 => map(x, work, |x| (x as i64) as f64),
        Dtype::Uint8 => map(x, work, |x| f64::from(x as i64 as u8)),
        Dtype::Uint16 => map(x, work, |x| f64::from(x as i64 as u16)),
        Dtype::Uint32 => map(x, work, |x| f64::from(x as i64 as u32)),
        Dtype::Uint64 => map(x, work, |x| if x < 0.0 { x as i64 as u64 } else { x as u64 } as f64),
    }
}

fn to_complex(x: &Array, work: &Work) -> Result<Array, ReplayError> {
    work.elements(x.values().len())?;
    let rounded = |x: &f64| f64::from(*x as f32);
    let values = match x.is_complex() {
        true => work.collect(x.values().len(), x.values().iter().map(rounded)),
        false => work.collect(2 * x.len(), x.values().iter().flat_map(|x| [rounded(x), 0.0])),
    };
    Ok(Array::from_buffer(x.shape().to_vec(), values?, true))
}

/// The real (0) or imaginary (1) part of complex numbers.
pub(super) fn part(x: &Array, part: usize, work: &Work) -> Result<Array, ReplayError> {
    work.elements(x.len())?;
    let values = work.collect(x.len(), x.values().iter().skip(part).step_by(2).copied())?;
    Ok(Array::real(x.shape().to_vec(), values))
}

fn map(x: &Array, work: &Work, f: impl Fn(f64) -> f64) -> Result<Array, ReplayError> {
    work.elements(x.len())?;
    let values = work.collect(x.len(), x.values().iter().map(|&x| f(x)))?;
    Ok(Array::real(x.shape().to_vec(), values))
}

/// As [`map`], for functions that take much longer than a sum.
fn slow(x: &Array, work: &Work, f: impl Fn(f64) -> f64) -> Result<Array, ReplayError> {
    work.functions(x.len())?;
    map(x, work, f)
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
    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (x, y) in found.iter().zip(expected) {
            let same = x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= 1e-13 * y.abs().max(1e-3);
            assert!(same, "{found:?}, expected {expected:?}");
        }
    }

    #[track_caller]
    fn check(function: Unary, x: &[f64], expected: &[f64]) {
        let x = Array::new(vec![x.len()], x.to_vec()).unwrap();
        near(unary(function, &x, &work()).unwrap().values(), expected);
    }

    #[test]
    fn functions_have_the_values_of_torch() {
        check(Unary::Neg, &[1.0, -0.5], &[-1.0, 0.5]);
        check(Unary::Abs, &[1.0, -0.5], &[1.0, 0.5]);
        check(Unary::Exp, &[1.0, -INF], &[std::f64::consts::E, 0.0]);
        check(Unary::Log, &[1.0, -1.0, 0.0], &[0.0, NAN, -INF]);
        check(Unary::Log2, &[8.0], &[3.0]);
        check(Unary::Sqrt, &[4.0, -1.0], &[2.0, NAN]);
        check(Unary::Rsqrt, &[4.0, 0.0], &[0.5, INF]);
        check(Unary::Reciprocal, &[4.0, -0.0], &[0.25, -INF]);
        check(Unary::Sin, &[0.5], &[0.479425538604203]);
        check(Unary::Cos, &[0.5], &[0.8775825618903728]);
        check(Unary::Tan, &[0.5], &[0.5463024898437905]);
        check(Unary::Atan, &[0.5], &[0.4636476090008061]);
        check(Unary::Tanh, &[0.5, 40.0], &[0.46211715726000973, 1.0]);
        check(Unary::Sigmoid, &[0.5, -1000.0], &[0.6224593312018546, 0.0]);
        check(Unary::Silu, &[0.5, -1000.0], &[0.3112296656009273, -0.0]);
        check(Unary::Relu, &[0.5, -1.0, NAN], &[0.5, 0.0, NAN]);
        check(Unary::Erf, &[0.5], &[0.5204998778130465]);
        check(Unary::Square, &[-3.0], &[9.0]);
        check(Unary::Floor, &[-1.5, 1.5], &[-2.0, 1.0]);
        check(Unary::Ceil, &[-1.5, 1.5], &[-1.0, 2.0]);
        check(Unary::Round, &[0.5, 1.5, -2.5, 2.6], &[0.0, 2.0, -2.0, 3.0]);
        check(Unary::Sign, &[-3.0, 0.0, 2.0, NAN], &[-1.0, 0.0, 1.0, 0.0]);
        check(Unary::Not, &[0.0, 2.0, NAN], &[1.0, 0.0, 0.0]);
        check(Unary::Isfinite, &[0.0, INF, NAN], &[1.0, 0.0, 0.0]);
        check(Unary::Softplus, &[0.5, 800.0, -800.0], &[0.9740769841801067, 800.0, 0.0]);
        check(Unary::Gelu { tanh: false }, &[0.5, -1.0], &[0.34573123063700656, -0.15865525393145707]);
        check(Unary::Gelu { tanh: true }, &[0.5, -1.0], &[0.34571400982514394, -0.15880800939172324]);
        check(Unary::LeakyRelu { slope: 0.1 }, &[2.0, -2.0, NAN], &[2.0, -0.2, NAN]);
        check(Unary::Elu { alpha: 2.0 }, &[2.0, -1.0], &[2.0, -1.2642411176571153]);
        check(Unary::Clamp { min: Some(-1.0), max: None }, &[-2.0, 9.0, NAN], &[-1.0, 9.0, NAN]);
        check(Unary::Clamp { min: Some(3.0), max: Some(1.0) }, &[-2.0, 9.0], &[1.0, 1.0]);
    }

    #[test]
    fn complex_numbers_have_few_functions() {
        let x = Array::new(vec![1, 2], vec![3.0, 4.0]).unwrap().as_complex().unwrap();
        near(unary(Unary::Abs, &x, &work()).unwrap().values(), &[5.0]);
        near(unary(Unary::Neg, &x, &work()).unwrap().values(), &[-3.0, -4.0]);
        near(unary(Unary::Square, &x, &work()).unwrap().values(), &[-7.0, 24.0]);
        let exp = unary(Unary::Exp, &x, &work()).unwrap();
        near(exp.values(), &[3f64.exp() * 4f64.cos(), 3f64.exp() * 4f64.sin()]);
        assert!(unary(Unary::Erf, &x, &work()).is_err());
    }

    #[test]
    fn a_cast_rounds_truncates_and_wraps() {
        type Case = (Dtype, &'static [f64], &'static [f64]);
        const CASES: &[Case] = &[
            (Dtype::Float64, &[0.1], &[0.1]),
            (Dtype::Float32, &[0.1, 1e300], &[0.10000000149011612, INF]),
            (Dtype::Float16, &[0.1, 1e6], &[0.0999755859375, INF]),
            (Dtype::Bfloat16, &[0.1, 1.00390625], &[0.10009765625, 1.0]),
            (Dtype::Bool, &[0.0, -2.0, NAN], &[0.0, 1.0, 1.0]),
            (Dtype::Int8, &[1.9, -1.9, 200.0], &[1.0, -1.0, -56.0]),
            (Dtype::Int16, &[40_000.0], &[-25_536.0]),
            (Dtype::Int32, &[-2.5, 3e9], &[-2.0, -1_294_967_296.0]),
            (Dtype::Int64, &[-2.5, 3e9], &[-2.0, 3e9]),
            (Dtype::Uint8, &[-1.0, 256.5], &[255.0, 0.0]),
            (Dtype::Uint16, &[-1.0], &[65_535.0]),
            (Dtype::Uint32, &[-1.0], &[4_294_967_295.0]),
            (Dtype::Uint64, &[1e19, 3.7], &[1e19, 3.0]),
        ];
        for (dtype, x, expected) in CASES {
            let x = Array::new(vec![x.len()], x.to_vec()).unwrap();
            near(cast(*dtype, &x, &work()).unwrap().values(), expected);
        }
        let x = Array::new(vec![1], vec![0.1]).unwrap();
        let complex = cast(Dtype::Complex64, &x, &work()).unwrap();
        near(complex.values(), &[0.10000000149011612, 0.0]);
        near(cast(Dtype::Float32, &complex, &work()).unwrap().values(), &[0.10000000149011612]);
    }
}
