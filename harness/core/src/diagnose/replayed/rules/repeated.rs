//! An operation that is applied twice.

use super::super::candidate::Candidate;
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::recipe::{Binary, Form, Op, Operand, Product};
use crate::replay::{Change, NewOperand};

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let op = stage.op(node);
    let mut found = Vec::new();
    let mut push = |change: Change, text: String| {
        found.push(Candidate::new(CauseKind::Repeated, 2, change, text));
    };
    match op {
        Op::Product(Product::Linear | Product::Conv { .. }) => {
            // A bias that is added twice.
            if let Some(Operand::Node(bias)) = stage.node(node).inputs.get(2).copied()
                && matches!(op, Op::Product(Product::Linear))
            {
                let inputs = vec![NewOperand::Old(node), NewOperand::Old(bias)];
                let change = Change::node(node, Op::Binary(Binary::Add), inputs);
                push(change, format!("the bias {} added twice", stage.name(bias)));
            }
        }
        Op::Product(Product::Attention { scale, causal, groups, mask }) => {
            let op =
                Product::Attention { scale: scale * scale, causal: *causal, groups: *groups, mask: *mask };
            let change = Change::op(stage.recipe, node, Op::Product(op));
            push(change, "the scale of `attention` applied twice".to_owned());
        }
        Op::Leaf(_) | Op::Unknown { .. } | Op::Cast { .. } | Op::Product(_) | Op::Lookup(_) | Op::Where => {}
        Op::Form(Form::Reshape { .. } | Form::Expand { .. } | Form::Cat { .. } | Form::Stack { .. }) => {}
        _ => {
            for (at, operand) in stage.node(node).inputs.iter().enumerate() {
                let Operand::Node(operand) = *operand else { continue };
                if stage.shape(operand) != stage.shape(node) {
                    continue;
                }
                let mut inputs: Vec<NewOperand> =
                    stage.node(node).inputs.iter().copied().map(Into::into).collect();
                inputs[at] = NewOperand::Old(node);
                let change = Change::node(node, op.clone(), inputs);
                push(change, format!("`{}` applied twice", op.name()));
            }
        }
    }
    found
}
