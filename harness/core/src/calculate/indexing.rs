//! Indices and ranges, `x[0, 1:3, ..., -1]`, by NumPy's rules.

use std::ops::Range;

use super::error::Mistake;
use super::functions::limit;
use crate::recipe::{Form, Op, Slice};
use crate::replay::{Array, Work, evaluate};

/// One entry of an index, with its numbers.
#[derive(Debug, Clone)]
pub(super) enum Index {
    /// One index; the axis goes away.
    At(i64, Range<usize>),
    /// `start:end:step`
    Range { at: Range<usize>, start: Option<i64>, end: Option<i64>, step: Option<i64> },
    /// `...`
    Rest(Range<usize>),
}

/// The selected elements of `x`.
pub(super) fn select(x: &Array, at: &Range<usize>, entries: &[Index], work: &Work) -> Result<Array, Mistake> {
    let rests = entries.iter().filter(|entry| matches!(entry, Index::Rest(_)));
    if let Some(Index::Rest(second)) = rests.clone().nth(1) {
        return Err(Mistake::new(second, "an index has a second `...`"));
    }
    let named = entries.len() - rests.count();
    if named > x.ndim() {
        let message = format!("{named} indices into shape {:?}", x.shape());
        return Err(Mistake::new(at, message).allowed(format!("at most {}", x.ndim())));
    }
    let run = |op: Form, x: &Array, place: &Range<usize>| {
        evaluate(&Op::Form(op), &[Some(x.clone())], work).map_err(|error| limit(place, &error))
    };
    let mut value = x.clone();
    let mut dropped = vec![false; x.ndim()];
    let mut axis = 0;
    for entry in entries {
        match entry {
            Index::Rest(_) => axis += x.ndim() - named,
            Index::At(index, place) => {
                let start = position(*index, x.shape()[axis], axis, place)?;
                value = run(Form::Slice(Slice { axis, start, end: start + 1, step: 1 }), &value, place)?;
                dropped[axis] = true;
                axis += 1;
            }
            Index::Range { at: place, start, end, step } => {
                let length = x.shape()[axis];
                let step = step.unwrap_or(1);
                if step == 0 {
                    return Err(Mistake::new(place, "the step is 0").allowed("a step such as 2 or -1"));
                }
                let (start, end) = if step < 0 {
                    value = run(Form::Flip { axes: vec![axis] }, &value, place)?;
                    let mirrored = |bound: i64| length as i64 - 1 - from_end(bound, length);
                    (start.map(mirrored), end.map(mirrored))
                } else {
                    (start.map(|bound| from_end(bound, length)), end.map(|bound| from_end(bound, length)))
                };
                let clamped = |bound: i64| bound.clamp(0, length as i64) as usize;
                let start = start.map_or(0, clamped);
                let end = end.map_or(length, clamped).max(start);
                let step = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
                value = run(Form::Slice(Slice { axis, start, end, step }), &value, place)?;
                axis += 1;
            }
        }
    }
    let kept = value.shape().iter().zip(&dropped).filter(|(_, dropped)| !**dropped);
    let shape = kept.map(|(&length, _)| length).collect();
    run(Form::Reshape { shape }, &value, at)
}

/// A bound as a distance from the start. Bounds outside the axis stay outside.
fn from_end(bound: i64, length: usize) -> i64 {
    if bound < 0 { bound + length as i64 } else { bound }
}

fn position(index: i64, length: usize, axis: usize, at: &Range<usize>) -> Result<usize, Mistake> {
    let position = from_end(index, length);
    usize::try_from(position).ok().filter(|position| *position < length).ok_or_else(|| {
        let allowed = match length {
            0 => "no index: the axis is empty".to_owned(),
            _ => format!("-{length} to {}", length - 1),
        };
        Mistake::new(at, format!("index {index} is outside axis {axis}, which has length {length}"))
            .allowed(allowed)
    })
}
