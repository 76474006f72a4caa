//! Another axis, another order of axes, or another way to split and merge axes.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::recipe::{Binary, Form, Lookup, Normalizer, Op, Product};
use crate::replay::{Change, NewOperand};

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = other_axis(stage, node);
    found.extend(permuted(stage, node));
    found.extend(split_and_merged(stage, node));
    found.extend(norm_along(stage, node));
    found.extend(over_more_axes(stage, node));
    found.extend(repeated_heads(stage, node));
    found
}

/// The operation along another axis.
fn other_axis(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Some((_, x)) = stage.operands(node).next() else { return Vec::new() };
    let rank = stage.shape(x).len();
    let op = stage.op(node);
    let along = |axis: usize| -> Option<Op> {
        Some(match op.clone() {
            Op::Normalize(Normalizer::Softmax { .. }) => Op::Normalize(Normalizer::Softmax { axis }),
            Op::Normalize(Normalizer::LogSoftmax { .. }) => Op::Normalize(Normalizer::LogSoftmax { axis }),
            Op::Normalize(Normalizer::L2Normalize { eps, .. }) => {
                Op::Normalize(Normalizer::L2Normalize { axis, eps })
            }
            Op::Reduce { function, axes, keep } if axes.len() == 1 => {
                Op::Reduce { function, axes: vec![axis], keep }
            }
            Op::Cumsum { .. } => Op::Cumsum { axis },
            Op::Topk { k, largest, output, .. } => Op::Topk { k, axis, largest, output },
            Op::Sort { descending, output, .. } => Op::Sort { axis, descending, output },
            Op::Lookup(Lookup::Take { .. }) => Op::Lookup(Lookup::Take { axis }),
            Op::Lookup(Lookup::Gather { .. }) => Op::Lookup(Lookup::Gather { axis }),
            Op::Form(Form::Cat { .. }) => Op::Form(Form::Cat { axis }),
            Op::Form(Form::Stack { .. }) => Op::Form(Form::Stack { axis }),
            Op::Form(Form::RepeatInterleave { repeats, .. }) => {
                Op::Form(Form::RepeatInterleave { repeats, axis })
            }
            Op::Form(Form::Flip { axes }) if axes.len() == 1 => Op::Form(Form::Flip { axes: vec![axis] }),
            Op::Form(Form::Roll { shifts, axes }) if axes.len() == 1 => {
                Op::Form(Form::Roll { shifts, axes: vec![axis] })
            }
            Op::Form(Form::Slice(slice)) => Op::Form(Form::Slice(crate::recipe::Slice { axis, ..slice })),
            _ => return None,
        })
    };
    (0..rank + usize::from(matches!(op, Op::Form(Form::Stack { .. }))))
        .filter_map(along)
        .filter(|other| other != op)
        .map(|other| {
            let text = format!("`{}` along another axis", op.name());
            Candidate::new(CauseKind::Axis, 2, Change::op(stage.recipe, node, other), text)
        })
        .collect()
}

/// Axes in another order: in a permutation, in an operand of a product, or in a result.
fn permuted(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    if let Op::Form(Form::Permute { axes: own }) = stage.op(node) {
        for axes in orders(own.len()).into_iter().filter(|axes| axes != own) {
            let change = Change::op(stage.recipe, node, Op::Form(Form::Permute { axes }));
            found.push(Candidate::new(
                CauseKind::Axis,
                2,
                change,
                "axes in another order in `permute`".to_owned(),
            ));
        }
    }
    // A matrix that is not transposed, or transposed once too often.
    if matches!(stage.op(node), Op::Product(Product::Matmul | Product::Conv { .. })) {
        for (at, operand) in stage.operands(node) {
            let rank = stage.shape(operand).len();
            if rank < 2 || stage.weight(operand).is_some() {
                continue;
            }
            let mut new = Expression::default();
            let axes = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
            let turned = new.add(Op::Form(Form::Permute { axes }), vec![NewOperand::Old(operand)]);
            let mut inputs: Vec<NewOperand> =
                stage.node(node).inputs.iter().copied().map(Into::into).collect();
            inputs[at] = turned;
            let result = new.add(stage.op(node).clone(), inputs);
            let text = format!("{} transposed in `{}`", stage.name(operand), stage.op(node).name());
            found.push(Candidate::new(CauseKind::Axis, 2, new.replaces(node, result), text));
        }
    }
    // The result itself, with two axes exchanged.
    let shape = stage.shape(node).to_vec();
    for a in 0..shape.len() {
        for b in a + 1..shape.len() {
            if shape[a] == 1 && shape[b] == 1 || node != stage.target && shape[a] != shape[b] {
                continue;
            }
            let mut axes: Vec<usize> = (0..shape.len()).collect();
            axes.swap(a, b);
            let mut new = Expression::default();
            let turned = new.add(Op::Form(Form::Permute { axes }), vec![NewOperand::Old(node)]);
            // The elements are then read as if no axes had been exchanged.
            let result = new.add(Op::Form(Form::Reshape { shape: shape.clone() }), vec![turned]);
            let text = format!("axes {a} and {b} of the result of `{}` exchanged", stage.op(node).name());
            found.push(Candidate::new(CauseKind::Axis, 4, new.replaces(node, result), text));
        }
    }
    found
}

