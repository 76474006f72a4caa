//! Operands in another order.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use super::chain::Chain;
use crate::diagnose::CauseKind;
use crate::recipe::{Binary, Complex, Form, Op, Operand, Product, Slice};
use crate::replay::{Change, NewOperand};

/// The most parts of a tensor that are exchanged with each other.
const PARTS: usize = 8;

/// How many parts a weight has, and how many of them are a group. In each group the same two parts are exchanged.
const WEIGHT_PARTS: [(usize, usize); 7] = [(2, 2), (3, 3), (4, 4), (6, 6), (4, 2), (6, 3), (6, 2)];

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = reordered(stage, node);
    found.extend(gate(stage, node));
    found.extend(parts(stage, node));
    found.extend(everywhere(stage, node));
    found.extend(parts_of_weight(stage, node));
    found
}

/// Two equal parts of a weight exchanged, while the bias stays, such as shift and scale of a fused projection. A projection for
/// attention and MLP has a group of three parts for each.
fn parts_of_weight(stage: &Stage, node: usize) -> Vec<Candidate> {
    if !matches!(stage.op(node), Op::Product(Product::Linear)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, weight) in stage.operands(node).filter(|(at, _)| *at > 0) {
        let (Some(name), Some(&rows)) = (stage.weight(weight), stage.shape(weight).first()) else { continue };
        let fits = |(count, _): &(usize, usize)| rows.is_multiple_of(*count) && rows > *count;
        for (count, group) in WEIGHT_PARTS.into_iter().filter(fits) {
            let pairs = (0..group).flat_map(|a| (a + 1..group).map(move |b| (a, b)));
            for (a, b) in pairs {
                let mut new = Expression::default();
                let mut order: Vec<usize> = (0..count).collect();
                order.chunks_exact_mut(group).for_each(|parts| parts.swap(a, b));
                let part = rows / count;
                let parts = order.into_iter().map(|at| {
                    let slice = Slice { axis: 0, start: at * part, end: (at + 1) * part, step: 1 };
                    new.add(Op::Form(Form::Slice(slice)), vec![NewOperand::Old(weight)])
                });
                let parts = parts.collect();
                let joined = new.add(Op::Form(Form::Cat { axis: 0 }), parts);
                let mut inputs: Vec<NewOperand> =
                    stage.node(node).inputs.iter().copied().map(Into::into).collect();
                inputs[at] = joined;
                let result = new.add(stage.op(node).clone(), inputs);
                let groups = if group < count { format!(", in groups of {group}") } else { String::new() };
                let text = format!("parts {a} and {b} of {count} of `{name}` exchanged{groups}");
                found.push(Candidate::new(CauseKind::Exchanged, 3, new.replaces(node, result), text));
            }
        }
    }
    found
}

/// The operands of one operation in another order.
fn reordered(stage: &Stage, node: usize) -> Vec<Candidate> {
    let inputs: Vec<NewOperand> = stage.node(node).inputs.iter().copied().map(Into::into).collect();
    let op = stage.op(node);
    let mut orders: Vec<Vec<usize>> = Vec::new();
    match op {
        Op::Binary(
            Binary::Add | Binary::Mul | Binary::Maximum | Binary::Minimum | Binary::Eq | Binary::Ne,
        ) => {}
        Op::Binary(_) | Op::Product(Product::Matmul) | Op::Complex(Complex::Complex | Complex::Polar) => {
            orders.push(vec![1, 0]);
        }
        Op::Where => orders.push(vec![0, 2, 1]),
        Op::Product(Product::Attention { .. }) => {
            for [a, b] in [[0, 1], [1, 2], [0, 2]] {
                let mut order: Vec<usize> = (0..inputs.len()).collect();
                order.swap(a, b);
                orders.push(order);
            }
        }
        Op::Form(Form::Cat { .. } | Form::Stack { .. }) if inputs.len() <= 8 => {
            let same: Vec<usize> = (0..inputs.len()).collect();
            for a in 0..inputs.len() {
                for b in a + 1..inputs.len() {
                    let mut order = same.clone();
                    order.swap(a, b);
                    orders.push(order);
                }
                let mut order = same.clone();
                order.rotate_left(a);
                orders.push(order);
            }
            orders.push(same.iter().rev().copied().collect());
        }
        _ => {}
    }
    let same: Vec<usize> = (0..inputs.len()).collect();
    let orders = orders.into_iter().filter(|order| *order != same);
    let with = |order: Vec<usize>| {
        let inputs = order.iter().map(|&at| inputs[at]).collect();
        let text = format!("the operands of `{}` exchanged", op.name());
        let kind = if *op == Op::Where { CauseKind::MaskChange } else { CauseKind::Exchanged };
        Candidate::new(kind, 2, Change::node(node, op.clone(), inputs), text)
    };
    orders.map(with).collect()
}

