//! Another pairing of features in rotary embeddings: with the other half in place of the neighbour, or the reverse.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::recipe::{Form, Op};
use crate::replay::NewOperand;

/// A tensor of the stage is put in the order of the other pairing, and the result is put back. Only the target proposes this.
pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    if node != stage.target {
        return Vec::new();
    }
    let shape = stage.shape(node).to_vec();
    let Some(&width) = shape.last().filter(|width| **width >= 4 && width.is_multiple_of(2)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let sources = stage.nodes().iter().copied().filter(|source| {
        *source != node && stage.shape(*source).last() == Some(&width) && stage.shape(*source).len() >= 2
    });
    for source in sources.take(12) {
        for (first, text) in [
            (2, "features paired as neighbours in place of halves"),
            (width / 2, "features paired as halves in place of neighbours"),
        ] {
            let second = width / first;
            let mut before = Expression::default();
            let value = turned(&mut before, NewOperand::Base(source), stage.shape(source), second, first);
            let mut after = Expression::default();
            let inputs = stage.node(node).inputs.iter().copied().map(Into::into).collect();
            let result = after.add(stage.op(node).clone(), inputs);
            let result = turned(&mut after, result, &shape, first, second);
            let changes = vec![before.replaces(source, value), after.replaces(node, result)];
            found.push(Candidate { kind: CauseKind::Axis, cost: 4, node, changes, text: text.to_owned() });
        }
    }
    found
}

/// Splits the last axis into (a, b), and reads it in the order (b, a).
fn turned(new: &mut Expression, x: NewOperand, shape: &[usize], a: usize, b: usize) -> NewOperand {
    let lead = &shape[..shape.len() - 1];
    let split: Vec<usize> = lead.iter().copied().chain([a, b]).collect();
    let rank = split.len();
    let value = new.add(Op::Form(Form::Reshape { shape: split }), vec![x]);
    let axes = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
    let value = new.add(Op::Form(Form::Permute { axes }), vec![value]);
    new.add(Op::Form(Form::Reshape { shape: shape.to_vec() }), vec![value])
}
