//! The golden with its axes or its memory in another order.

use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, Search};
use crate::tensor::row_major;

/// Every order of axes is tried for shapes of at most this many.
const MOST_AXES: usize = 5;

/// Maps each position of the actual to the position in the golden that its element comes from: the position is split by
/// `dims`, and each part has its stride.
struct Map {
    dims: Vec<usize>,
    strides: Vec<isize>,
    offset: isize,
}

impl Map {
    fn source(&self, position: usize) -> usize {
        let (mut rest, mut place) = (position, self.offset);
        for (&length, &stride) in self.dims.iter().zip(&self.strides).rev() {
            place += (rest % length) as isize * stride;
            rest /= length;
        }
        place.unsigned_abs()
    }

    fn explains(&self, pair: &SampledPair) -> Option<super::SmallResidual> {
        pair.explained(0, |index| pair.expected.at(self.source(pair.positions[index])))
    }
}

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let pair = &search.pair;
    if pair.expected.len() != pair.actual.len() || pair.actual.len() < 3 {
        return Vec::new();
    }
    if !pair.same_shape()
        && let Some(found) = same_order(pair)
    {
        return vec![found];
    }
    let found =
        permuted(pair).or_else(|| flipped(pair)).or_else(|| regrouped(pair)).or_else(|| reordered(pair));
    found.into_iter().collect()
}

/// The same values in the same order under another shape.
fn same_order(pair: &SampledPair) -> Option<Explanation> {
    let residual = pair.explained(0, |index| pair.expected.at(pair.positions[index]))?;
    let without_ones = |shape: &[usize]| shape.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
    let (from, to) = (pair.expected.shape(), pair.shape());
    let found = match without_ones(from) == without_ones(to) {
        true => Explanation::new(
            CauseKind::UnitAxis,
            1,
            residual,
            format!("the golden with axes of length 1 added or dropped: {to:?} in place of {from:?}"),
        ),
        false => Explanation::new(
            CauseKind::MemoryOrder,
            1,
            residual,
            format!("the golden's values in the same order, with the shape {to:?} in place of {from:?}"),
        ),
    };
    Some(found)
}

/// The golden with its axes in another order, such that it has the actual's shape.
fn permuted(pair: &SampledPair) -> Option<Explanation> {
    let (shape, strides) = (pair.expected.shape(), row_major(pair.expected.shape()));
    permutations(shape.len()).find_map(|axes| {
        if moves_nothing(&axes, shape)
            || !axes.iter().map(|&axis| shape[axis]).eq(pair.shape().iter().copied())
        {
            return None;
        }
        let map = Map {
            dims: pair.shape().to_vec(),
            strides: axes.iter().map(|&axis| strides[axis] as isize).collect(),
            offset: 0,
        };
        let residual = map.explains(pair)?;
        let layout = match axes.as_slice() {
            [0, 2, 3, 1] => " (NCHW became NHWC)",
            [0, 3, 1, 2] => " (NHWC became NCHW)",
            _ => "",
        };
        let text = format!("the golden with its axes in the order {axes:?}{layout}");
        Some(Explanation::new(CauseKind::AxesPermuted, 1, residual, text))
    })
}

/// The golden in reverse order along some axes.
fn flipped(pair: &SampledPair) -> Option<Explanation> {
    let shape = pair.shape();
    if !pair.same_shape() || shape.len() > 8 {
        return None;
    }
    let strides = row_major(shape);
    let mut sets: Vec<u32> = (1..1 << shape.len()).collect();
    sets.sort_by_key(|set| set.count_ones());
    sets.into_iter().find_map(|set| {
        let axes: Vec<usize> = (0..shape.len()).filter(|axis| set >> axis & 1 == 1).collect();
        // Reversing an axis of two is a swap of halves, which `axis_order.rs` reports.
        if axes.iter().any(|&axis| shape[axis] < 3) {
            return None;
        }
        let offset = axes.iter().map(|&axis| (strides[axis] * (shape[axis] - 1)) as isize).sum();
        let stride = |axis| strides[axis] as isize * if axes.contains(&axis) { -1 } else { 1 };
        let map = Map { dims: shape.to_vec(), strides: (0..shape.len()).map(stride).collect(), offset };
        let residual = map.explains(pair)?;
        let words: Vec<String> = axes.iter().map(|axis| format!("axis {axis}")).collect();
        let text = format!("the golden in reverse order along {}", words.join(" and "));
        Some(Explanation::new(CauseKind::Flipped, 1, residual, text))
    })
}