/// Every order of up to four axes. For more axes, every exchange of two of them.
fn orders(rank: usize) -> Vec<Vec<usize>> {
    if rank > 4 {
        let same: Vec<usize> = (0..rank).collect();
        let pairs = (0..rank).flat_map(|a| (a + 1..rank).map(move |b| (a, b)));
        return pairs
            .map(|(a, b)| {
                let mut order = same.clone();
                order.swap(a, b);
                order
            })
            .chain([same.clone()])
            .collect();
    }
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for axis in 0..rank {
        let longer = orders.into_iter().flat_map(|order| {
            (0..=order.len()).map(move |at| {
                let mut longer = order.clone();
                longer.insert(at, axis);
                longer
            })
        });
        orders = longer.collect();
    }
    orders
}

/// An axis that is split as (b, a) in place of (a, b), or merged in that order. This exchanges, for example, heads and their
/// features.
fn split_and_merged(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Op::Form(Form::Reshape { shape: to }) = stage.op(node) else { return Vec::new() };
    let Some((_, x)) = stage.operands(node).next() else { return Vec::new() };
    let from = stage.shape(x);
    let mut found = Vec::new();
    let mut push = |new: Expression, result: NewOperand, text: &str| {
        found.push(Candidate::new(CauseKind::Axis, 3, new.replaces(node, result), text.to_owned()));
    };
    let x = NewOperand::Old(x);
    for axis in 0..to.len().saturating_sub(1) {
        let (a, b) = (to[axis], to[axis + 1]);
        if a == 1 || b == 1 {
            continue;
        }
        let mut new = Expression::default();
        let mut shape = to.clone();
        shape.swap(axis, axis + 1);
        let split = new.add(Op::Form(Form::Reshape { shape }), vec![x]);
        let mut axes: Vec<usize> = (0..to.len()).collect();
        axes.swap(axis, axis + 1);
        let result = new.add(Op::Form(Form::Permute { axes }), vec![split]);
        push(new, result, &format!("an axis split as ({b}, {a}) in place of ({a}, {b})"));
        for (more, fewer) in [(a * 2, b / 2), (a / 2, b * 2)] {
            if more * fewer == a * b {
                let mut shape = to.clone();
                (shape[axis], shape[axis + 1]) = (more, fewer);
                let mut new = Expression::default();
                let result = new.add(Op::Form(Form::Reshape { shape }), vec![x]);
                push(new, result, &format!("an axis split as ({more}, {fewer}) in place of ({a}, {b})"));
            }
        }
    }
    // More than two new axes, in any order.
    let same = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    if to.len() > same + 2 && to.len() <= same + 5 {
        for order in orders(to.len() - same) {
            let axes: Vec<usize> = (0..same).chain(order.iter().map(|axis| same + axis)).collect();
            let shape: Vec<usize> = axes.iter().map(|&axis| to[axis]).collect();
            let mut back = vec![0; axes.len()];
            axes.iter().enumerate().for_each(|(at, &axis)| back[axis] = at);
            let mut new = Expression::default();
            let split = new.add(Op::Form(Form::Reshape { shape }), vec![x]);
            let result = new.add(Op::Form(Form::Permute { axes: back }), vec![split]);
            push(new, result, "an axis split in another order");
        }
    }
    for axis in 0..from.len().saturating_sub(1) {
        let (a, b) = (from[axis], from[axis + 1]);
        if a == 1 || b == 1 {
            continue;
        }
        let mut new = Expression::default();
        let mut axes: Vec<usize> = (0..from.len()).collect();
        axes.swap(axis, axis + 1);
        let turned = new.add(Op::Form(Form::Permute { axes }), vec![x]);
        let result = new.add(Op::Form(Form::Reshape { shape: to.clone() }), vec![turned]);
        push(new, result, &format!("axes ({a}, {b}) merged as ({b}, {a})"));
    }
    found
}

