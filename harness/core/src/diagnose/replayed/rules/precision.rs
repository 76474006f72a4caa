//! Values rounded to a narrower format: one result or operand, every result, or all weights.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::recipe::{Form, Op};
use crate::replay::{Change, NewOperand};
use crate::tensor::Dtype;

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    for dtype in [Dtype::Bfloat16, Dtype::Float16] {
        if !matches!(stage.op(node), Op::Form(Form::Reshape { .. } | Form::Permute { .. })) {
            let change = Change::node(node, Op::Cast { dtype }, vec![NewOperand::Old(node)]);
            let text = format!("the result of `{}` rounded to {dtype}", stage.op(node).name());
            found.push(Candidate::new(CauseKind::Precision, 3, change, text));
        }
        for (at, operand) in stage.operands(node) {
            if stage.is_computed(operand) {
                continue;
            }
            let mut new = Expression::default();
            let rounded = new.add(Op::Cast { dtype }, vec![NewOperand::Old(operand)]);
            let mut inputs: Vec<NewOperand> =
                stage.node(node).inputs.iter().copied().map(Into::into).collect();
            inputs[at] = rounded;
            let result = new.add(stage.op(node).clone(), inputs);
            let text = format!("{} rounded to {dtype}", stage.name(operand));
            found.push(Candidate::new(CauseKind::Precision, 3, new.replaces(node, result), text));
        }
        if node == stage.target {
            found.push(everything(stage, dtype));
            found.extend(weights(stage, dtype));
        }
    }
    found
}

/// The result of every operation rounded.
fn everything(stage: &Stage, dtype: Dtype) -> Candidate {
    let rounded = |&node: &usize| {
        let mut new = Expression::default();
        let inputs = stage.node(node).inputs.iter().copied().map(Into::into).collect();
        let value = new.add(stage.op(node).clone(), inputs);
        let result = new.add(Op::Cast { dtype }, vec![value]);
        new.replaces(node, result)
    };
    let changes = stage.computed.iter().map(rounded).collect();
    let text = format!("every intermediate result rounded to {dtype}");
    Candidate { kind: CauseKind::Precision, cost: 3, node: stage.target, changes, text }
}

/// All weights rounded, if there are several.
fn weights(stage: &Stage, dtype: Dtype) -> Option<Candidate> {
    let weights = stage.nodes().iter().copied().filter(|node| stage.weight(*node).is_some());
    let rounded = |node: usize| Change::node(node, Op::Cast { dtype }, vec![NewOperand::Old(node)]);
    let changes: Vec<Change> = weights.map(rounded).collect();
    let text = format!("all weights rounded to {dtype}");
    (changes.len() > 1).then_some(Candidate {
        kind: CauseKind::Precision,
        cost: 3,
        node: stage.target,
        changes,
        text,
    })
}
