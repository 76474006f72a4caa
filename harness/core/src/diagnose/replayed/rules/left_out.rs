//! An operation, or an optional operand, that is left out.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use super::masks::mask_kind;
use crate::diagnose::CauseKind;
use crate::number::Short;
use crate::recipe::{Binary, Form, Lookup, Op, Operand, Product, Slice};
use crate::replay::{Change, NewOperand};

/// How many times longer a part may be by mistake.
const LONGER: usize = 4;

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = operand_left_out(stage, node);
    found.extend(same_slices(stage, node));
    // Leaving out a change of dtype changes no value beyond rounding.
    if matches!(stage.op(node), Op::Cast { .. } | Op::Lookup(Lookup::Embedding | Lookup::OneHot { .. })) {
        return found;
    }
    let is_form = matches!(stage.op(node), Op::Form(_));
    for (at, operand) in stage.operands(node) {
        if !is_form && stage.shape(operand) != stage.shape(node) {
            continue;
        }
        let hides = |(other_at, other): (usize, usize)| other_at != at && mask_kind(stage, other).is_some();
        let is_mask =
            matches!(stage.op(node), Op::Binary(Binary::Add) | Op::Where) && stage.operands(node).any(hides);
        let (kind, text) = match is_mask {
            true => {
                (CauseKind::MaskChange, "the mask left out, so that every token sees all others".to_owned())
            }
            false => (CauseKind::LeftOut, text(stage, node, at)),
        };
        found.push(Candidate::new(kind, 1, Change::value(node, NewOperand::Old(operand)), text));
    }
    found
}

/// The same part of several tensors, such as the queries and keys of one window, that is longer or everything.
///
/// Only the target proposes this.
fn same_slices(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    if node != stage.target {
        return found;
    }
    let slices: Vec<(usize, Slice, usize)> = (stage.computed.iter())
        .filter_map(|&node| match *stage.op(node) {
            Op::Form(Form::Slice(slice)) => Some((node, slice, stage.operands(node).next()?.1)),
            _ => None,
        })
        .collect();
    for (at, &(first, slice, source)) in slices.iter().enumerate() {
        if slices[..at].iter().any(|(_, other, _)| *other == slice) {
            continue;
        }
        let same: Vec<_> = slices.iter().filter(|(_, other, _)| *other == slice).collect();
        if same.len() < 2 {
            continue;
        }
        let Slice { axis, start, end, .. } = slice;
        let mut push = |kind: CauseKind, changes: Vec<Change>, what: String| {
            let text =
                format!("{what} of axis {axis} in place of {start} to {end}, in {} places", same.len());
            found.push(Candidate { kind, cost: 2, node: first, changes, text });
        };
        let whole = same.iter().map(|(node, _, source)| Change::value(*node, NewOperand::Old(*source)));
        push(CauseKind::LeftOut, whole.collect(), "all".to_owned());
        let length = stage.shape(source).get(axis).copied().unwrap_or(0);
        for longer in (2..=LONGER).map(|times| start + times * (end - start)).filter(|end| *end <= length) {
            let op = Op::Form(Form::Slice(Slice { end: longer, ..slice }));
            let changes = same.iter().map(|(node, _, _)| Change::op(stage.recipe, *node, op.clone()));
            push(CauseKind::Operand, changes.collect(), format!("{start} to {longer}"));
        }
    }
    found
}

/// Describes what is left out if only the operand `kept` remains.
fn text(stage: &Stage, node: usize, kept: usize) -> String {
    let name = stage.op(node).name();
    let others = stage.node(node).inputs.iter().enumerate().filter(|(at, _)| *at != kept);
    let others: Vec<String> = others
        .filter_map(|(_, operand)| match operand {
            Operand::Node(operand) => Some(stage.name(*operand)),
            Operand::Number(number) => Some(Short(*number).to_string()),
            Operand::Absent => None,
        })
        .collect();
    let others = others.join(" and ");
    match stage.op(node) {
        _ if others.is_empty() => format!("`{name}` left out"),
        Op::Binary(Binary::Add) => format!("{others} not added"),
        Op::Binary(Binary::Sub) => format!("the subtraction of {others} left out"),
        Op::Binary(Binary::Mul) => format!("the factor {others} left out"),
        Op::Binary(Binary::Div) => format!("the division by {others} left out"),
        _ => format!("`{name}` with {others} left out"),
    }
}

/// The operation without a weight, a bias or a mask.
fn operand_left_out(stage: &Stage, node: usize) -> Vec<Candidate> {
    let op = stage.op(node);
    let Some(counts) = op.operands() else { return Vec::new() };
    let mut found = Vec::new();
    let drop = |at: usize, op: Op, kind: CauseKind, what: &str, found: &mut Vec<Candidate>| {
        let mut inputs: Vec<NewOperand> = stage.node(node).inputs.iter().copied().map(Into::into).collect();
        let Some(Operand::Node(operand)) = stage.node(node).inputs.get(at).copied() else { return };
        inputs[at] = NewOperand::Absent;
        let text = format!("{what}{} left out of `{}`", stage.name(operand), op.name());
        found.push(Candidate::new(kind, 1, Change::node(node, op, inputs), text));
    };
    if let Op::Product(Product::Attention { scale, causal, groups, mask: Some(_) }) = op {
        let op = Product::Attention { scale: *scale, causal: *causal, groups: *groups, mask: None };
        drop(3, Op::Product(op), CauseKind::MaskChange, "the mask ", &mut found);
        return found;
    }
    if let Op::Dequantize { .. } = op
        && let Some(&Operand::Node(biases)) = stage.node(node).inputs.get(2)
    {
        let mut new = Expression::default();
        let zeros = new.add(Op::Binary(Binary::Mul), vec![NewOperand::Old(biases), NewOperand::Number(0.0)]);
        let mut inputs: Vec<NewOperand> = stage.node(node).inputs.iter().copied().map(Into::into).collect();
        inputs[2] = zeros;
        let result = new.add(op.clone(), inputs);
        let text = format!("the biases {} left out of `{}`", stage.name(biases), op.name());
        found.push(Candidate::new(CauseKind::LeftOut, 1, new.replaces(node, result), text));
    }
    for at in counts.required..counts.required + counts.optional {
        drop(at, op.clone(), CauseKind::LeftOut, "", &mut found);
    }
    found
}
