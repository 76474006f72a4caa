//! Operations in another order.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::recipe::Op;
use crate::replay::{Change, NewOperand};

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

/// The most operations that one is moved across.
const FARTHEST: usize = 3;

/// The most ways back from a node that are followed.
const MOST_PATHS: usize = 64;

/// An operation that comes several operations earlier or later. All of them keep the shape.
pub(super) fn far_candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut paths: Vec<Vec<(usize, usize)>> = stage.operands(node).map(|(at, _)| vec![(node, at)]).collect();
    for _ in 0..MOST_PATHS {
        let Some(path) = paths.pop() else { break };
        let Some(&(last, at)) = path.last() else { continue };
        let Some((_, source)) = stage.operands(last).find(|(other, _)| *other == at) else { continue };
        if stage.shape(source) != stage.shape(node) {
            continue;
        }
        if path.len() > 2 && !matches!(stage.op(last), Op::Cast { .. }) {
            let (first, moved) = (stage.op(last).name(), stage.op(node).name());
            // From the source to the node: the first becomes the last, or the last becomes the first.
            let later: Vec<_> = path[..path.len() - 1].iter().rev().chain(path.last()).copied().collect();
            let text = format!("`{first}` after `{moved}` in place of before");
            found.push(Candidate::new(CauseKind::Order, 3, applied(stage, node, source, &later), text));
            let earlier: Vec<_> = path[..1].iter().chain(path[1..].iter().rev()).copied().collect();
            let text = format!("`{moved}` before `{first}` in place of after it");
            found.push(Candidate::new(CauseKind::Order, 3, applied(stage, node, source, &earlier), text));
        }
        if path.len() <= FARTHEST && stage.is_computed(source) {
            paths.extend(stage.operands(source).map(|(at, _)| [&path[..], &[(source, at)]].concat()));
        }
    }
    found
}

/// The operations applied to `source` in this order, each through the given operand.
fn applied(stage: &Stage, node: usize, source: usize, order: &[(usize, usize)]) -> Change {
    let mut new = Expression::default();
    let mut value = NewOperand::Old(source);
    for &(of, at) in order {
        let mut inputs: Vec<NewOperand> =
            stage.node(of).inputs.iter().copied().map(NewOperand::from).collect();
        inputs[at] = value;
        value = new.add(stage.op(of).clone(), inputs);
    }
    new.replaces(node, value)
}
