//! The golden with a factor or an offset per index of an axis, or with a vector along the wrong axis.

use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, Search};
use crate::number::Short;
use crate::tensor::{Float64View, row_major};

/// A vector along an axis is fitted to at most this many elements, in this many sweeps.
const MOST_FITTED: usize = 1 << 14;
const SWEEPS: usize = 60;

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let pair = &search.pair;
    if !pair.same_shape() || pair.actual.len() < 16 {
        return Vec::new();
    }
    if let Some(found) = broadcast(pair) {
        return vec![found];
    }
    groupings(pair.shape().len()).into_iter().find_map(|keep| by_group(search, &keep)).into_iter().collect()
}

/// The sets of axes whose indices may each have their own number: single axes, then rows, then the channels of each batch.
fn groupings(ndim: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = (0..ndim).rev().map(|axis| vec![axis]).collect();
    if ndim >= 3 {
        all.push((0..ndim - 1).collect());
        all.push(vec![0, ndim - 1]);
    }
    all
}

/// The group of each sampled element, and the number of groups.
pub(super) fn group_ids(pair: &SampledPair, keep: &[usize]) -> (Vec<u32>, usize) {
    let (shape, strides) = (pair.shape(), row_major(pair.shape()));
    let id = |position: usize| {
        keep.iter().fold(0, |id, &axis| id * shape[axis] + position / strides[axis] % shape[axis]) as u32
    };
    let count = keep.iter().map(|&axis| shape[axis]).product();
    (pair.positions.iter().map(|&position| id(position)).collect(), count)
}

fn by_group(search: &Search, keep: &[usize]) -> Option<Explanation> {
    let pair = &search.pair;
    let groups: usize = keep.iter().map(|&axis| pair.shape()[axis]).product();
    if groups < 2 || groups * 3 > pair.positions.len() {
        return None;
    }
    let (ids, groups) = group_ids(pair, keep);
    let (mut count, mut sum) = (vec![0.0; groups], vec![0.0; groups]);
    let (mut ee, mut ea) = (vec![0.0; groups], vec![0.0; groups]);
    for (index, &id) in ids.iter().enumerate().filter(|(index, _)| pair.is_plain(*index)) {
        let (id, e, a) = (id as usize, pair.e[index], pair.a[index]);
        count[id] += 1.0;
        sum[id] += a - e;
        ee[id] += e * e;
        ea[id] += e * a;
    }
    let offsets: Vec<f64> =
        sum.iter().zip(&count).map(|(sum, n)| if *n > 0.0 { sum / n } else { 0.0 }).collect();
    let factors: Vec<f64> =
        ea.iter().zip(&ee).map(|(ea, ee)| if *ee > 0.0 { ea / ee } else { 1.0 }).collect();
    let channels = keep.last() == Some(&(pair.shape().len() - 1));
    let where_ = match keep {
        [axis] if channels => format!("each of the {groups} channels (axis {axis})"),
        [axis] => format!("each index of axis {axis}"),
        _ if channels => "each channel of each batch".to_owned(),
        _ => format!("each of the {groups} rows"),
    };
    let cost = if keep.len() == 1 { 4 } else { 5 };
    let of = |index: usize| pair.e[index] + offsets[ids[index] as usize];
    let offset = pair.explained(groups, of).filter(|_| worth(pair, of, &one_offset(pair))).map(|residual| {
        let (least, most) = ends(&offsets);
        let kind = if channels { CauseKind::ChannelOffset } else { CauseKind::TokenOffset };
        let weight = matching_weight(search, &offsets, Operation::Sum).unwrap_or_default();
        let text = format!(
            "the golden plus an offset for {where_}, from {} to {}{weight}",
            Short(least),
            Short(most)
        );
        Explanation::new(kind, cost, residual, text)
    });
    let factor = || {
        let of = |index: usize| factors[ids[index] as usize];
        let residual =
            pair.explained_both(groups, |index| pair.e[index] * of(index), |index| pair.a[index] / of(index));
        residual.filter(|_| worth(pair, |index| pair.e[index] * of(index), &one_factor(pair))).map(
            |residual| {
                let (least, most) = ends(&factors);
                let kind = if channels { CauseKind::ChannelFactor } else { CauseKind::TokenFactor };
                let weight = matching_weight(search, &factors, Operation::Product).unwrap_or_default();
                let text = format!(
                    "the golden times a factor for {where_}, from {} to {}{weight}",
                    Short(least),
                    Short(most)
                );
                Explanation::new(kind, cost, residual, text)
            },
        )
    };
    offset.or_else(factor)
}

/// A number per group must leave less than this part of what one number for all groups leaves.
const GAIN: f64 = 0.5;

/// Whether a number per group is worth it: `many` must leave much less of the error than `one` does.
fn worth(pair: &SampledPair, many: impl Fn(usize) -> f64, one: &dyn Fn(&SampledPair, usize) -> f64) -> bool {
    let plain = || (0..pair.e.len()).filter(|&index| pair.is_plain(index));
    let left =
        |of: &dyn Fn(usize) -> f64| super::numbers::rms(plain().map(|index| pair.a[index] - of(index)));
    left(&many) < GAIN * left(&|index| one(pair, index))
}

/// The golden times the one factor that fits best.
fn one_factor(pair: &SampledPair) -> impl Fn(&SampledPair, usize) -> f64 + use<> {
    let plain = || (0..pair.e.len()).filter(|&index| pair.is_plain(index));
    let (ea, ee) = plain().fold((0.0, 0.0), |(ea, ee), index| {
        (ea + pair.e[index] * pair.a[index], ee + pair.e[index] * pair.e[index])
    });
    let factor = if ee > 0.0 { ea / ee } else { 1.0 };
    move |pair, index| factor * pair.e[index]
}

