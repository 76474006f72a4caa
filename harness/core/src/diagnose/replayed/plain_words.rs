//! Words for a change that say what it means for the model: heads that are tiled, a mask that lets tokens see more.

use super::candidate::{Candidate, Expression};
use super::stage::Stage;
use crate::recipe::{Binary, Form, Mask, Op, Operand, Product, Unary};
use crate::replay::{Change, NewOperand};

/// Numbers up to this one hide what they are added to.
const HIDDEN: f64 = -1e3;
/// The most indices of a pattern.
const INDICES: usize = 6;

/// The change by which elements are tiled (0, 1, 0, 1) in place of repeated one by one (0, 0, 1, 1), and its words, if the
/// operations around `node` repeat them.
pub(super) fn tiled(stage: &Stage, node: usize) -> Option<(Change, String)> {
    let operands =
        stage.operands(node).map(|(_, operand)| operand).filter(|operand| stage.is_computed(*operand));
    let near: Vec<usize> = [node].into_iter().chain(stage.users(node)).chain(operands).collect();
    near.into_iter().find_map(|node| match stage.op(node) {
        Op::Form(Form::Expand { .. }) => tiled_expansion(stage, node),
        Op::Form(Form::RepeatInterleave { repeats, axis }) => {
            let (_, x) = stage.operands(node).next()?;
            let count = *stage.shape(x).get(*axis)?;
            let times =
                (0..stage.shape(x).len()).map(|other| if other == *axis { *repeats } else { 1 }).collect();
            let change = Change::node(node, Op::Form(Form::Tile { times }), vec![NewOperand::Old(x)]);
            Some((change, words(stage, node, *axis, count, *repeats)?))
        }
        _ => None,
    })
}

/// The same where an axis of length 1 is expanded, and then merged with the axis before it.
fn tiled_expansion(stage: &Stage, node: usize) -> Option<(Change, String)> {
    let (_, x) = stage.operands(node).next()?;
    let (from, to) = (stage.shape(x), stage.shape(node));
    if from.len() != to.len() {
        return None;
    }
    let axis = (1..to.len()).find(|&axis| from[axis] == 1 && to[axis] > 1)?;
    let (count, repeats) = (to[axis - 1], to[axis]);
    let mut merged = to.to_vec();
    merged.remove(axis);
    merged[axis - 1] = count * repeats;
    let merge = stage.users(node).find(|&user| {
        matches!(stage.op(user), Op::Form(Form::Reshape { .. })) && stage.shape(user) == merged
    })?;
    let mut axes: Vec<usize> = (0..to.len()).collect();
    axes.swap(axis - 1, axis);
    let mut new = Expression::default();
    let turned = new.add(Op::Form(Form::Permute { axes }), vec![NewOperand::Old(node)]);
    let result = new.add(Op::Form(Form::Reshape { shape: merged }), vec![turned]);
    Some((new.replaces(merge, result), words(stage, merge, axis - 1, count, repeats)?))
}

/// The two patterns of indices, for `count` elements along an axis of `node`.
fn words(stage: &Stage, node: usize, axis: usize, count: usize, repeats: usize) -> Option<String> {
    if count < 2 || repeats < 2 {
        return None;
    }
    let list = |index: &dyn Fn(usize) -> usize| {
        let length = count * repeats;
        let mut shown: Vec<String> = (0..length.min(INDICES)).map(|at| index(at).to_string()).collect();
        shown.extend((length > INDICES).then(|| "…".to_owned()));
        shown.join(", ")
    };
    // Tensors of attention have the axes batch, head, token and feature.
    let what = match (stage.shape(node).len(), axis) {
        (4, 1) => "key/value heads".to_owned(),
        _ => format!("the entries of axis {axis}"),
    };
    let (tiled, repeated) = (list(&|at| at % count), list(&|at| at / repeats));
    Some(format!("{what} tiled ({tiled}) where the reference repeats each ({repeated})"))
}

/// What another offset of a mask means: `each token sees one token more`. `None` if the change is something else.
pub(super) fn mask_offset(stage: &Stage, candidate: &Candidate) -> Option<String> {
    let [change] = &candidate.changes[..] else { return None };
    let ([new], &Op::Binary(function @ (Binary::Add | Binary::Sub))) =
        (&change.with[..], stage.op(change.node))
    else {
        return None;
    };
    if new.op != Op::Binary(function) {
        return None;
    }
    let pairs = stage.node(change.node).inputs.iter().zip(&new.inputs).enumerate();
    let (at, moved) = pairs.into_iter().find_map(|(at, pair)| match pair {
        (Operand::Number(old), NewOperand::Number(new)) if old != new => Some((at, new - old)),
        _ => None,
    })?;
    let moved = if function == Binary::Sub && at == 1 { -moved } else { moved };
    let (comparison, at) = comparison_of(stage, change.node)?;
    let more_is_true = match (stage.op(comparison), at) {
        (Op::Binary(Binary::Le | Binary::Lt), 1) | (Op::Binary(Binary::Ge | Binary::Gt), 0) => moved,
        (Op::Binary(Binary::Le | Binary::Lt), 0) | (Op::Binary(Binary::Ge | Binary::Gt), 1) => -moved,
        _ => return None,
    };
    let seen = if true_is_seen(stage, comparison)? { more_is_true } else { -more_is_true };
    if seen.fract() != 0.0 || seen == 0.0 {
        return None;
    }
    let count = match seen.abs() {
        1.0 => "one token".to_owned(),
        count => format!("{count} tokens"),
    };
    Some(format!("each token sees {count} {}", if seen > 0.0 { "more" } else { "fewer" }))
}

/// The comparison that a node reaches by operations that only move elements, and its place among the operands.
fn comparison_of(stage: &Stage, mut node: usize) -> Option<(usize, usize)> {
    for _ in 0..stage.computed.len() {
        let mut users = stage.users(node);
        let (Some(user), None) = (users.next(), users.next()) else { return None };
        let at = stage.operands(user).find(|(_, operand)| *operand == node)?.0;
        match stage.op(user) {
            op if op.is_comparison() => return Some((user, at)),
            Op::Form(_) | Op::Cast { .. } => node = user,
            _ => return None,
        }
    }
    None
}

/// Whether tokens see each other where a comparison is true. `None` if that is not clear.
fn true_is_seen(stage: &Stage, mut node: usize) -> Option<bool> {
    let mut is_seen = true;
    for _ in 0..stage.computed.len() {
        let user = stage.users(node).next()?;
        let at = stage.operands(user).find(|(_, operand)| *operand == node)?.0;
        match stage.op(user) {
            Op::Unary(Unary::Not) => is_seen = !is_seen,
            Op::Form(_) | Op::Cast { .. } | Op::Binary(Binary::And | Binary::Or | Binary::Mul) => {}
            Op::Product(Product::Attention { mask: Some(Mask::Bool), .. }) => return Some(is_seen),
            Op::Where if at == 0 => {
                let [_, if_true, if_false] = stage.node(user).inputs[..] else { return None };
                return match (hides(stage, if_true), hides(stage, if_false)) {
                    (false, true) => Some(is_seen),
                    (true, false) => Some(!is_seen),
                    _ => None,
                };
            }
            _ => return None,
        }
        node = user;
    }
    None
}

/// Whether scores with this operand added, or in its place, are hidden.
fn hides(stage: &Stage, operand: Operand) -> bool {
    match operand {
        Operand::Number(number) => number <= HIDDEN,
        Operand::Node(node) => {
            stage.value(node).is_some_and(|value| value.values().iter().all(|number| *number <= HIDDEN))
        }
        Operand::Absent => false,
    }
}
