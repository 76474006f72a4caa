//! The golden of another checkpoint, the memory of a larger tensor, or a sum with a term too many or too few.

use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, KnownTensor, Search};

/// At most this many earlier tensors are tried as terms of a sum, and a quarter as many later ones.
const TERMS: usize = 24;
/// At most this many larger, earlier tensors are tried as the memory that a slice was read from.
const BUFFERS: usize = 8;

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    if search.pair.actual.len() < 3 {
        return Vec::new();
    }
    another(search).or_else(|| strided(search)).or_else(|| term(search)).into_iter().collect()
}

/// The golden of another checkpoint.
fn another(search: &Search) -> Option<Explanation> {
    let others = search.checkpoint.known;
    let after = others.after().iter().map(|other| (other, true));
    let candidates = others.before().iter().map(|other| (other, false)).chain(after);
    let len = search.pair.actual.len();
    let (other, is_after, residual) =
        candidates.filter(|(other, _)| other.float64_len() == len).find_map(|(other, is_after)| {
            let residual = search.with_values(other, |numbers| {
                search.pair.explained(0, |index| numbers.at(search.pair.positions[index]))
            })?;
            Some((other, is_after, residual))
        })?;
    let nearest = |list: &[KnownTensor]| {
        list.iter().find(|near| near.shape == other.shape).is_some_and(|near| near.name == other.name)
    };
    let (kind, what) = match relation(search.checkpoint.name, &other.name) {
        Relation::Step if !is_after && nearest(others.before()) => {
            (CauseKind::NotExecuted, "as if this stage had not run")
        }
        Relation::Step if is_after && nearest(others.after()) => {
            (CauseKind::ExecutedTwice, "as if the next stage had already run")
        }
        _ => (CauseKind::Crossed, "which is another checkpoint"),
    };
    // With another shape, a wrong reshape is the simpler explanation.
    let cost = if other.shape == search.checkpoint.actual.shape() { 1 } else { 3 };
    Some(Explanation::new(kind, cost, residual, format!("the golden of `{}`, {what}", other.name)))
}

/// Words for things of the same kind whose spelling does not show it.
const SIBLINGS: &[&[&str]] = &[
    &["q", "k", "v"],
    &["cos", "sin"],
    &["img", "txt", "image", "text"],
    &["gate", "up", "down"],
    &["shift", "scale", "gate"],
];

/// Names of the result of a layer or a step, from which the next one starts.
const RESULTS: &[&str] = &["out", "output", "hidden_states", "sample", "latents", "x", "h"];

#[derive(PartialEq)]
enum Relation {
    /// One may be computed from the other.
    Step,
    /// Both are of the same kind and side by side: query and key, image and text, cosine and sine.
    Siblings,
}

/// The relation of two checkpoints, judged by their names. Names that differ in the index of a loop, or completely, follow
/// one another. Similar names, and names known to be of the same kind, are siblings.
fn relation(one: &str, other: &str) -> Relation {
    let parts = |name: &str| name.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (parts(one), parts(other));
    let leaf = one.last().map(String::as_str).unwrap_or_default();
    let same_leaf = other.last().is_some_and(|other| other == leaf);
    if one.len() != other.len() {
        return if same_leaf { Relation::Siblings } else { Relation::Step };
    }
    let different: Vec<(&String, &String)> = one.iter().zip(&other).filter(|(x, y)| x != y).collect();
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let siblings = |(x, y): &(&String, &String)| {
        let known = SIBLINGS.iter().any(|set| set.contains(&x.as_str()) && set.contains(&y.as_str()));
        !number(x) && (known || x.len().max(y.len()) > 3 && strsim::normalized_levenshtein(x, y) >= 0.5)
    };
    // A stage starts from the result of another layer, but not from the same inner stage of another layer.
    let inner = same_leaf && !RESULTS.contains(&leaf);
    match inner || different.iter().any(siblings) {
        true => Relation::Siblings,
        false => Relation::Step,
    }
}

/// Neighbouring elements of a larger tensor's memory, where a slice of that tensor was meant.
fn strided(search: &Search) -> Option<Explanation> {
    let pair = &search.pair;
    let (len, others) = (pair.actual.len(), search.checkpoint.known);
    let buffers = others.before().iter().filter(|other| other.float64_len() > len).take(BUFFERS);
    buffers.filter(|other| other.shape.len() >= 2).find_map(|other| {
        search.with_values(other, |numbers| {
            let width = pair.actual.width().max(1);
            let starts = (0..numbers.shape().last().copied().unwrap_or(1)).step_by(width).take(16);
            starts.filter(|start| start + len <= numbers.len()).find_map(|start| {
                let residual = pair.explained(0, |index| numbers.at(start + pair.positions[index]))?;
                let text = format!(
                    "the memory of `{}` {:?} from element {start} on, where a slice of that tensor was meant",
                    other.name, other.shape
                );
                Some(Explanation::new(CauseKind::StridedRead, 1, residual, text))
            })
        })
    })
}

/// The golden with another tensor added or subtracted.
fn term(search: &Search) -> Option<Explanation> {
    let pair = &search.pair;
    if !pair.same_shape() {
        return None;
    }
    let others = search.checkpoint.known;
    let candidates = others.before().iter().take(TERMS).chain(others.after().iter().take(TERMS / 4));
    candidates.chain(others.weights()).find_map(|other| {
        let places = Broadcast::new(&other.float64_shape(), pair)?;
        search.with_values(other, |numbers| {
            [(-1.0, "missing"), (1.0, "added twice"), (-2.0, "subtracted instead of added")]
                .into_iter()
                .find_map(|(times, how)| {
                    let residual = pair.explained(0, |index| {
                        pair.e[index] + times * numbers.at(places.source(pair.positions[index]))
                    })?;
                    Some(Explanation::new(
                        CauseKind::Term,
                        2,
                        residual,
                        format!("the golden with the term `{}` {how}", other.name),
                    ))
                })
        })
    })
}

/// Maps a position of the pair to a position of a tensor that is broadcast to the pair's shape.
pub(super) struct Broadcast {
    /// Length of each axis of the pair, and the tensor's stride along it.
    axes: Vec<(usize, usize)>,
}

impl Broadcast {
    /// Returns `None` for a tensor that cannot be broadcast to the pair's shape, or that is only a vector.
    pub(super) fn new(shape: &[usize], pair: &SampledPair) -> Option<Self> {
        let whole = pair.shape();
        let missing = whole.len().checked_sub(shape.len())?;
        let strides = crate::tensor::row_major(shape);
        let mut axes = Vec::with_capacity(whole.len());
        for (axis, &length) in whole.iter().enumerate() {
            let stride = match axis.checked_sub(missing) {
                Some(own) if shape[own] == length => strides[own],
                Some(own) if shape[own] != 1 => return None,
                _ => 0,
            };
            axes.push((length, stride));
        }
        let elements: usize = shape.iter().product();
        let most = whole.last().copied().unwrap_or(1);
        (elements > most || elements == pair.actual.len()).then_some(Self { axes })
    }

    pub(super) fn source(&self, position: usize) -> usize {
        let (mut rest, mut place) = (position, 0);
        for &(length, stride) in self.axes.iter().rev() {
            place += rest % length * stride;
            rest /= length;
        }
        place
    }
}
