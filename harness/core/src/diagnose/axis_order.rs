//! The golden with equal parts of an axis exchanged, or moved along an axis.

use super::residual::Prediction;
use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, Search};
use crate::tensor::row_major;

/// The numbers of equal parts that an axis is split into, as in fused projections and modulations.
const PARTS: [usize; 7] = [2, 3, 4, 6, 8, 9, 12];
/// On an axis of at most this length, every order of single indices is recognised.
const MOST_INDICES: usize = 64;
/// This many elements are compared to find out which part is which.
const PROBES: usize = 48;
/// The golden is shifted by at most this many steps, and rolled along axes of at most this length.
const STEPS: isize = 4;
const MOST_ROLLED: usize = 512;

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let pair = &search.pair;
    if !pair.same_shape() || pair.actual.len() < 3 {
        return Vec::new();
    }
    let parts =
        |axis: usize| PARTS.into_iter().filter(move |parts| divides(pair.shape()[axis], *parts)).collect();
    let indices = |axis: usize| match pair.shape()[axis] {
        length @ 2..=MOST_INDICES => vec![length],
        _ => Vec::new(),
    };
    swapped(pair, &parts)
        .or_else(|| shifted(pair))
        .or_else(|| rolled(pair))
        .or_else(|| swapped(pair, &indices))
        .into_iter()
        .collect()
}

/// Parts of an axis in another order; `ways` gives the numbers of parts to try per axis.
fn swapped(pair: &SampledPair, ways: &dyn Fn(usize) -> Vec<usize>) -> Option<Explanation> {
    let shape = pair.shape();
    (0..shape.len()).rev().find_map(|axis| {
        let length = shape[axis];
        ways(axis).into_iter().find_map(|parts| {
            let sources = sources(pair, axis, parts)?;
            let (inner, part) = (row_major(shape)[axis], length / parts);
            // The source of each moved part was chosen among all parts.
            let choices = sources.iter().enumerate().filter(|(to, from)| to != *from).count();
            let residual = pair.explained(choices, |index| {
                let position = pair.positions[index];
                let chunk = position / inner % length / part;
                pair.expected.at(position - chunk * part * inner + sources[chunk] * part * inner)
            })?;
            let what = if part == 1 { "indices" } else { "parts" };
            let names = if part == 1 { "" } else { roles(&sources) };
            let moved: Vec<String> = sources
                .iter()
                .enumerate()
                .filter(|(to, from)| to != *from)
                .map(|(to, from)| format!("{from} in place of {to}"))
                .collect();
            let moved = match moved.len() {
                0..=6 => moved.join(", "),
                more => format!("{}, … ({more} moved)", moved[..4].join(", ")),
            };
            let text = format!(
                "the golden with {what} of axis {axis} ({parts} in all) in another order: {moved}{names}"
            );
            // A reshape or a flip may explain the same and assume less.
            let cost = match part {
                1 if parts > 3 => 3,
                _ if !names.is_empty() || parts <= 3 => 1,
                _ => 2,
            };
            Some(Explanation::new(CauseKind::ChunksSwapped, cost, residual, text))
        })
    })
}

/// Whether an axis has this many equal parts. Single indices count as parts only if there are few.
fn divides(length: usize, parts: usize) -> bool {
    length.is_multiple_of(parts) && (length > parts || parts <= 3)
}

/// The name of a well-known exchange of parts, in brackets.
fn roles(sources: &[usize]) -> &'static str {
    match sources {
        [1, 0] => {
            " (the halves are swapped: [shift, scale] in place of the [scale, shift] of AdaLayerNormContinuous, or the halves of a GLU)"
        }
        [1, 0, 2] => " ([scale, shift, gate] in place of [shift, scale, gate], or q and k exchanged)",
        [1, 0, 2, 4, 3, 5] => {
            " (shift and scale are swapped: [scale, shift, gate] in place of the [shift, scale, gate] of FLUX and Qwen)"
        }
        [3, 4, 5, 0, 1, 2] => " (the modulations of attention and MLP exchanged)",
        [0, 2, 1] => " (the last two of three exchanged: k and v, or scale and gate)",
        [2, 1, 0] => " (the first and the last of three exchanged: q and v, or shift and gate)",
        _ => "",
    }
}

