//! Another tensor in place of the golden, or one too many or too few in a sum.

use super::field::Field;
use super::scene::{Other, Pair};
use super::{Found, Kind, Looked};

/// So many tensors before and after are tried as terms of a sum.
const TERMS: usize = 24;
/// So many larger tensors before are tried as the buffer that a slice was read from.
const BUFFERS: usize = 8;

pub(super) fn look(looked: &Looked) -> Vec<Found> {
    if looked.pair.actual.len() < 3 {
        return Vec::new();
    }
    another(looked).or_else(|| strided(looked)).or_else(|| term(looked)).into_iter().collect()
}

/// Another golden altogether.
fn another(looked: &Looked) -> Option<Found> {
    let others = looked.scene.others;
    let after = others.after().iter().map(|other| (other, true));
    let candidates = others.before().iter().map(|other| (other, false)).chain(after);
    let len = looked.pair.actual.len();
    let (other, is_after, residual) =
        candidates.filter(|(other, _)| elements(other) == len).find_map(|(other, is_after)| {
            let residual = with(looked, other, |field| {
                looked.pair.explained(0, |index| field.at(looked.pair.positions[index]))
            })?;
            Some((other, is_after, residual))
        })?;
    let nearest = |list: &[Other]| {
        list.iter().find(|near| near.shape == other.shape).is_some_and(|near| near.name == other.name)
    };
    let (kind, what) = match relation(looked.scene.name, &other.name) {
        Relation::Step if !is_after && nearest(others.before()) => {
            (Kind::NotExecuted, "as if this stage had not run")
        }
        Relation::Step if is_after && nearest(others.after()) => {
            (Kind::ExecutedTwice, "as if a stage more had run")
        }
        _ => (Kind::Crossed, "another checkpoint altogether"),
    };
    // Under another shape it is rather a reshape that is wrong.
    let cost = if other.shape == looked.scene.actual.shape() { 1 } else { 3 };
    Some(Found::new(kind, cost, residual, format!("the golden of `{}`, {what}", other.name)))
}

/// Words that stand for two of a kind, though they are not alike.
const SIBLINGS: &[&[&str]] = &[
    &["q", "k", "v"],
    &["cos", "sin"],
    &["img", "txt", "image", "text"],
    &["gate", "up", "down"],
    &["shift", "scale", "gate"],
];

/// What the result of a layer or a step is called, which the next one starts from.
const RESULTS: &[&str] = &["out", "output", "hidden_states", "sample", "latents", "x", "h"];

#[derive(PartialEq)]
enum Relation {
    /// One may be made from the other.
    Step,
    /// Two of a kind, side by side: query and key, image and text, cosine and sine.
    Siblings,
}

/// How two checkpoints are related as far as their names say: those that differ in a loop's index, or in what they are called
/// altogether, follow one another; those that are alike, or known to be two of a kind, are siblings.
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
    // The same inner stage of another layer is not what this one is made from; the same result of another one is.
    let inner = same_leaf && !RESULTS.contains(&leaf);
    match inner || different.iter().any(siblings) {
        true => Relation::Siblings,
        false => Relation::Step,
    }
}

/// The memory of a larger tensor from some row on, where a slice of it was meant.
fn strided(looked: &Looked) -> Option<Found> {
    let pair = &looked.pair;
    let (len, others) = (pair.actual.len(), looked.scene.others);
    let buffers = others.before().iter().filter(|other| elements(other) > len).take(BUFFERS);
    buffers.filter(|other| other.shape.len() >= 2).find_map(|other| {
        with(looked, other, |field| {
            let width = pair.actual.width().max(1);
            let starts = (0..field.shape().last().copied().unwrap_or(1)).step_by(width).take(16);
            starts.filter(|start| start + len <= field.len()).find_map(|start| {
                let residual = pair.explained(0, |index| field.at(start + pair.positions[index]))?;
                let text = format!(
                    "the memory of `{}` {:?} from element {start} on, where a slice of it was meant",
                    other.name, other.shape
                );
                Some(Found::new(Kind::StridedRead, 1, residual, text))
            })
        })
    })
}

/// The golden without another tensor, or with it once more.
fn term(looked: &Looked) -> Option<Found> {
    let pair = &looked.pair;
    if !pair.same_shape() {
        return None;
    }
    let others = looked.scene.others;
    let candidates = others.before().iter().take(TERMS).chain(others.after().iter().take(TERMS / 4));
    candidates.chain(others.weights()).find_map(|other| {
        let places = Broadcast::new(&other.field_shape(), pair)?;
        with(looked, other, |field| {
            [(-1.0, "without"), (1.0, "plus once more"), (-2.0, "with the opposite sign of")]
                .into_iter()
                .find_map(|(times, words)| {
                    let residual = pair.explained(0, |index| {
                        pair.e[index] + times * field.at(places.source(pair.positions[index]))
                    })?;
                    Some(Found::new(Kind::Term, 2, residual, format!("the golden {words} `{}`", other.name)))
                })
        })
    })
}

/// Where in a tensor that is broadcast to the pair's shape each element comes from.
pub(super) struct Broadcast {
    /// Length of each axis of the pair, and the other's stride along it.
    axes: Vec<(usize, usize)>,
}

impl Broadcast {
    /// For a tensor with more than one element that can be broadcast to the pair's shape without being a mere vector.
    pub(super) fn new(shape: &[usize], pair: &Pair) -> Option<Self> {
        let whole = pair.shape();
        let missing = whole.len().checked_sub(shape.len())?;
        let strides = super::field::row_major(shape);
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

/// Elements as a field counts them.
fn elements(other: &Other) -> usize {
    other.len() * if other.dtype == crate::tensor::Dtype::Complex64 { 2 } else { 1 }
}

/// Does something with the values of another tensor.
pub(super) fn with<T>(looked: &Looked, other: &Other, work: impl FnOnce(&Field) -> Option<T>) -> Option<T> {
    let tensor = looked.tensor(other)?;
    work(&Field::new(&tensor.view()))
}
