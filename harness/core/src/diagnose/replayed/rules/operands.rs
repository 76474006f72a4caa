//! Another tensor in place of an operand.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::golden::Role;
use crate::recipe::{Form, Leaf, Op, Slice};
use crate::replay::{Change, NewOperand};

/// The most weights that are tried in place of another.
const WEIGHTS: usize = 96;
/// The most earlier goldens that are tried in place of an operand.
const GOLDENS: usize = 24;

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (at, operand) in stage.operands(node) {
        found.extend(other_value(stage, node, at, operand));
        found.extend(other_weight(stage, node, at, operand));
        found.extend(other_part(stage, node, at, operand));
        found.extend(transposed(stage, node, at, operand));
    }
    found.extend(other_layer(stage, node));
    found
}

/// The node with one operand replaced.
fn with_operand(stage: &Stage, node: usize, at: usize, mut new: Expression, value: NewOperand) -> Change {
    let mut inputs: Vec<NewOperand> = stage.node(node).inputs.iter().copied().map(Into::into).collect();
    inputs[at] = value;
    let result = new.add(stage.op(node).clone(), inputs);
    new.replaces(node, result)
}

/// Any other value of the stage, or an earlier golden, of the same shape.
fn other_value(stage: &Stage, node: usize, at: usize, operand: usize) -> Vec<Candidate> {
    let shape = stage.shape(operand);
    if shape.is_empty() || stage.weight(operand).is_some() {
        return Vec::new();
    }
    let own = stage.nodes().iter().rev().copied();
    let own = own.filter(|other| stage.weight(*other).is_none() && stage.shape(*other) == shape);
    let earlier = (stage.earlier.iter())
        .filter(|(other, their)| their == shape && *other < stage.target && !stage.nodes().contains(other))
        .map(|(other, _)| *other)
        .take(GOLDENS);
    let mut found = Vec::new();
    for other in own.chain(earlier).filter(|other| *other != operand) {
        let change = with_operand(stage, node, at, Expression::default(), NewOperand::Base(other));
        let text = format!(
            "{} in place of {} in `{}`",
            stage.name(other),
            stage.name(operand),
            stage.op(node).name()
        );
        // If the operation gets its own result, it is applied once too often. If it gets what its operand was computed from,
        // an operation is left out.
        let kind = match () {
            () if other == node || stage.descends(other, node) => CauseKind::Repeated,
            () if stage.descends(operand, other) => CauseKind::LeftOut,
            () => CauseKind::Operand,
        };
        found.push(Candidate::new(kind, 3, change, text));
    }
    for (role, leaf) in [
        (Role::Input, &(|name| Leaf::Input { name }) as &dyn Fn(String) -> Leaf),
        (Role::Constant, &|name| Leaf::Constant { name }),
    ] {
        for entry in stage.fixtures.entries(role).filter(|entry| entry.shape == shape) {
            let mut new = Expression::default();
            let value = new.add(Op::Leaf(leaf(entry.name.clone())), Vec::new());
            let change = with_operand(stage, node, at, new, value);
            let text = format!("`{}` in place of {}", entry.name, stage.name(operand));
            found.push(Candidate::new(CauseKind::Operand, 3, change, text));
        }
    }
    found
}

/// Another weight of the same shape. Weights with similar names come first.
fn other_weight(stage: &Stage, node: usize, at: usize, operand: usize) -> Vec<Candidate> {
    let Some(own) = stage.weight(operand) else { return Vec::new() };
    let shape = stage.shape(operand);
    let mut others: Vec<&str> = (stage.fixtures.weights())
        .filter(|entry| entry.name != own && entry.shape == shape)
        .map(|entry| entry.name.as_str())
        .collect();
    others.sort_by_key(|other| std::cmp::Reverse(alike(own, other)));
    let with = |other: &&str| {
        let mut new = Expression::default();
        let value = new.add(Op::Leaf(Leaf::Weight { name: (*other).to_owned() }), Vec::new());
        let change = with_operand(stage, node, at, new, value);
        Candidate::new(CauseKind::Operand, 3, change, format!("`{other}` in place of `{own}`"))
    };
    others.iter().take(WEIGHTS).map(with).collect()
}

/// How many characters two names have in common at the start and at the end.
fn alike(a: &str, b: &str) -> usize {
    let start = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let end = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
    start + end
}

