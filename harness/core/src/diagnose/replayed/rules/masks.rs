//! Another mask: absent, inverted, moved, on the other side, with another fill value.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::number::Short;
use crate::recipe::{Binary, Form, Leaf, Mask, Normalizer, Op, Operand, Product, Unary};
use crate::replay::{Array, Change, NewOperand};

/// Numbers that are tried at the positions that a mask hides.
const FILLS: [f64; 8] =
    [f64::NEG_INFINITY, -3.402_823_466_385_288_6e38, -1e9, -65504.0, -1e4, -100.0, -1.0, 0.0];

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (at, operand) in stage.operands(node) {
        let is_mask_of = match stage.op(node) {
            Op::Where => at == 0,
            Op::Product(Product::Attention { .. }) => at == 3,
            Op::Binary(Binary::Add | Binary::Mul | Binary::And | Binary::Or) => true,
            _ => false,
        };
        let kind = if is_mask_of { mask_kind(stage, operand) } else { None };
        if let Some(kind) = kind {
            found.extend(changed(stage, node, at, operand, kind));
        }
    }
    found.extend(fills(stage, node));
    found.extend(causal(stage, node));
    found
}

/// How a tensor masks: by true and false, or by adding large negative numbers. `None` if the tensor is not a mask.
pub(super) fn mask_kind(stage: &Stage, operand: usize) -> Option<Mask> {
    let value = stage.value(operand).filter(|value| value.ndim() >= 1 && value.len() > 1)?;
    let all = |is: fn(f64) -> bool| value.values().iter().copied().all(is);
    let is_mixed = |value: &Array| value.values().iter().any(|x| *x != value.values()[0]);
    if !is_mixed(&value) {
        return None;
    }
    if all(|x| x == 0.0 || x == 1.0) {
        Some(Mask::Bool)
    } else if all(|x| x == 0.0 || x <= -1e3) {
        Some(Mask::Add)
    } else {
        None
    }
}

fn changed(stage: &Stage, node: usize, at: usize, mask: usize, kind: Mask) -> Vec<Candidate> {
    let shape = stage.shape(mask);
    let rank = shape.len();
    let mut found = Vec::new();
    let mut push = |text: &str, make: &dyn Fn(&mut Expression) -> NewOperand| {
        let mut new = Expression::default();
        let other = make(&mut new);
        let mut inputs: Vec<NewOperand> = stage.node(node).inputs.iter().copied().map(Into::into).collect();
        inputs[at] = other;
        let result = new.add(stage.op(node).clone(), inputs);
        let text = format!("the mask {text}");
        found.push(Candidate::new(CauseKind::MaskChange, 2, new.replaces(node, result), text));
    };
    let mask = NewOperand::Old(mask);
    let largest = stage.value(match mask {
        NewOperand::Old(node) => node,
        _ => return Vec::new(),
    });
    let lowest = largest.map_or(-1e9, |value| value.values().iter().copied().fold(0.0, f64::min));
    push("inverted", &|new| match kind {
        Mask::Bool => new.add(Op::Unary(Unary::Not), vec![mask]),
        Mask::Add => {
            let open = new.add(Op::Binary(Binary::Eq), vec![mask, NewOperand::Number(0.0)]);
            new.add(Op::Where, vec![open, NewOperand::Number(lowest), NewOperand::Number(0.0)])
        }
    });
    let fills: &[(f64, &str)] = match kind {
        Mask::Bool => &[(1.0, "absent"), (0.0, "over everything")],
        Mask::Add => &[(0.0, "absent")],
    };
    for &(value, text) in fills {
        push(text, &|new| {
            let shape = shape.to_vec();
            new.add(Op::Leaf(Leaf::Full { shape, value }), Vec::new())
        });
    }
    for axis in (rank.saturating_sub(2)..rank).filter(|axis| shape[*axis] > 1) {
        for shift in [-2, -1, 1, 2] {
            let text = format!("moved by {shift} along axis {axis}");
            push(&text, &|new| {
                new.add(Op::Form(Form::Roll { shifts: vec![shift], axes: vec![axis] }), vec![mask])
            });
        }
        push(&format!("reversed along axis {axis}"), &|new| {
            new.add(Op::Form(Form::Flip { axes: vec![axis] }), vec![mask])
        });
    }
    if rank >= 2 && shape[rank - 1] == shape[rank - 2] && shape[rank - 1] > 1 {
        push("transposed", &|new| {
            let axes = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
            new.add(Op::Form(Form::Permute { axes }), vec![mask])
        });
    }
    if rank >= 2 {
        let ahead = shape[rank - 1] as i64 - shape[rank - 2] as i64;
        for diagonal in [ahead - 1, ahead, ahead + 1, 0] {
            let lower = |new: &mut Expression| {
                let ones = new.add(Op::Leaf(Leaf::Full { shape: shape.to_vec(), value: 1.0 }), Vec::new());
                new.add(Op::Form(Form::Tril { diagonal }), vec![ones])
            };
            let text = format!("replaced by a causal one that sees {} keys ahead", diagonal - ahead);
            push(&text, &|new| {
                let lower = lower(new);
                match kind {
                    Mask::Bool => lower,
                    Mask::Add => {
                        let inputs = vec![lower, NewOperand::Number(0.0), NewOperand::Number(lowest)];
                        new.add(Op::Where, inputs)
                    }
                }
            });
            push(&format!("also causal, {} keys ahead", diagonal - ahead), &|new| {
                let lower = lower(new);
                match kind {
                    Mask::Bool => new.add(Op::Binary(Binary::And), vec![lower, mask]),
                    Mask::Add => new.add(Op::Where, vec![lower, mask, NewOperand::Number(lowest)]),
                }
            });
        }
    }
    found
}

