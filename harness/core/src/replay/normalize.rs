//! Softmax and norms.

use super::array::Array;
use super::binary::maximum;
use super::error::ReplayError;
use super::reduce::{logsumexp, squared_distance, sum, sum_of_squares};
use super::rows::AxesLast;
use super::work::{Buffer, Work};
use crate::recipe::Normalizer;

/// Normalises `inputs[0]`. The variants of [`Normalizer`] list the other operands.
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
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, maximum);
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

/// Applies a function to each row along an axis. The function appends the new row to the buffer.
fn along(
    x: &Array,
    axis: usize,
    work: &Work,
    row: impl Fn(&[f64], &mut Buffer),
) -> Result<Array, ReplayError> {
    let rows = AxesLast::of(x, &[axis], work)?;
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
    // All `length` numbers of a row share one weight (`Channels`), or each has its own weight (`Last`).
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

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    const X: [f64; 6] = [1., 2., 4., 0., -1., 3.];
    const Y: [f64; 8] = [1., 2., 3., 5., 8., 13., 21., 34.];

    fn array(shape: &[usize], values: &[f64]) -> Option<Array> {
        Array::new(shape.to_vec(), values.to_vec())
    }

    #[track_caller]
    fn check(function: Normalizer, inputs: &[Option<Array>], expected: &[f64]) {
        let found = normalize(function, inputs, &Work::new(1 << 30, 1 << 30)).unwrap();
        assert_eq!(found.shape(), inputs[0].as_ref().unwrap().shape());
        for (x, y) in found.values().iter().zip(expected) {
            assert!((x - y).abs() < 1e-13, "{:?}, expected {expected:?}", found.values());
        }
    }

    #[track_caller]
    fn refused(function: Normalizer, inputs: &[Option<Array>]) {
        assert!(normalize(function, inputs, &Work::new(1 << 30, 1 << 30)).is_err());
    }

    // Printed by torch in float64.
    #[test]
    fn values_are_those_of_torch() {
        let x = array(&[2, 3], &X);
        let (weight, bias) = (array(&[3], &[1., 2., 3.]), array(&[3], &[0.5, 0., -1.]));
        let softmax = [
            0.04201006613406605,
            0.11419519938459449,
            0.8437947344813395,
            0.0466126225779739,
            0.017147825545520388,
            0.9362395518765058,
        ];
        check(Normalizer::Softmax { axis: 1 }, from_ref(&x), &softmax);
        check(Normalizer::LogSoftmax { axis: 1 }, from_ref(&x), &softmax.map(f64::ln));
        check(
            Normalizer::Softmax { axis: 0 },
            from_ref(&x),
            &[
                0.7310585786300049,
                0.9525741268224334,
                0.7310585786300049,
                0.2689414213699951,
                0.04742587317756679,
                0.2689414213699951,
            ],
        );
        check(
            Normalizer::LayerNorm { rank: 1, eps: 1e-5 },
            &[x.clone(), weight.clone(), bias],
            &[
                -0.5690415314502977,
                -0.5345207657251491,
                3.0089057429386155,
                0.1077684085854142,
                -1.9611579570729287,
                3.1184317098531498,
            ],
        );
        check(
            Normalizer::LayerNorm { rank: 2, eps: 0.1 },
            &[x.clone(), None, None],
            &[
                -0.2878765849748735,
                0.2878765849748735,
                1.4393829248743675,
                -0.8636297549246206,
                -1.4393829248743675,
                0.8636297549246206,
            ],
        );
        check(
            Normalizer::RmsNorm { rank: 1, eps: 1e-5 },
            &[x.clone(), weight],
            &[
                0.3779642030348929,
                1.5118568121395717,
                4.535570436418715,
                0.0,
                -1.0954434718463568,
                4.929495623308606,
            ],
        );
        check(
            Normalizer::L2Normalize { axis: 1, eps: 1e-12 },
            &[x],
            &[
                0.2182178902359924,
                0.4364357804719848,
                0.8728715609439696,
                0.0,
                -0.31622776601683794,
                0.9486832980505138,
            ],
        );
    }

    #[test]
    fn channels_are_normalised_in_groups_and_by_stored_statistics() {
        let y = array(&[1, 4, 2], &Y);
        let (weight, bias) = (array(&[4], &[1., 2., 3., 4.]), array(&[4], &[0., 1., 0., 1.]));
        let variance = array(&[4], &[1., 4., 9., 16.]);
        let group = Normalizer::GroupNorm { groups: 2, eps: 1e-3 };
        check(
            group,
            &[y.clone(), weight.clone(), bias.clone()],
            &[
                -1.1829455999485958,
                -0.5069766856922553,
                1.3379844571281703,
                4.041860114153532,
                -3.3592941448672455,
                -1.8323422608366793,
                1.8143743381496353,
                7.107807536122265,
            ],
        );
        let batch = [y.clone(), weight.clone(), variance, weight.clone(), bias.clone()];
        check(Normalizer::BatchNorm { eps: 0.0 }, &batch, &[0., 1., 2., 4., 5., 10., 18., 31.]);
        refused(Normalizer::GroupNorm { groups: 3, eps: 0.0 }, from_ref(&y));
        refused(Normalizer::GroupNorm { groups: 0, eps: 0.0 }, from_ref(&y));
        refused(group, &[y.clone(), array(&[2], &[1., 1.])]);
        refused(group, &[array(&[4], &[0.; 4])]);
        refused(Normalizer::BatchNorm { eps: 0.0 }, &[y, weight, None]);
    }

    #[test]
    fn a_row_without_finite_numbers_is_nan_and_an_empty_one_nothing() {
        let row = array(&[2], &[f64::NEG_INFINITY; 2]);
        let found = normalize(Normalizer::Softmax { axis: 0 }, &[row], &Work::new(1 << 20, 1 << 20)).unwrap();
        assert!(found.values().iter().all(|x| x.is_nan()));
        check(Normalizer::Softmax { axis: 1 }, &[array(&[2, 0], &[])], &[]);
        check(Normalizer::LayerNorm { rank: 1, eps: 0.0 }, &[array(&[2, 0], &[])], &[]);
        refused(Normalizer::Softmax { axis: 1 }, &[array(&[2], &[1., 2.])]);
        refused(Normalizer::RmsNorm { rank: 2, eps: 0.0 }, &[array(&[2], &[1., 2.])]);
        refused(Normalizer::RmsNorm { rank: 1, eps: 0.0 }, &[array(&[2], &[1., 2.]), array(&[1], &[1.])]);
    }
}
