//! The functions of expressions: their names, parameters and values.

use std::fmt::Write as _;
use std::ops::Range;

use super::arguments::{Arguments, Signature, Value, normal_axis, whole};
use super::error::Mistake;
use crate::recipe::{Binary, Form, Normalizer, Op, Product, Ranked, Reduction, Slice, Unary};
use crate::replay::{Array, ReplayError, Work, evaluate};
use crate::text::printable::clean;
use crate::text::suggest::did_you_mean;

/// One function.
struct Function {
    signature: Signature,
    about: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Unary(Unary),
    Pair(Binary),
    Reduce(Reduction),
    Isnan,
    Quantile,
    Median,
    Entropy,
    Softmax,
    Sort,
    Cosine,
    Matmul,
    Where,
    Permute,
    Reshape,
    Flatten,
    Squeeze,
    Shape,
    Ndim,
    Size,
    First,
}

const AXIS: &[&str] = &["axis", "keepdims"];
const DDOF: &[&str] = &["axis", "keepdims", "ddof"];

macro_rules! functions {
    ($($name:literal $parameters:expr, $kind:expr, $about:literal;)*) => {
        &[$(Function {
            signature: Signature { name: $name, parameters: $parameters },
            about: $about,
            kind: $kind,
        }),*]
    };
}

const FUNCTIONS: &[Function] = functions! {
    "abs" &[], Kind::Unary(Unary::Abs), "magnitude of each element";
    "sqrt" &[], Kind::Unary(Unary::Sqrt), "square root";
    "exp" &[], Kind::Unary(Unary::Exp), "exponential";
    "log" &[], Kind::Unary(Unary::Log), "natural logarithm";
    "log2" &[], Kind::Unary(Unary::Log2), "logarithm to base 2";
    "sin" &[], Kind::Unary(Unary::Sin), "sine";
    "cos" &[], Kind::Unary(Unary::Cos), "cosine of an angle; `cosine` compares two tensors";
    "tanh" &[], Kind::Unary(Unary::Tanh), "hyperbolic tangent";
    "sigmoid" &[], Kind::Unary(Unary::Sigmoid), "1 / (1 + exp(-x))";
    "square" &[], Kind::Unary(Unary::Square), "x * x";
    "floor" &[], Kind::Unary(Unary::Floor), "rounded down";
    "ceil" &[], Kind::Unary(Unary::Ceil), "rounded up";
    "round" &[], Kind::Unary(Unary::Round), "rounded to the nearest whole number, halves to the even one";
    "sign" &[], Kind::Unary(Unary::Sign), "-1, 0 or 1";
    "isfinite" &[], Kind::Unary(Unary::Isfinite), "1 for numbers, 0 for NaN and infinities";
    "isnan" &[], Kind::Isnan, "1 for NaN, else 0";
    "maximum" &["other"], Kind::Pair(Binary::Maximum), "the larger of two elements";
    "minimum" &["other"], Kind::Pair(Binary::Minimum), "the smaller of two elements";
    "sum" AXIS, Kind::Reduce(Reduction::Sum), "sum";
    "prod" AXIS, Kind::Reduce(Reduction::Prod), "product";
    "mean" AXIS, Kind::Reduce(Reduction::Mean), "mean";
    "var" DDOF, Kind::Reduce(Reduction::Var { ddof: 0.0 }), "variance of the population; ddof=1 for a sample";
    "std" DDOF, Kind::Reduce(Reduction::Std { ddof: 0.0 }), "standard deviation of the population; ddof=1 for a sample";
    "min" AXIS, Kind::Reduce(Reduction::Min), "smallest element";
    "max" AXIS, Kind::Reduce(Reduction::Max), "largest element";
    "argmin" AXIS, Kind::Reduce(Reduction::Argmin), "index of the smallest element; without an axis, in row-major order";
    "argmax" AXIS, Kind::Reduce(Reduction::Argmax), "index of the largest element; without an axis, in row-major order";
    "any" AXIS, Kind::Reduce(Reduction::Any), "1 if any element is not 0";
    "all" AXIS, Kind::Reduce(Reduction::All), "1 if no element is 0";
    "norm" AXIS, Kind::Reduce(Reduction::Norm { p: 2.0 }), "Euclidean norm";
    "logsumexp" AXIS, Kind::Reduce(Reduction::Logsumexp), "log(sum(exp(x))), without overflow";
    "median" &[], Kind::Median, "median of all elements";
    "quantile" &["q"], Kind::Quantile, "quantile of all elements, linear between two of them; q is from 0 to 1";
    "entropy" &["axis"], Kind::Entropy, "-sum(p * log(p)), along the last axis by default";
    "softmax" &["axis"], Kind::Softmax, "softmax, along the last axis by default";
    "sort" &["axis"], Kind::Sort, "sorted, along the last axis by default";
    "cosine" &["other"], Kind::Cosine, "cosine of the angle between two tensors";
    "matmul" &["other"], Kind::Matmul, "matrix product, the same as `a @ b`";
    "where" &["then", "else"], Kind::Where, "`then` where x is not 0, else `else`";
    "transpose" &["…"], Kind::Permute, "axes in the given order, reversed by default";
    "permute" &["…"], Kind::Permute, "the same as `transpose`";
    "T" &[], Kind::Permute, "`x.T`: all axes reversed";
    "reshape" &["…"], Kind::Reshape, "the same elements in another shape; one length may be -1";
    "flatten" &[], Kind::Flatten, "one axis with all elements";
    "squeeze" &[], Kind::Squeeze, "without axes of length 1";
    "shape" &[], Kind::Shape, "lengths of the axes";
    "ndim" &[], Kind::Ndim, "number of axes";
    "size" &[], Kind::Size, "number of elements";
    "first" &["count"], Kind::First, "the first elements in row-major order, 10 by default";
};

