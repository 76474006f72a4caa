//! Axes that are split into other lengths wherever they are split, such as into another number of heads.

use super::super::candidate::Candidate;
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::recipe::{Binary, Form, Op, Operand, Product};
use crate::replay::{Change, NewOperand};

/// The most other lengths that are tried for one axis.
const LENGTHS: usize = 24;

/// A `reshape` that splits one axis into several: the node, and the position of the last new axis.
struct Split {
    node: usize,
    last: usize,
}

/// Splits into other lengths. The target proposes this for the whole stage, since heads are split in several places.
pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    if node != stage.target {
        return Vec::new();
    }
    let splits: Vec<(Split, usize)> = stage.computed.iter().filter_map(|&node| split(stage, node)).collect();
    let mut widths: Vec<usize> = splits.iter().map(|(_, width)| *width).collect();
    widths.sort_unstable();
    widths.dedup();
    let mut found = Vec::new();
    for width in widths {
        let tied: Vec<&Split> = splits.iter().filter(|(_, own)| *own == width).map(|(one, _)| one).collect();
        let longest = tied.iter().map(|one| outer(stage, one) * width).max().unwrap_or(0);
        let others = (1..=longest).filter(|new| *new != width && longest.is_multiple_of(*new)).take(LENGTHS);
        for new in others {
            let Some(changes) = tied.iter().map(|one| changed(stage, one, width, new)).collect() else {
                continue;
            };
            let text = format!("axes split into parts of {new} in place of {width}");
            found.extend(with_scales(stage, tied[0].node, width, new, changes, &text));
        }
    }
    found
}

/// The split that a node makes, and the length of its last new axis.
fn split(stage: &Stage, node: usize) -> Option<(Split, usize)> {
    let Op::Form(Form::Reshape { shape: to }) = stage.op(node) else { return None };
    let (_, x) = stage.operands(node).next()?;
    let from = stage.shape(x);
    let same = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let after = from.len().checked_sub(same + 1)?;
    let last = to.len().checked_sub(after + 1)?;
    let is_split = last > same
        && from[same + 1..] == to[last + 1..]
        && to[same..=last].iter().product::<usize>() == from[same];
    (is_split && to[last] > 1).then_some((Split { node, last }, to[last]))
}

/// The length of the axis before the last new one.
fn outer(stage: &Stage, split: &Split) -> usize {
    stage.shape(split.node)[split.last - 1]
}

/// The split with another length of the last axis; `None` if the lengths do not allow it.
fn changed(stage: &Stage, split: &Split, width: usize, new: usize) -> Option<Change> {
    let mut shape = stage.shape(split.node).to_vec();
    let both = shape[split.last - 1] * width;
    if !both.is_multiple_of(new) {
        return None;
    }
    (shape[split.last - 1], shape[split.last]) = (both / new, new);
    Some(Change::op(stage.recipe, split.node, Op::Form(Form::Reshape { shape })))
}

/// The changes alone, and together with every scale that is made from the length of the axis.
fn with_scales(
    stage: &Stage,
    node: usize,
    width: usize,
    new: usize,
    changes: Vec<Change>,
    text: &str,
) -> Vec<Candidate> {
    let candidate = |changes: Vec<Change>, cost: u8, text: String| Candidate {
        kind: CauseKind::Axis,
        cost,
        node,
        changes,
        text,
    };
    let scales: Vec<Change> =
        stage.computed.iter().filter_map(|&node| scaled(stage, node, width, new)).collect();
    let mut found = Vec::new();
    if !scales.is_empty() {
        let all = changes.iter().cloned().chain(scales).collect();
        found.push(candidate(all, 2, format!("{text}, and a scale for that length")));
    }
    found.push(candidate(changes, 3, text.to_owned()));
    found
}

/// An operation with the scale for another length, if its number is made from the length.
fn scaled(stage: &Stage, node: usize, width: usize, new: usize) -> Option<Change> {
    let (width, new) = (width as f64, new as f64);
    let made_from = |number: f64| -> Option<f64> {
        let is = |other: f64| (number - other).abs() <= 1e-6 * other.abs();
        match () {
            () if is(width.sqrt().recip()) => Some(new.sqrt().recip()),
            () if is(width.sqrt()) => Some(new.sqrt()),
            // Queries and keys that are scaled alike.
            () if is(width.powf(-0.25)) => Some(new.powf(-0.25)),
            () => None,
        }
    };
    match *stage.op(node) {
        Op::Product(Product::Attention { scale, causal, groups, mask }) => {
            let op = Product::Attention { scale: made_from(scale)?, causal, groups, mask };
            Some(Change::op(stage.recipe, node, Op::Product(op)))
        }
        Op::Binary(function @ (Binary::Mul | Binary::Div)) => {
            let mut is_changed = false;
            let inputs = stage.node(node).inputs.iter().map(|operand| match *operand {
                Operand::Number(number) => NewOperand::Number(made_from(number).map_or(number, |new| {
                    is_changed = true;
                    new
                })),
                other => other.into(),
            });
            let inputs = inputs.collect();
            is_changed.then(|| Change::node(node, Op::Binary(function), inputs))
        }
        _ => None,
    }
}