/// Another part of the tensor that the operand was cut from.
fn other_part(stage: &Stage, node: usize, at: usize, operand: usize) -> Vec<Candidate> {
    let Op::Form(Form::Slice(own)) = *stage.op(operand) else { return Vec::new() };
    let Some((_, source)) = stage.operands(operand).next() else { return Vec::new() };
    let count = own.end - own.start;
    let length = stage.shape(source).get(own.axis).copied().unwrap_or(0);
    if count == 0 || length / count > 64 || !stage.is_computed(operand) {
        return Vec::new();
    }
    let starts = (0..length / count).map(|part| part * count).filter(|start| *start != own.start);
    let mut found: Vec<Candidate> = starts
        .map(|start| {
            let mut new = Expression::default();
            let slice = Slice { start, end: start + count, ..own };
            let value = new.add(Op::Form(Form::Slice(slice)), vec![NewOperand::Old(source)]);
            let change = with_operand(stage, node, at, new, value);
            let text = format!("another part of {}", stage.name(source));
            Candidate::new(CauseKind::Operand, 2, change, text)
        })
        .collect();
    // Every second element in place of a half.
    if own.step == 1 && count * 2 == length {
        let mut new = Expression::default();
        let start = usize::from(own.start > 0);
        let slice = Slice { axis: own.axis, start, end: length, step: 2 };
        let value = new.add(Op::Form(Form::Slice(slice)), vec![NewOperand::Old(source)]);
        let change = with_operand(stage, node, at, new, value);
        let text = format!("every second element of {} in place of a half", stage.name(source));
        found.push(Candidate::new(CauseKind::Axis, 3, change, text));
    }
    found
}

/// A weight with two axes exchanged, or with its kernel flipped.
fn transposed(stage: &Stage, node: usize, at: usize, operand: usize) -> Vec<Candidate> {
    let shape = stage.shape(operand);
    if shape.len() < 2 || stage.weight(operand).is_none() {
        return Vec::new();
    }
    let rank = shape.len();
    let mut found = Vec::new();
    for (a, b) in [(rank - 2, rank - 1), (0, 1)] {
        if shape[a] == 1 || shape[b] == 1 {
            continue;
        }
        let mut new = Expression::default();
        let mut axes: Vec<usize> = (0..rank).collect();
        axes.swap(a, b);
        let turned = new.add(Op::Form(Form::Permute { axes }), vec![NewOperand::Old(operand)]);
        let value = new.add(Op::Form(Form::Reshape { shape: shape.to_vec() }), vec![turned]);
        let text = format!("{} transposed", stage.name(operand));
        found.push(Candidate::new(CauseKind::Operand, 3, with_operand(stage, node, at, new, value), text));
    }
    if rank > 2 {
        let mut new = Expression::default();
        let axes = (2..rank).collect();
        let value = new.add(Op::Form(Form::Flip { axes }), vec![NewOperand::Old(operand)]);
        let text = format!("{} with its kernel flipped", stage.name(operand));
        found.push(Candidate::new(CauseKind::Operand, 3, with_operand(stage, node, at, new, value), text));
    }
    found
}

/// All weights of the operation taken from another layer.
fn other_layer(stage: &Stage, node: usize) -> Vec<Candidate> {
    let own: Vec<(usize, &str, &[usize])> = stage
        .operands(node)
        .filter_map(|(at, operand)| Some((at, stage.weight(operand)?, stage.shape(operand))))
        .collect();
    let [(_, first, first_shape), ..] = own[..] else { return Vec::new() };
    if own.len() < 2 {
        return Vec::new();
    }
    let split = |name: &str| name.rsplit_once('.').map(|(layer, _)| layer.to_owned());
    let Some(layer) = split(first) else { return Vec::new() };
    let others = stage.fixtures.weights().filter(|entry| entry.name != first && entry.shape == first_shape);
    let mut found = Vec::new();
    for other in others.filter_map(|entry| split(&entry.name)).take(WEIGHTS) {
        let mut new = Expression::default();
        let mut inputs: Vec<NewOperand> = stage.node(node).inputs.iter().copied().map(Into::into).collect();
        let fits = own.iter().all(|(at, name, shape)| {
            let Some(rest) = name.strip_prefix(&layer) else { return false };
            let name = format!("{other}{rest}");
            let exists = stage.fixtures.weights().any(|entry| entry.name == name && entry.shape == *shape);
            if exists {
                inputs[*at] = new.add(Op::Leaf(Leaf::Weight { name }), Vec::new());
            }
            exists
        });
        if fits {
            let result = new.add(stage.op(node).clone(), inputs);
            let text = format!("the weights of `{other}` in place of those of `{layer}`");
            found.push(Candidate::new(CauseKind::Operand, 2, new.replaces(node, result), text));
        }
    }
    found
}