/// Another number at the positions that a mask hides.
fn fills(stage: &Stage, node: usize) -> Vec<Candidate> {
    if *stage.op(node) != Op::Where {
        return Vec::new();
    }
    let mut found = Vec::new();
    for at in [1, 2] {
        let Some(Operand::Number(old)) = stage.node(node).inputs.get(at).copied() else { continue };
        for new in FILLS.into_iter().chain([1.0, -old]).filter(|new| *new != old) {
            let mut inputs: Vec<NewOperand> =
                stage.node(node).inputs.iter().copied().map(Into::into).collect();
            inputs[at] = NewOperand::Number(new);
            let text = format!("{} in place of {} in `where`", Short(new), Short(old));
            found.push(Candidate::new(CauseKind::MaskChange, 2, Change::node(node, Op::Where, inputs), text));
        }
    }
    found
}

/// A causal mask where the reference has none, or no causal mask where the reference has one.
fn causal(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    match stage.op(node) {
        Op::Product(Product::Attention { scale, causal, groups, mask }) => {
            let op = Product::Attention { scale: *scale, causal: !causal, groups: *groups, mask: *mask };
            let text = if *causal { "no causal mask in `attention`" } else { "a causal mask in `attention`" };
            let change = Change::op(stage.recipe, node, Op::Product(op));
            found.push(Candidate::new(CauseKind::MaskChange, 2, change, text.to_owned()));
        }
        Op::Normalize(Normalizer::Softmax { axis }) => {
            let Some((_, scores)) = stage.operands(node).next() else { return found };
            let shape = stage.shape(scores);
            let rank = shape.len();
            if rank < 2 || *axis + 1 != rank {
                return found;
            }
            let ahead = shape[rank - 1] as i64 - shape[rank - 2] as i64;
            for diagonal in [ahead, 0, ahead - 1, ahead + 1] {
                let mut new = Expression::default();
                let shape = shape[rank - 2..].to_vec();
                let ones = new.add(Op::Leaf(Leaf::Full { shape, value: 1.0 }), Vec::new());
                let lower = new.add(Op::Form(Form::Tril { diagonal }), vec![ones]);
                let inputs = vec![lower, NewOperand::Old(scores), NewOperand::Number(f64::NEG_INFINITY)];
                let masked = new.add(Op::Where, inputs);
                let result = new.add(stage.op(node).clone(), vec![masked]);
                let text = "a causal mask that the reference does not have".to_owned();
                found.push(Candidate::new(CauseKind::MaskChange, 3, new.replaces(node, result), text));
            }
        }
        _ => {}
    }
    found
}
