//! Softmax and norms.

use super::array::Array;
use super::error::ReplayError;
use super::reduce::{logsumexp, squared_distance, sum, sum_of_squares};
use super::rows::Rows;
use super::work::{Buffer, Work};
use crate::recipe::Normalizer;

/// Normalises `inputs[0]`. Operands after it are those of [`Normalizer`].
pub(super) fn normalize(
    function: Normalizer,
    inputs: &[Option<Array>],
    work: &Work,
) -> Result<Array, ReplayError> {
    let operand = |at: usize| inputs.get(at).and_then(Option::as_ref);
    let required = |at: usize| operand(at).ok_or_else(|| ReplayError::operands("an operand is missing"));
    let x = required(0)?;
    x.check_real()?;
    match function {
        Normalizer::Softmax { axis } => along(x, axis, work, |row, out| {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, super::binary::maximum);
            let start = out.len();
            out.extend(row.iter().map(|x| (x - largest).exp()));
            let total = sum(&out[start..]);
            out[start..].iter_mut().for_each(|x| *x /= total);
        }),
        Normalizer::LogSoftmax { axis } => along(x, axis, work, |row, out| {
            let total = logsumexp(row);
            out.extend(row.iter().map(|x| x - total));
        }),
        Normalizer::L2Normalize { axis, eps } => along(x, axis, work, |row, out| {
            let length = sum_of_squares(row).sqrt().max(eps);
            out.extend(row.iter().map(|x| x / length));
        }),
        Normalizer::LayerNorm { rank, eps } => {
            let rows = last_axes(x, rank)?;
            let out = standardized(x, rows, eps, work)?;
            scaled(x, out, operand(1), operand(2), Scale::Last(rank))
        }
        Normalizer::RmsNorm { rank, eps } => {
            let length = last_axes(x, rank)?;
            work.elements(2 * x.len())?;
            let mut out = work.buffer(x.len())?;
            for row in x.values().chunks_exact(length.max(1)) {
                let factor = 1.0 / (sum_of_squares(row) / length as f64 + eps).sqrt();
                out.extend(row.iter().map(|x| x * factor));
            }
            scaled(x, out, operand(1), None, Scale::Last(rank))
        }
        Normalizer::GroupNorm { groups, eps } => {
            let channels = x.length(1)?;
            if groups == 0 || channels % groups != 0 {
                let problem = format!("{channels} channels cannot be divided into {groups} groups");
                return Err(ReplayError::operands(problem));
            }
            let inner: usize = x.shape()[2..].iter().product();
            let out = standardized(x, channels / groups * inner, eps, work)?;
            scaled(x, out, operand(1), operand(2), Scale::Channels)
        }
        Normalizer::BatchNorm { eps } => {
            let channels = x.length(1)?;
            let (mean, variance) = (required(1)?, required(2)?);
            check_length(mean, channels)?;
            check_length(variance, channels)?;
            work.elements(2 * x.len())?;
            let mut out = work.buffer(x.len())?;
            let inner: usize = x.shape()[2..].iter().product();
            for (index, row) in x.values().chunks_exact(inner.max(1)).enumerate() {
                let (mean, variance) = (mean.values()[index % channels], variance.values()[index % channels]);
                let factor = 1.0 / (variance + eps).sqrt();
                out.extend(row.iter().map(|x| (x - mean) * factor));
            }
            scaled(x, out, operand(3), operand(4), Scale::Channels)
        }
    }
}

/// Applies a function that appends a new row per row along an axis.
fn along(
    x: &Array,
    axis: usize,
    work: &Work,
    row: impl Fn(&[f64], &mut Buffer),
) -> Result<Array, ReplayError> {
    let rows = Rows::of(x, &[axis], work)?;
    work.functions(x.len())?;
    let mut out = work.buffer(x.len())?;
    rows.iter().for_each(|values| row(values, &mut out));
    rows.restore(out, work)
}

/// The number of elements in the last `rank` axes.
fn last_axes(x: &Array, rank: usize) -> Result<usize, ReplayError> {
    match x.ndim().checked_sub(rank) {
        Some(first) => Ok(x.shape()[first..].iter().product()),
        None => Err(ReplayError::operands(format!("shape {:?} has no {rank} axes", x.shape()))),
    }
}

/// Rows of this length with mean 0 and variance 1.
fn standardized(x: &Array, length: usize, eps: f64, work: &Work) -> Result<Buffer, ReplayError> {
    work.elements(3 * x.len())?;
    let mut out = work.buffer(x.len())?;
    for row in x.values().chunks_exact(length.max(1)) {
        let mean = sum(row) / length as f64;
        let factor = 1.0 / (squared_distance(row, mean) / length as f64 + eps).sqrt();
        out.extend(row.iter().map(|x| (x - mean) * factor));
    }
    Ok(out)
}

/// How a weight is applied.
enum Scale {
    /// One number per place in the last axes.
    Last(usize),
    /// One number per index along axis 1.
    Channels,
}

/// `values` times the weight plus the bias.
fn scaled(
    x: &Array,
    mut values: Buffer,
    weight: Option<&Array>,
    bias: Option<&Array>,
    scale: Scale,
) -> Result<Array, ReplayError> {
    for operand in [weight, bias].into_iter().flatten() {
        match scale {
            Scale::Last(rank) if operand.shape() == &x.shape()[x.ndim() - rank..] => operand.check_real()?,
            Scale::Last(_) => {
                let (found, shape) = (operand.shape(), x.shape());
                let problem = format!("a weight of shape {found:?} does not fit the last axes of {shape:?}");
                return Err(ReplayError::operands(problem));
            }
            Scale::Channels => check_length(operand, x.length(1)?)?,
        }
    }
    // A row of `length` numbers has the same weight, or each of its numbers has its own.
    let length = match scale {
        Scale::Last(rank) => last_axes(x, rank)?,
        Scale::Channels => x.shape()[2..].iter().product(),
    };
    for (index, row) in values.chunks_exact_mut(length.max(1)).enumerate() {
        match scale {
            Scale::Last(_) => {
                if let Some(weight) = weight {
                    row.iter_mut().zip(weight.values()).for_each(|(x, weight)| *x *= weight);
                }
                if let Some(bias) = bias {
                    row.iter_mut().zip(bias.values()).for_each(|(x, bias)| *x += bias);
                }
            }
            Scale::Channels => {
                let of = |operand: Option<&Array>, default: f64| {
                    operand.map_or(default, |operand| operand.values()[index % operand.len()])
                };
                let (weight, bias) = (of(weight, 1.0), of(bias, 0.0));
                row.iter_mut().for_each(|x| *x = *x * weight + bias);
            }
        }
    }
    Ok(Array::real(x.shape().to_vec(), values))
}

/// Fails unless the operand has one number per channel.
fn check_length(operand: &Array, channels: usize) -> Result<(), ReplayError> {
    operand.check_real()?;
    if operand.shape() == [channels] {
        return Ok(());
    }
    Err(ReplayError::operands(format!(
        "shape {:?} is not one number per channel of {channels}",
        operand.shape()
    )))
}