/// A function of one factor that is applied to the other: `f(b) * a` in place of `f(a) * b`.
fn gate(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Op::Binary(function) = *stage.op(node) else { return Vec::new() };
    let operands: Vec<usize> = stage.operands(node).map(|(_, operand)| operand).collect();
    let [a, b] = operands[..] else { return Vec::new() };
    let mut found = Vec::new();
    for (gated, other) in [(a, b), (b, a)] {
        let Some(chain) = Chain::ending_in(stage, gated) else { continue };
        if stage.shape(chain.source) != stage.shape(other) {
            continue;
        }
        let mut new = Expression::default();
        let result = chain.of(stage, NewOperand::Old(other), &mut new);
        let result = new.add(Op::Binary(function), vec![result, NewOperand::Old(chain.source)]);
        let text = format!(
            "`{}` applied to {} in place of {}",
            stage.op(gated).name(),
            stage.name(other),
            stage.name(chain.source)
        );
        found.push(Candidate::new(CauseKind::Exchanged, 2, new.replaces(node, result), text));
    }
    found
}

/// Parts of one tensor exchanged with each other, such as shift and scale.
fn parts(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Op::Form(Form::Slice(own)) = *stage.op(node) else { return Vec::new() };
    let Some((_, source)) = stage.operands(node).next() else { return Vec::new() };
    let length = own.end - own.start;
    let slices: Vec<(usize, Slice)> = (stage.computed.iter())
        .filter_map(|&other| match *stage.op(other) {
            Op::Form(Form::Slice(slice))
                if slice.axis == own.axis
                    && slice.end - slice.start == length
                    && slice.step == own.step
                    && stage.node(other).inputs == [Operand::Node(source)] =>
            {
                Some((other, slice))
            }
            _ => None,
        })
        .take(PARTS)
        .collect();
    let mut found = Vec::new();
    let put = |(node, _): (usize, Slice), (_, slice): (usize, Slice)| {
        Change::op(stage.recipe, node, Op::Form(Form::Slice(slice)))
    };
    for &other in slices.iter().filter(|(other, _)| *other < node) {
        let changes = vec![put((node, own), other), put(other, (node, own))];
        let text = format!("two parts of {} exchanged", stage.name(source));
        found.push(Candidate { kind: CauseKind::Exchanged, cost: 2, node, changes, text });
    }
    // All parts are moved on by one or more places. Only the last part proposes this, so that it is tried once.
    if slices.len() > 2 && slices.iter().all(|(other, _)| *other <= node) {
        for by in 1..slices.len() {
            let moved =
                slices.iter().enumerate().map(|(at, &slice)| put(slice, slices[(at + by) % slices.len()]));
            let text = format!("the parts of {} in another order", stage.name(source));
            found.push(Candidate {
                kind: CauseKind::Exchanged,
                cost: 3,
                node,
                changes: moved.collect(),
                text,
            });
        }
    }
    found
}

/// Two tensors of the same shape, such as sine and cosine, exchanged wherever they are used. Only the target proposes this.
fn everywhere(stage: &Stage, node: usize) -> Vec<Candidate> {
    if node != stage.target {
        return Vec::new();
    }
    let known: Vec<usize> = (stage.nodes().iter().copied())
        .filter(|node| {
            !stage.is_computed(*node) || matches!(stage.op(*node), Op::Unary(_) | Op::Form(Form::Slice(_)))
        })
        .filter(|node| !stage.shape(*node).is_empty())
        .collect();
    let mut found = Vec::new();
    for (index, &a) in known.iter().enumerate() {
        for &b in &known[index + 1..] {
            if stage.shape(a) == stage.shape(b)
                && stage.users(a).next().is_some()
                && stage.users(b).next().is_some()
            {
                let changes =
                    vec![Change::value(a, NewOperand::Base(b)), Change::value(b, NewOperand::Base(a))];
                let text = format!("{} and {} exchanged", stage.name(a), stage.name(b));
                let node = stage.users(a).last().unwrap_or(node);
                found.push(Candidate { kind: CauseKind::Exchanged, cost: 2, node, changes, text });
            }
        }
    }
    found
}