/// The golden plus the one offset that fits best.
fn one_offset(pair: &SampledPair) -> impl Fn(&SampledPair, usize) -> f64 + use<> {
    let plain = || (0..pair.e.len()).filter(|&index| pair.is_plain(index));
    let (sum, count) =
        plain().fold((0.0, 0.0), |(sum, count), index| (sum + pair.a[index] - pair.e[index], count + 1.0));
    let offset = if count > 0.0 { sum / count } else { 0.0 };
    move |pair, index| pair.e[index] + offset
}

fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &x| (least.min(x), most.max(x)))
}

#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Sum,
    Product,
}

/// Names the weight that the numbers of the groups come from, if one does.
fn matching_weight(search: &Search, found: &[f64], operation: Operation) -> Option<String> {
    type Rule = (fn(f64) -> f64, &'static str);
    const SUMS: &[Rule] = &[(|w| -w, "is not added"), (|w| w, "is added twice")];
    const PRODUCTS: &[Rule] = &[
        (f64::recip, "is not applied"),
        (|w| w, "is applied twice"),
        (|w| w / (1.0 + w), "is applied as w, where the golden has 1 + w"),
        (|w| (1.0 + w) / w, "is applied as 1 + w, where the golden has w"),
        (|w| (1.0 + w).recip(), "is not applied, where the golden has 1 + w"),
    ];
    let others = search.checkpoint.known;
    others.weights().iter().filter(|other| other.len() == found.len()).find_map(|other| {
        let tensor = search.tensor(other)?;
        let view = tensor.view();
        let numbers = Float64View::new(&view);
        let rules = if operation == Operation::Sum { SUMS } else { PRODUCTS };
        rules.iter().find_map(|(rule, words)| {
            let (mut gap, mut size) = (0.0, 0.0);
            for (index, found) in found.iter().enumerate() {
                let wanted = rule(numbers.at(index));
                gap += (found - wanted).powi(2);
                size += if operation == Operation::Sum { wanted * wanted } else { (wanted - 1.0).powi(2) };
            }
            // The numbers were measured with the precision of the dtype: about a percent in 16 bits, better in 32.
            let close = gap <= size * (4.0 * search.pair.bound.eps()).clamp(1e-3, 3e-2).powi(2);
            close.then(|| format!(": the weight `{}` {words}", other.name))
        })
    })
}

/// A vector added or multiplied along one axis, where the golden has it along another axis of the same length.
fn broadcast(pair: &SampledPair) -> Option<Explanation> {
    let shape = pair.shape();
    let axes = (0..shape.len()).flat_map(|p| (p + 1..shape.len()).map(move |q| (p, q)));
    axes.filter(|&(p, q)| shape[p] == shape[q] && shape[p] >= 3).find_map(|(p, q)| {
        let length = shape[p];
        let ((at_p, _), (at_q, _)) = (group_ids(pair, &[p]), group_ids(pair, &[q]));
        let scale = super::numbers::rms(pair.e.iter().copied().filter(|x| super::numbers::plain(*x)));
        // Fits `vector[q index] - vector[p index]` to the elements that have a value, nearer with each sweep.
        let fitted = |of: &dyn Fn(usize) -> Option<f64>| {
            let samples: Vec<(usize, usize, f64)> = (0..pair.positions.len())
                .step_by(pair.positions.len().div_ceil(MOST_FITTED))
                .filter(|&index| pair.is_plain(index))
                .filter_map(|index| Some((at_p[index] as usize, at_q[index] as usize, of(index)?)))
                .collect();
            let mut vector = vec![0.0; length];
            for _ in 0..SWEEPS {
                let (mut sum, mut count) = (vec![0.0; length], vec![0.0; length]);
                for &(i, j, value) in samples.iter().filter(|(i, j, _)| i != j) {
                    let left = value - (vector[j] - vector[i]);
                    sum[j] += left;
                    sum[i] -= left;
                    count[j] += 1.0;
                    count[i] += 1.0;
                }
                for (x, (sum, count)) in vector.iter_mut().zip(sum.iter().zip(&count)) {
                    *x += if *count > 0.0 { 0.5 * sum / count } else { 0.0 };
                }
            }
            vector
        };
        let added = fitted(&|index| Some(pair.a[index] - pair.e[index]));
        let at = |vector: &[f64], index: usize| vector[at_q[index] as usize] - vector[at_p[index] as usize];
        let explanation = |residual, what| {
            let text = format!(
                "the golden with a vector {what} along axis {q} in place of axis {p}, or along axis {p} in place of axis {q}"
            );
            Explanation::new(CauseKind::BroadcastAxis, 4, residual, text)
        };
        if let Some(residual) = pair.explained(length, |index| pair.e[index] + at(&added, index)) {
            return Some(explanation(residual, "added"));
        }
        let times = fitted(&|index| {
            let (e, a) = (pair.e[index], pair.a[index]);
            (e.abs() > 0.1 * scale && a / e > 0.0).then(|| (a / e).ln())
        });
        let of = |index: usize| at(&times, index).exp();
        let residual = pair.explained_both(
            length,
            |index| pair.e[index] * of(index),
            |index| pair.a[index] / of(index),
        )?;
        Some(explanation(residual, "multiplied"))
    })
}
