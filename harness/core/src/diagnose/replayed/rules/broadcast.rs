//! An operand that is broadcast along other axes, such as angles per head in place of angles per token.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::recipe::{Form, Op};
use crate::replay::NewOperand;

/// The most axes of a result. The number of placements grows fast with them.
const MOST_AXES: usize = 6;

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    if !matches!(stage.op(node), Op::Binary(_) | Op::Where) {
        return Vec::new();
    }
    let result = stage.shape(node);
    if result.len() > MOST_AXES {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, operand) in stage.operands(node) {
        let own = stage.shape(operand);
        let lengths: Vec<usize> = own.iter().copied().filter(|length| *length > 1).collect();
        if lengths.is_empty() || lengths.len() == result.len() {
            continue;
        }
        let now = [&vec![1; result.len().saturating_sub(own.len())][..], own].concat();
        for shape in placements(&lengths, result).into_iter().filter(|shape| *shape != now) {
            let mut new = Expression::default();
            let placed = new.add(Op::Form(Form::Reshape { shape }), vec![NewOperand::Old(operand)]);
            let mut inputs: Vec<NewOperand> =
                stage.node(node).inputs.iter().copied().map(Into::into).collect();
            inputs[at] = placed;
            let changed = new.add(stage.op(node).clone(), inputs);
            let text =
                format!("{} broadcast along other axes in `{}`", stage.name(operand), stage.op(node).name());
            found.push(Candidate::new(CauseKind::Axis, 2, new.replaces(node, changed), text));
        }
    }
    found
}

/// The shapes with these lengths, in this order, at axes of the result that are as long, and 1 elsewhere.
fn placements(lengths: &[usize], result: &[usize]) -> Vec<Vec<usize>> {
    let Some((&length, axes)) = result.split_first() else {
        return if lengths.is_empty() { vec![Vec::new()] } else { Vec::new() };
    };
    let with = |length: usize, rest: Vec<Vec<usize>>| {
        rest.into_iter().map(move |shape| [&[length][..], &shape].concat())
    };
    let mut found: Vec<Vec<usize>> = with(1, placements(lengths, axes)).collect();
    if lengths.first() == Some(&length) {
        found.extend(with(length, placements(&lengths[1..], axes)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::placements;

    #[test]
    fn lengths_are_placed_where_they_fit() {
        assert_eq!(placements(&[6, 8], &[1, 6, 6, 8]), [[1, 1, 6, 8], [1, 6, 1, 8]]);
        assert!(placements(&[6, 8], &[8, 6]).is_empty());
    }
}
