//! Evaluates one operation.

use super::array::{Array, elements};
use super::attention::{Attention, attention};
use super::binary::{binary, select};
use super::complex::complex;
use super::convolution::{Conv, ConvTranspose, conv, conv_transpose};
use super::dequantize::dequantize;
use super::einsum::einsum;
use super::error::ReplayError;
use super::join::{cat, pixel_shuffle, pixel_unshuffle, stack, triangle};
use super::lookup::lookup;
use super::matrix::{linear, matmul};
use super::normalize::normalize;
use super::pick::{flip, pad, repeat_interleave, roll, tile};
use super::pool::pool;
use super::rank::{cumsum, sort, topk};
use super::reduce::reduce;
use super::strided::{expand, permute, put, slice};
use super::unary::{cast, unary};
use super::upsample::upsample;
use super::work::Work;
use crate::recipe::{Form, Leaf, Op, Product};
use crate::tensor::MAX_AXES;

/// The value of an operation on these operands, in float64. An absent operand is `None`.
///
/// Inputs, weights and constants have no operands and are not evaluated here.
///
/// # Errors
///
/// When the operands do not fit the operation, the operation is unknown, or too few steps or too little memory is left.
pub fn evaluate(op: &Op, inputs: &[Option<Array>], work: &Work) -> Result<Array, ReplayError> {
    let present: Vec<bool> = inputs.iter().map(Option::is_some).collect();
    op.check_operands(&present).map_err(ReplayError::operands)?;
    // Even an operation on empty arrays costs a step, so that every sequence of operations ends.
    work.spend(1)?;
    let value = op_value(op, inputs, work)?;
    // An operation takes longer the more axes it has. Steps do not count this, so the number of axes is limited.
    if value.ndim() > MAX_AXES {
        let problem = format!("its result has {} axes, at most {MAX_AXES} are allowed", value.ndim());
        return Err(ReplayError::operands(problem));
    }
    Ok(value)
}

fn op_value(op: &Op, inputs: &[Option<Array>], work: &Work) -> Result<Array, ReplayError> {
    let optional = |at: usize| inputs.get(at).and_then(Option::as_ref);
    let operand = |at: usize| optional(at).ok_or_else(|| ReplayError::operands("an operand is missing"));
    match op {
        Op::Leaf(leaf) => leaf_value(leaf, work),
        Op::Unknown { why } => Err(ReplayError::Unknown { why: why.clone() }),
        Op::Unary(function) => unary(*function, operand(0)?, work),
        Op::Cast { dtype } => cast(*dtype, operand(0)?, work),
        Op::Binary(function) => binary(*function, operand(0)?, operand(1)?, work),
        Op::Where => select(operand(0)?, operand(1)?, operand(2)?, work),
        Op::Reduce { function, axes, keep } => reduce(*function, axes, *keep, operand(0)?, work),
        Op::Cumsum { axis } => cumsum(operand(0)?, *axis, work),
        Op::Topk { k, axis, largest, output } => topk(operand(0)?, *k, *axis, *largest, *output, work),
        Op::Sort { axis, descending, output } => sort(operand(0)?, *axis, *descending, *output, work),
        Op::Normalize(function) => normalize(*function, inputs, work),
        Op::Product(product) => product_value(product, inputs, work),
        Op::Pool { function, kernel, stride, padding } => {
            pool(operand(0)?, *function, kernel, stride, padding, work)
        }
        Op::Lookup(kind) => lookup(kind, operand(0)?, optional(1), work),
        Op::Form(form) => form_value(form, inputs, work),
        Op::Complex(function) => complex(*function, operand(0)?, optional(1), work),
        Op::Dequantize { bits, group_size } => {
            dequantize([operand(0)?, operand(1)?, operand(2)?], *bits, *group_size, work)
        }
    }
}

fn leaf_value(leaf: &Leaf, work: &Work) -> Result<Array, ReplayError> {
    match leaf {
        Leaf::Input { name } | Leaf::Weight { name } | Leaf::Constant { name } => Err(ReplayError::Leaf {
            what: format!("tensor `{name}`"),
            problem: "it is part of no fixture set here".to_owned(),
        }),
        Leaf::Full { shape, value } => {
            let length = elements(shape)?;
            work.elements(length)?;
            Ok(Array::real(shape.clone(), work.filled(length, *value)?))
        }
        Leaf::Arange { start, end, step } => {
            let count = ((end - start) / step).ceil();
            if !start.is_finite() || !count.is_finite() || count >= 1e15 {
                return Err(ReplayError::operands(format!("{start} to {end} by {step} is not a range")));
            }
            let length = count.max(0.0) as usize;
            work.elements(length)?;
            let values = work.collect(length, (0..length).map(|i| start + i as f64 * step))?;
            Ok(Array::real(vec![length], values))
        }
        Leaf::Table { shape, numbers } => {
            let length = elements(shape)?;
            if length != numbers.len() {
                let found = numbers.len();
                return Err(ReplayError::operands(format!("{found} numbers cannot have shape {shape:?}")));
            }
            work.elements(length)?;
            Ok(Array::real(shape.clone(), work.collect(length, numbers.iter().copied())?))
        }
    }
}

