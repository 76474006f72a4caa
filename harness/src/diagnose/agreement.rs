//! Which part of a tensor agrees with its golden.

use super::facts::Seen;
use super::field::row_major;
use super::vectors::group_ids;
use super::{FactKind, Looked};

/// So many wrong elements are written out.
const SHOWN: usize = 4;

/// All elements but a few agree, or some indices of an axis do.
pub(super) fn part_agrees(looked: &Looked) -> Seen {
    let text = few_elements(looked).or_else(|| {
        let axes = looked.pair.shape().len();
        // The axis that tells most: the one with the largest part that agrees.
        let parts = (0..axes).filter_map(|axis| along(looked, axis));
        parts.max_by(|x, y| x.0.total_cmp(&y.0)).map(|(_, text)| text)
    })?;
    Some((FactKind::PartAgrees, text))
}

/// At most [`SHOWN`] elements are wrong, and the rest agrees.
fn few_elements(looked: &Looked) -> Option<String> {
    let pair = &looked.pair;
    // Of a sample it cannot be said how many there are.
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
    Some(format!("{count} of {} elements {verb}, at {}; the rest agrees", pair.a.len(), places.join(" and ")))
}

/// Which indices of an axis agree, and how large that part is; nothing where none or all do.
fn along(looked: &Looked, axis: usize) -> Option<(f64, String)> {
    let pair = &looked.pair;
    let length = pair.shape()[axis];
    // A sample must have several elements of each index.
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
            format!("{right} of {length} indices of axis {axis} agree, but not {}{more}", wrong.join(", "))
        }
    };
    Some((right as f64 / length as f64, text))
}