/// The functions, one per line with their parameters.
pub fn help() -> String {
    let mut text = String::new();
    for function in FUNCTIONS {
        let _ = writeln!(text, "  {:<30} {}", function.signature.call(), function.about);
    }
    text
}

/// The names of all functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|function| function.signature.name)
}

/// The value of a call.
pub(super) fn call(
    name: &str,
    name_at: &Range<usize>,
    at: &Range<usize>,
    given: Vec<Value>,
    work: &Work,
) -> Result<Array, Mistake> {
    let Some(function) = FUNCTIONS.iter().find(|function| function.signature.name == name) else {
        let near = did_you_mean(name, names());
        let all: Vec<&str> = names().collect();
        return Err(Mistake::new(name_at, format!("unknown function `{}`{near}", clean(name)))
            .allowed(all.join(", ")));
    };
    let arguments = Arguments::new(&function.signature, at, given)?;
    let x = &arguments.x;
    let run = |op: &Op, inputs: &[Array]| {
        let inputs: Vec<Option<Array>> = inputs.iter().cloned().map(Some).collect();
        evaluate(op, &inputs, work).map_err(|error| limit(at, &error))
    };
    let one = |op: Op| run(&op, std::slice::from_ref(x));
    match function.kind {
        Kind::Unary(unary) => one(Op::Unary(unary)),
        Kind::Isnan => run(&Op::Binary(Binary::Ne), &[x.clone(), x.clone()]),
        Kind::Pair(pair) => run(&Op::Binary(pair), &[x.clone(), arguments.tensor(0)?]),
        Kind::Reduce(reduction) => reduce(reduction, &arguments, &one),
        Kind::Median => quantile(0.5, x, at, run),
        Kind::Quantile => {
            let (q, place) = arguments.number(0)?.ok_or_else(|| arguments.missing(0))?;
            if !(0.0..=1.0).contains(&q) {
                return Err(Mistake::new(&place, format!("q is {q}")).allowed("a number from 0 to 1"));
            }
            quantile(q, x, at, run)
        }
        Kind::Entropy => {
            let axis = arguments.one_axis()?;
            let logs = run(&Op::Unary(Unary::Log), std::slice::from_ref(x))?;
            let terms = run(&Op::Binary(Binary::Mul), &[x.clone(), logs])?;
            // `0 * log(0)` counts as 0.
            let terms = run(&Op::Where, &[x.clone(), terms, Array::scalar(0.0)])?;
            let sums =
                run(&Op::Reduce { function: Reduction::Sum, axes: vec![axis], keep: false }, &[terms])?;
            // Not the negative, which would be -0 for a row with a single key.
            run(&Op::Binary(Binary::Sub), &[Array::scalar(0.0), sums])
        }
        Kind::Softmax => one(Op::Normalize(Normalizer::Softmax { axis: arguments.one_axis()? })),
        Kind::Sort => {
            one(Op::Sort { axis: arguments.one_axis()?, descending: false, output: Ranked::Values })
        }
        Kind::Cosine => {
            let other = arguments.tensor(0)?;
            if x.shape() != other.shape() {
                let message = format!("`cosine` of shapes {:?} and {:?}", x.shape(), other.shape());
                return Err(Mistake::new(at, message).allowed("two tensors of the same shape"));
            }
            let sum_of = |a: &Array, b: &Array| {
                let product = run(&Op::Binary(Binary::Mul), &[a.clone(), b.clone()])?;
                let axes = (0..product.ndim()).collect();
                run(&Op::Reduce { function: Reduction::Sum, axes, keep: false }, &[product])
            };
            let squares = run(&Op::Binary(Binary::Mul), &[sum_of(x, x)?, sum_of(&other, &other)?])?;
            let norms = run(&Op::Unary(Unary::Sqrt), &[squares])?;
            run(&Op::Binary(Binary::Div), &[sum_of(x, &other)?, norms])
        }
        Kind::Matmul => run(&Op::Product(Product::Matmul), &[x.clone(), arguments.tensor(0)?]),
        Kind::Where => run(&Op::Where, &[x.clone(), arguments.tensor(0)?, arguments.tensor(1)?]),
        Kind::Permute => {
            let mut axes = Vec::new();
            for (axis, place) in arguments.rest()? {
                axes.push(normal_axis(axis, x, &place)?);
            }
            if axes.is_empty() {
                axes = (0..x.ndim()).rev().collect();
            }
            one(Op::Form(Form::Permute { axes }))
        }
        Kind::Reshape => one(Op::Form(Form::Reshape { shape: arguments.new_shape()? })),
        Kind::Flatten => one(Op::Form(Form::Reshape { shape: vec![x.len()] })),
        Kind::Squeeze => {
            let shape = x.shape().iter().copied().filter(|&length| length != 1).collect();
            one(Op::Form(Form::Reshape { shape }))
        }
        Kind::Shape => numbers(x.shape().iter().map(|&length| length as f64).collect(), at),
        Kind::Ndim => Ok(Array::scalar(x.ndim() as f64)),
        Kind::Size => Ok(Array::scalar(x.len() as f64)),
        Kind::First => {
            let count = match arguments.number(0)? {
                None => 10,
                Some((count, place)) => usize::try_from(whole(count, &place)?).map_err(|_| {
                    Mistake::new(&place, format!("the count is {count}")).allowed("0 or more")
                })?,
            };
            let flat = run(&Op::Form(Form::Reshape { shape: vec![x.len()] }), std::slice::from_ref(x))?;
            let slice = Slice { axis: 0, start: 0, end: count.min(x.len()), step: 1 };
            run(&Op::Form(Form::Slice(slice)), &[flat])
        }
    }
}