fn product_value(product: &Product, inputs: &[Option<Array>], work: &Work) -> Result<Array, ReplayError> {
    let optional = |at: usize| inputs.get(at).and_then(Option::as_ref);
    let operand = |at: usize| optional(at).ok_or_else(|| ReplayError::operands("an operand is missing"));
    match product {
        Product::Linear => linear(operand(0)?, operand(1)?, optional(2), work),
        Product::Matmul => matmul(operand(0)?, operand(1)?, work),
        Product::Einsum { equation } => einsum(equation, &all(inputs), work),
        Product::Conv { stride, padding, dilation, groups } => {
            let attributes = Conv { stride, padding, dilation, groups: *groups };
            conv(operand(0)?, operand(1)?, optional(2), &attributes, work)
        }
        Product::ConvTranspose { stride, padding, output_padding, dilation, groups } => {
            let attributes = ConvTranspose { stride, padding, output_padding, dilation, groups: *groups };
            conv_transpose(operand(0)?, operand(1)?, optional(2), &attributes, work)
        }
        Product::Attention { scale, causal, groups, mask } => {
            let attributes = Attention { scale: *scale, causal: *causal, groups: *groups, mask: *mask };
            attention([operand(0)?, operand(1)?, operand(2)?], optional(3), attributes, work)
        }
    }
}

fn form_value(form: &Form, inputs: &[Option<Array>], work: &Work) -> Result<Array, ReplayError> {
    let operand = |at: usize| {
        let operand = inputs.get(at).and_then(Option::as_ref);
        operand.ok_or_else(|| ReplayError::operands("an operand is missing"))
    };
    let x = operand(0)?;
    match form {
        Form::Reshape { shape } => x.reshaped(shape.clone()),
        Form::Permute { axes } => permute(x, axes, work),
        Form::Expand { shape } => expand(x, shape, work),
        Form::Slice(range) => slice(x, *range, work),
        Form::Cat { axis } => cat(&all(inputs), *axis, work),
        Form::Stack { axis } => stack(&all(inputs), *axis, work),
        Form::Pad { pads, mode, value } => pad(x, pads, *mode, *value, work),
        Form::Roll { shifts, axes } => roll(x, shifts, axes, work),
        Form::Flip { axes } => flip(x, axes, work),
        Form::Tile { times } => tile(x, times, work),
        Form::RepeatInterleave { repeats, axis } => repeat_interleave(x, *repeats, *axis, work),
        Form::Tril { diagonal } => triangle(x, *diagonal, true, work),
        Form::Triu { diagonal } => triangle(x, *diagonal, false, work),
        Form::PutSlices { slices } => put(x, slices, operand(1)?, work),
        Form::Upsample { size, how } => upsample(x, size, *how, work),
        Form::PixelShuffle { factor } => pixel_shuffle(x, *factor, work),
        Form::PixelUnshuffle { factor } => pixel_unshuffle(x, *factor, work),
    }
}

fn all(inputs: &[Option<Array>]) -> Vec<Array> {
    inputs.iter().flatten().cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use crate::recipe::{Binary, Unary};

    #[test]
    fn leaves_without_a_set_are_made_here() {
        let of = |leaf: Leaf| evaluate(&Op::Leaf(leaf), &[], &Work::new(1 << 20, 1 << 20));
        let full = of(Leaf::Full { shape: vec![2, 1], value: f64::NEG_INFINITY }).unwrap();
        assert_eq!((full.shape(), full.values()), (&[2, 1][..], &[f64::NEG_INFINITY; 2][..]));
        let range = |start, end, step| of(Leaf::Arange { start, end, step });
        assert_eq!(range(1.0, 7.5, 1.5).unwrap().values(), [1.0, 2.5, 4.0, 5.5, 7.0]);
        assert_eq!(range(5.0, 0.0, -2.0).unwrap().values(), [5.0, 3.0, 1.0]);
        assert_eq!(range(5.0, 0.0, 2.0).unwrap().shape(), [0]);
        for (start, end, step) in
            [(0.0, 1.0, 0.0), (0.0, f64::INFINITY, 1.0), (f64::NAN, 1.0, 1.0), (0.0, 1e300, 1e-300)]
        {
            assert!(range(start, end, step).is_err(), "{start} {end} {step}");
        }
        assert!(range(0.0, 1e9, 1.0).unwrap_err().is_limit());
        assert!(of(Leaf::Full { shape: vec![1 << 40], value: 0.0 }).unwrap_err().is_limit());
        assert!(matches!(of(Leaf::Weight { name: "w".into() }), Err(ReplayError::Leaf { .. })));
    }

    #[test]
    fn operands_are_counted_before_anything_is_computed() {
        let work = Work::new(1 << 20, 1 << 20);
        let x = Some(Array::scalar(1.0));
        let add = Op::Binary(Binary::Add);
        let error = |op: &Op, inputs: &[Option<Array>]| evaluate(op, inputs, &work).unwrap_err().to_string();
        assert_eq!(error(&add, from_ref(&x)), "operand 1 of `add` is missing");
        assert_eq!(error(&add, &[x.clone(), None]), "operand 1 of `add` is missing");
        let three = [x.clone(), x.clone(), x.clone()];
        assert_eq!(error(&add, &three), "`add` has 3 operands, at most 2 are allowed");
        assert_eq!(
            error(&Op::Form(Form::Cat { axis: 0 }), &[]),
            "`cat` takes one operand or more, all of them present"
        );
        let unknown = Op::Unknown { why: "uses `fft`".into() };
        assert_eq!(error(&unknown, from_ref(&x)), "a value is unknown: uses `fft`");
        let deep = Array::new(vec![1; MAX_AXES], vec![1.0]);
        let stack = Op::Form(Form::Stack { axis: 0 });
        assert_eq!(error(&stack, &[deep]), "its result has 65 axes, at most 64 are allowed");
        let none = Work::new(0, 1 << 20);
        assert_eq!(evaluate(&Op::Unary(Unary::Neg), &[x], &none).unwrap_err(), ReplayError::Work);
    }
}