/// A norm along another axis than the last ones.
fn norm_along(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Op::Normalize(
        function @ (Normalizer::LayerNorm { rank: 1, .. } | Normalizer::RmsNorm { rank: 1, .. }),
    ) = *stage.op(node)
    else {
        return Vec::new();
    };
    let Some((_, x)) = stage.operands(node).next() else { return Vec::new() };
    let rank = stage.shape(x).len();
    let mut found = Vec::new();
    for axis in 0..rank.saturating_sub(1) {
        let mut axes: Vec<usize> = (0..rank).collect();
        axes.swap(axis, rank - 1);
        let mut new = Expression::default();
        let turned = new.add(Op::Form(Form::Permute { axes: axes.clone() }), vec![NewOperand::Old(x)]);
        let mut inputs: Vec<NewOperand> = stage.node(node).inputs.iter().copied().map(Into::into).collect();
        inputs[0] = turned;
        let normed = new.add(Op::Normalize(function), inputs);
        let result = new.add(Op::Form(Form::Permute { axes }), vec![normed]);
        let text = format!("`{}` along axis {axis} in place of the last one", function.name());
        found.push(Candidate::new(CauseKind::Axis, 2, new.replaces(node, result), text));
    }
    found
}

/// Key heads that are repeated as a whole (0, 1, 0, 1) in place of one by one (0, 0, 1, 1).
fn repeated_heads(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Op::Product(Product::Attention { scale, causal, groups, mask }) = *stage.op(node) else {
        return Vec::new();
    };
    if groups < 2 {
        return Vec::new();
    }
    let mut new = Expression::default();
    let mut inputs: Vec<NewOperand> = stage.node(node).inputs.iter().copied().map(Into::into).collect();
    for (at, operand) in stage.operands(node).filter(|(at, _)| *at == 1 || *at == 2) {
        let rank = stage.shape(operand).len();
        let times = (0..rank).map(|axis| if axis + 3 == rank { groups } else { 1 }).collect();
        inputs[at] = new.add(Op::Form(Form::Tile { times }), vec![NewOperand::Old(operand)]);
    }
    let op = Op::Product(Product::Attention { scale, causal, groups: 1, mask });
    let result = new.add(op, inputs);
    let text = "key heads repeated as a whole in place of one by one".to_owned();
    vec![Candidate::new(CauseKind::Axis, 2, new.replaces(node, result), text)]
}

/// A norm, or a reduction inside a norm, over more or fewer axes.
fn over_more_axes(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Some((_, x)) = stage.operands(node).next() else { return Vec::new() };
    let rank = stage.shape(x).len();
    let mut found = Vec::new();
    match stage.op(node).clone() {
        Op::Reduce { function, axes: own, keep: true } => {
            for count in 1..=rank {
                let axes: Vec<usize> = (rank - count..rank).collect();
                if axes != own {
                    let op = Op::Reduce { function, axes, keep: true };
                    let text = format!("`{}` over the last {count} axes", function.name());
                    found.push(Candidate::new(CauseKind::Axis, 2, Change::op(stage.recipe, node, op), text));
                }
            }
        }
        // One number of the whole tensor, in place of one per row.
        Op::Reduce { function, axes: own, keep: false } if own.len() == rank && rank > 1 => {
            for axis in 0..rank {
                let op = Op::Reduce { function, axes: vec![axis], keep: true };
                let text = format!("`{}` along axis {axis} in place of all axes", function.name());
                found.push(Candidate::new(CauseKind::Axis, 2, Change::op(stage.recipe, node, op), text));
            }
        }
        Op::Normalize(function @ (Normalizer::LayerNorm { .. } | Normalizer::RmsNorm { .. })) => {
            for count in 1..=rank {
                let plain = match function {
                    Normalizer::LayerNorm { rank, eps } if rank != count => {
                        Normalizer::LayerNorm { rank: count, eps }
                    }
                    Normalizer::RmsNorm { rank, eps } if rank != count => {
                        Normalizer::RmsNorm { rank: count, eps }
                    }
                    _ => continue,
                };
                let mut new = Expression::default();
                let operands: Vec<NewOperand> =
                    stage.node(node).inputs.iter().copied().map(NewOperand::from).collect();
                let absent = operands.iter().skip(1).map(|_| NewOperand::Absent);
                let mut value =
                    new.add(Op::Normalize(plain), operands[..1].iter().copied().chain(absent).collect());
                for (at, function) in [(1, Binary::Mul), (2, Binary::Add)] {
                    if let Some(&operand) = operands.get(at).filter(|operand| **operand != NewOperand::Absent)
                    {
                        value = new.add(Op::Binary(function), vec![value, operand]);
                    }
                }
                let text = format!("`{}` over the last {count} axes", function.name());
                found.push(Candidate::new(CauseKind::Axis, 2, new.replaces(node, value), text));
            }
        }
        _ => {}
    }
    found
}
