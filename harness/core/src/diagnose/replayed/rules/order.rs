//! Two neighbouring operations in the opposite order.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::recipe::Op;
use crate::replay::NewOperand;

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (at, first) in stage.operands(node) {
        if !stage.is_computed(first) || matches!(stage.op(first), Op::Cast { .. }) {
            continue;
        }
        for (inner_at, source) in stage.operands(first) {
            let operands = |of: usize| -> Vec<NewOperand> {
                stage.node(of).inputs.iter().copied().map(NewOperand::from).collect()
            };
            let mut new = Expression::default();
            let mut inputs = operands(node);
            inputs[at] = NewOperand::Old(source);
            let inner = new.add(stage.op(node).clone(), inputs);
            let mut inputs = operands(first);
            inputs[inner_at] = inner;
            let result = new.add(stage.op(first).clone(), inputs);
            let (before, after) = (stage.op(node).name(), stage.op(first).name());
            let text = format!("`{before}` before `{after}` in place of after it");
            found.push(Candidate::new(CauseKind::Order, 3, new.replaces(node, result), text));
        }
    }
    found
}
