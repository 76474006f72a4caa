//! Equal parts of an axis that have changed places, and a golden that has moved along one.

use super::field::row_major;
use super::residual::Prediction;
use super::scene::Pair;
use super::{Found, Kind, Looked};

/// Into so many equal parts an axis is cut: what fused projections and modulations have.
const PARTS: [usize; 7] = [2, 3, 4, 6, 8, 9, 12];
/// An axis of at most so many indices may also be in any order at all.
const MOST_INDICES: usize = 64;
/// Elements that are looked at to tell which part is which.
const PROBES: usize = 48;
/// Most steps that a golden is moved without coming in again at the other end, and with.
const STEPS: isize = 4;
const MOST_ROLLED: usize = 512;

pub(super) fn look(looked: &Looked) -> Vec<Found> {
    let pair = &looked.pair;
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

/// Parts of an axis, as many as `ways` says for each, in other places.
fn swapped(pair: &Pair, ways: &dyn Fn(usize) -> Vec<usize>) -> Option<Found> {
    let shape = pair.shape();
    (0..shape.len()).rev().find_map(|axis| {
        let length = shape[axis];
        ways(axis).into_iter().find_map(|parts| {
            let sources = sources(pair, axis, parts)?;
            let (inner, part) = (row_major(shape)[axis], length / parts);
            // Each part that moved was chosen to fit, among all of them.
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
                .map(|(to, from)| format!("{from} at {to}"))
                .collect();
            let moved = match moved.len() {
                0..=6 => moved.join(", "),
                more => format!("{}, … ({more} in all)", moved[..4].join(", ")),
            };
            let text = format!(
                "the golden with {what} of axis {axis}, {parts} in all, in other places: {moved}{names}"
            );
            // A reshape or a flip may say the same with less.
            let cost = match part {
                1 if parts > 3 => 3,
                _ if !names.is_empty() || parts <= 3 => 1,
                _ => 2,
            };
            Some(Found::new(Kind::ChunksSwapped, cost, residual, text))
        })
    })
}

/// Whether an axis has so many parts; single indices are parts only where there are few.
fn divides(length: usize, parts: usize) -> bool {
    length.is_multiple_of(parts) && (length > parts || parts <= 3)
}

/// What a known exchange of parts is called.
fn roles(sources: &[usize]) -> &'static str {
    match sources {
        [1, 0] => {
            " (the halves are swapped: [shift, scale] for the [scale, shift] of AdaLayerNormContinuous, or the halves of a GLU)"
        }
        [1, 0, 2] => " ([scale, shift, gate] for [shift, scale, gate], or q and k)",
        [1, 0, 2, 4, 3, 5] => {
            " (shift and scale are swapped: [scale, shift, gate] for the [shift, scale, gate] of FLUX and Qwen)"
        }
        [3, 4, 5, 0, 1, 2] => " (the modulation of attention for that of the MLP)",
        [0, 2, 1] => " (the last two of three: k and v, or scale and gate)",
        [2, 1, 0] => " (the first and the last of three: q and v, or shift and gate)",
        _ => "",
    }
}

/// From which part of the golden each part of the actual comes; nothing when that cannot be told or nothing moved.
fn sources(pair: &Pair, axis: usize, parts: usize) -> Option<Vec<usize>> {
    let shape = pair.shape();
    let (inner, length) = (row_major(shape)[axis], shape[axis]);
    let size = length / parts * inner;
    let outer = pair.actual.len() / (length * inner);
    let probes = PROBES.min(size * outer);
    let place = |probe: usize, part: usize| {
        // Spread over all of a part, with a step that is no divisor of a usual length.
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

fn shifted(pair: &Pair) -> Option<Found> {
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
        let edge = if wraps { ", the end wrapped around" } else { "" };
        let text = format!(
            "the golden {by} too {way} along axis {axis}: index i has what belongs at i{step:+}{edge}"
        );
        Some(Found::new(Kind::Shifted, 1, residual, text))
    })
}

/// The golden begun elsewhere along an axis: two stretches of it, of any lengths, are the other way round.
fn rolled(pair: &Pair) -> Option<Found> {
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
                "the golden begun at index {step} of {length} along axis {axis}, what comes before it put behind: two \
                 stretches are the other way round"
            );
            Some(Found::new(Kind::Shifted, 2, residual, text))
        })
    })
}