/// For each part of the actual, the part of the golden that it comes from; `None` if nothing moved.
fn sources(pair: &SampledPair, axis: usize, parts: usize) -> Option<Vec<usize>> {
    let shape = pair.shape();
    let (inner, length) = (row_major(shape)[axis], shape[axis]);
    let size = length / parts * inner;
    let outer = pair.actual.len() / (length * inner);
    let probes = PROBES.min(size * outer);
    let place = |probe: usize, part: usize| {
        // The probes are spread over the whole part. Their step divides no usual length.
        let at = (probe * 104_729 + probe * size * outer / probes) % (size * outer);
        at / size * (length * inner) + part * size + at % size
    };
    let gap = |to: usize, from: usize| {
        (0..probes)
            .map(|probe| {
                let gap = pair.actual.at(place(probe, to)) - pair.expected.at(place(probe, from));
                if gap.is_nan() { f64::INFINITY } else { gap * gap }
            })
            .sum::<f64>()
    };
    let mut sources = Vec::with_capacity(parts);
    for to in 0..parts {
        let own = gap(to, to);
        let (from, best) = (0..parts).map(|from| (from, gap(to, from))).min_by(|x, y| x.1.total_cmp(&y.1))?;
        sources.push(if best < 0.25 * own { from } else { to });
    }
    (!sources.iter().copied().eq(0..parts)).then_some(sources)
}

/// The golden moved by a few steps along an axis, with or without wrapping around.
fn shifted(pair: &SampledPair) -> Option<Explanation> {
    let shape = pair.shape();
    let steps = (1..=STEPS).flat_map(|step| [step, -step]);
    steps.flat_map(|step| (0..shape.len()).rev().map(move |axis| (step, axis))).find_map(|(step, axis)| {
        let length = shape[axis];
        if length < 3 || step.unsigned_abs() * 2 > length {
            return None;
        }
        let inner = row_major(shape)[axis];
        let source = |index: usize, wraps: bool| {
            let position = pair.positions[index];
            let at = (position / inner % length) as isize + step;
            match wraps || (0..length as isize).contains(&at) {
                true => {
                    let to = at.rem_euclid(length as isize) as usize;
                    Some(position - position / inner % length * inner + to * inner)
                }
                false => None,
            }
        };
        let residual = pair.explained_where(0, |index| match source(index, false) {
            Some(position) => Prediction::Value(pair.expected.at(position)),
            None => Prediction::Silent,
        })?;
        let wraps = pair
            .explained(0, |index| source(index, true).map_or(f64::NAN, |position| pair.expected.at(position)))
            .is_some();
        let (by, way) = (step.unsigned_abs(), if step > 0 { "early" } else { "late" });
        let steps = if by == 1 { "step" } else { "steps" };
        let edge = if wraps { "; the end wraps around to the beginning" } else { "" };
        let text = format!(
            "the golden, {by} {steps} too {way} along axis {axis}: index i has the value of index i{step:+}{edge}"
        );
        Some(Explanation::new(CauseKind::Shifted, 1, residual, text))
    })
}

/// The golden rolled along an axis by any number of steps.
fn rolled(pair: &SampledPair) -> Option<Explanation> {
    let shape = pair.shape();
    (0..shape.len()).rev().filter(|&axis| (3..=MOST_ROLLED).contains(&shape[axis])).find_map(|axis| {
        let (length, inner) = (shape[axis], row_major(shape)[axis]);
        (1..length).find_map(|step| {
            let residual = pair.explained(0, |index| {
                let position = pair.positions[index];
                let at = position / inner % length;
                pair.expected.at(position - at * inner + (at + step) % length * inner)
            })?;
            let text = format!(
                "the golden rolled along axis {axis}: it begins at index {step} of {length}, and the indices before that follow \
                 at the end"
            );
            Some(Explanation::new(CauseKind::Shifted, 2, residual, text))
        })
    })
}
