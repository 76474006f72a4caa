//! The part of a tensor that agrees with its golden.

use super::diagnosis::Observation;
use super::per_index::group_ids;
use super::{FactKind, Search};
use crate::tensor::row_major;

/// At most this many wrong elements or indices are listed.
const SHOWN: usize = 4;

/// All elements except a few agree, or some indices of an axis do.
pub(super) fn part_agrees(search: &Search) -> Observation {
    let text = few_elements(search).or_else(|| {
        let axes = search.pair.shape().len();
        // The axis along which the largest part agrees.
        let parts = (0..axes).filter_map(|axis| along(search, axis));
        parts.max_by(|x, y| x.0.total_cmp(&y.0)).map(|(_, text)| text)
    })?;
    Some((FactKind::PartAgrees, text))
}

/// At most [`SHOWN`] elements are wrong, and all others agree.
fn few_elements(search: &Search) -> Option<String> {
    let pair = &search.pair;
    // A sample does not show how many elements are wrong in all.
    if pair.sampled().is_some() || pair.a.len() <= SHOWN {
        return None;
    }
    let mut worst: Vec<usize> = (0..pair.a.len()).collect();
    let distance = |index: usize| {
        let distance = (pair.a[index] - pair.e[index]).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    };
    let (most, ..) = worst.select_nth_unstable_by(SHOWN, |&x, &y| distance(y).total_cmp(&distance(x)));
    let mut wrong = Vec::from(most);
    wrong.sort_by(|&x, &y| distance(y).total_cmp(&distance(x)));
    let count =
        (1..=wrong.len()).find(|&count| pair.agrees_where(|index| !wrong[..count].contains(&index)))?;
    let shape = pair.shape();
    let mut places = wrong[..count].to_vec();
    places.sort_unstable();
    let at = |&index: &usize| -> String {
        let place: Vec<usize> =
            row_major(shape).iter().zip(shape).map(|(stride, length)| index / stride % length).collect();
        format!("{place:?}")
    };
    let places: Vec<String> = places.iter().map(at).collect();
    let verb = if count == 1 { "differs" } else { "differ" };
    Some(format!(
        "{count} of {} elements {verb}, at {}; all others agree",
        pair.a.len(),
        places.join(" and ")
    ))
}

/// Which indices of an axis agree, after the part that they are; `None` if none or all agree.
fn along(search: &Search, axis: usize) -> Option<(f64, String)> {
    let pair = &search.pair;
    let length = pair.shape()[axis];
    // Each index needs several sampled elements.
    if length < 2 || pair.positions.len() < 4 * length {
        return None;
    }
    let (ids, groups) = group_ids(pair, &[axis]);
    let agrees = pair.agreeing(&ids, groups)?;
    let right = agrees.iter().filter(|agrees| **agrees).count();
    if right == 0 || right == length {
        return None;
    }
    let first = agrees.iter().take_while(|agrees| **agrees).count();
    let last = agrees.iter().rev().take_while(|agrees| **agrees).count();
    let text = match (first, last) {
        (first, _) if first == right => {
            format!("the first {right} of {length} indices of axis {axis} agree, the others do not")
        }
        (_, last) if last == right => {
            format!("the last {right} of {length} indices of axis {axis} agree, the others do not")
        }
        _ => {
            let wrong: Vec<String> = (0..length)
                .filter(|&index| !agrees[index])
                .take(SHOWN)
                .map(|index| index.to_string())
                .collect();
            let more = if length - right > SHOWN { ", …" } else { "" };
            format!(
                "{right} of {length} indices of axis {axis} agree; these do not: {}{more}",
                wrong.join(", ")
            )
        }
    };
    Some((right as f64 / length as f64, text))
}