fn reduce(
    reduction: Reduction,
    arguments: &Arguments,
    one: &dyn Fn(Op) -> Result<Array, Mistake>,
) -> Result<Array, Mistake> {
    let ddof = arguments.number(2)?;
    let function = match (reduction, ddof) {
        (Reduction::Var { .. }, Some((ddof, _))) => Reduction::Var { ddof },
        (Reduction::Std { .. }, Some((ddof, _))) => Reduction::Std { ddof },
        (other, _) => other,
    };
    let keep = arguments.number(1)?.is_some_and(|(keep, _)| keep != 0.0);
    one(Op::Reduce { function, axes: arguments.axes()?, keep })
}

fn quantile(
    q: f64,
    x: &Array,
    at: &Range<usize>,
    run: impl Fn(&Op, &[Array]) -> Result<Array, Mistake>,
) -> Result<Array, Mistake> {
    if x.is_empty() || x.is_complex() {
        return Err(
            Mistake::new(at, "this tensor has no quantiles").allowed("a tensor of real numbers, not empty")
        );
    }
    let flat = run(&Op::Form(Form::Reshape { shape: vec![x.len()] }), std::slice::from_ref(x))?;
    let sorted = run(&Op::Sort { axis: 0, descending: false, output: Ranked::Values }, &[flat])?;
    let place = q * (x.len() - 1) as f64;
    let (below, above) = (sorted.values()[place.floor() as usize], sorted.values()[place.ceil() as usize]);
    // NaN is sorted to the end, and makes any quantile NaN, as in NumPy.
    let last = sorted.values()[x.len() - 1];
    let value = if below == above { below } else { below + (above - below) * place.fract() };
    Ok(Array::scalar(if last.is_nan() { last } else { value }))
}

/// A list of numbers as a tensor.
pub(super) fn numbers(values: Vec<f64>, at: &Range<usize>) -> Result<Array, Mistake> {
    Array::new(vec![values.len()], values).ok_or_else(|| Mistake::new(at, "the list is too long"))
}

/// An error of an operation, in words that fit an expression.
pub(super) fn limit(at: &Range<usize>, error: &ReplayError) -> Mistake {
    let message = match error {
        ReplayError::Work => "the expression takes more steps than are allowed".to_owned(),
        ReplayError::Memory { wanted, left } => {
            use crate::files::size::words;
            format!("this needs {}, and {} of the allowed memory are left", words(*wanted), words(*left))
        }
        other => other.to_string(),
    };
    let allowed = if error.is_limit() { "a part of the tensor, such as `actual[0]`" } else { "" };
    Mistake::new(at, message).allowed(allowed)
}