/// One axis split into two or three and joined again in another order.
fn regrouped(pair: &SampledPair) -> Option<Explanation> {
    if !pair.same_shape() {
        return None;
    }
    let shape = pair.shape();
    (0..shape.len()).rev().filter(|&axis| shape[axis] >= 4).find_map(|axis| {
        factorings(shape[axis]).into_iter().find_map(|parts| {
            permutations(parts.len()).find_map(|order| {
                // An order that keeps two parts next to each other is an order of fewer parts.
                if order.windows(2).any(|pair| pair[1] == pair[0] + 1) {
                    return None;
                }
                let inner = row_major(&parts);
                let strides = row_major(shape);
                let mut map = Map { dims: Vec::new(), strides: Vec::new(), offset: 0 };
                for (at, (&length, &stride)) in shape.iter().zip(&strides).enumerate() {
                    if at == axis {
                        map.dims.extend(order.iter().map(|&part| parts[part]));
                        map.strides.extend(order.iter().map(|&part| (inner[part] * stride) as isize));
                    } else {
                        map.dims.push(length);
                        map.strides.push(stride as isize);
                    }
                }
                let residual = map.explains(pair)?;
                let other: Vec<usize> = order.iter().map(|&part| parts[part]).collect();
                let halves = match (parts.as_slice(), other.as_slice()) {
                    ([2, _], _) => ": halves became interleaved pairs",
                    (_, [2, _]) => ": interleaved pairs became halves",
                    _ => "",
                };
                let text =
                    format!("the golden with axis {axis} regrouped from {parts:?} to {other:?}{halves}");
                Some(Explanation::new(CauseKind::Regrouped, 1, residual, text))
            })
        })
    })
}

/// The memory of the golden with its axes reordered, perhaps after one was split, read with the actual's shape.
fn reordered(pair: &SampledPair) -> Option<Explanation> {
    let shape = pair.expected.shape();
    let mut dims_to_turn: Vec<Vec<usize>> = vec![shape.to_vec()];
    for axis in 0..shape.len() {
        for parts in factorings(shape[axis]).into_iter().filter(|parts| parts.len() == 2) {
            dims_to_turn.push([&shape[..axis], &parts, &shape[axis + 1..]].concat());
        }
    }
    dims_to_turn.extend(patched(shape));
    dims_to_turn.into_iter().find_map(|dims| {
        let dims: Vec<usize> = dims.into_iter().filter(|&length| length > 1).collect();
        if dims.len() > MOST_AXES + 1 {
            return None;
        }
        let strides = row_major(&dims);
        permutations(dims.len()).find_map(|axes| {
            if moves_nothing(&axes, &dims) {
                return None;
            }
            let turned: Vec<usize> = axes.iter().map(|&axis| dims[axis]).collect();
            let map = Map {
                strides: axes.iter().map(|&axis| strides[axis] as isize).collect(),
                dims: turned.clone(),
                offset: 0,
            };
            let residual = map.explains(pair)?;
            let text = format!(
                "the golden's values in another memory order: the golden as {dims:?}, transposed by {axes:?} and read as {:?}",
                pair.shape()
            );
            Some(Explanation::new(CauseKind::MemoryOrder, 2, residual, text))
        })
    })
}

/// Two neighbouring axes, such as height and width, each split into patches of the same size.
fn patched(shape: &[usize]) -> Vec<Vec<usize>> {
    let pairs =
        (0..shape.len().saturating_sub(1)).flat_map(|axis| [2, 4, 8, 14, 16].map(|side| (axis, side)));
    pairs
        .filter(|&(axis, side)| {
            shape[axis..axis + 2].iter().all(|length| length.is_multiple_of(side) && *length > side)
        })
        .map(|(axis, side)| {
            let patches = [shape[axis] / side, side, shape[axis + 1] / side, side];
            [&shape[..axis], &patches, &shape[axis + 2..]].concat()
        })
        .collect()
}

/// Every permutation of `0..n` except the identity; none if there would be too many.
fn permutations(n: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut all = Vec::new();
    if n <= MOST_AXES + 1 {
        let mut current: Vec<usize> = (0..n).collect();
        while next_permutation(&mut current) {
            all.push(current.clone());
        }
    }
    all.into_iter()
}

fn next_permutation(items: &mut [usize]) -> bool {
    let Some(pivot) = items.windows(2).rposition(|pair| pair[0] < pair[1]) else { return false };
    let successor = items.iter().rposition(|&item| item > items[pivot]).unwrap_or(pivot);
    items.swap(pivot, successor);
    items[pivot + 1..].reverse();
    true
}

/// Whether reordering the axes leaves the memory as it is, because only axes of length one move.
fn moves_nothing(axes: &[usize], shape: &[usize]) -> bool {
    axes.iter().filter(|&&axis| shape[axis] > 1).is_sorted()
}

/// The ways to write `n` as a product of two factors above one, then of three.
fn factorings(n: usize) -> Vec<Vec<usize>> {
    let divisors = |n: usize| (2..n).filter(move |d| n.is_multiple_of(*d));
    // An axis this long, such as a vocabulary, is not split into heads.
    if n > 1 << 15 {
        return Vec::new();
    }
    let two = divisors(n).map(|a| vec![a, n / a]);
    let three = divisors(n).flat_map(|a| divisors(n / a).map(move |b| vec![a, b, n / a / b]));
    two.chain(three).collect()
}
