//! Mistakes inside a fused attention: the recipe has one operation, but a port may compute it in steps.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::recipe::{Binary, Form, Leaf, Mask, Normalizer, Op, Product, Reduction, Unary};
use crate::replay::NewOperand;
use crate::tensor::Dtype;

/// What one step of attention does differently.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// Products of queries and keys, rounded before they are scaled. In float16 they overflow.
    Products(Dtype),
    /// Scaled scores, rounded.
    Scores(Dtype),
    /// Probabilities, rounded.
    Probabilities(Dtype),
    /// Probabilities that add up to 1 over the queries.
    OverQueries,
    /// Probabilities that are not divided by their sum.
    NotNormalized,
    /// The scale applied to the probabilities in place of the scores.
    ScaledLate,
}

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Op::Product(Product::Attention { .. }) = stage.op(node) else { return Vec::new() };
    let rounded = [Dtype::Bfloat16, Dtype::Float16].into_iter().flat_map(|dtype| {
        [
            (
                Step::Products(dtype),
                format!("the products of queries and keys rounded to {dtype}, before the scale"),
            ),
            (Step::Scores(dtype), format!("the scores of `attention` rounded to {dtype}")),
            (Step::Probabilities(dtype), format!("the probabilities of `attention` rounded to {dtype}")),
        ]
        .map(|(step, text)| (CauseKind::Precision, 3, step, text))
    });
    let others = [
        (CauseKind::Axis, 2, Step::OverQueries, "the softmax of `attention` over the queries"),
        (
            CauseKind::LeftOut,
            2,
            Step::NotNormalized,
            "the division by the sum in the softmax of `attention` left out",
        ),
        (CauseKind::Order, 3, Step::ScaledLate, "the scale of `attention` applied after the softmax"),
    ];
    let others = others.map(|(kind, cost, step, text)| (kind, cost, step, text.to_owned()));
    let with = |(kind, cost, step, text): (CauseKind, u8, Step, String)| {
        let mut new = Expression::default();
        let result = in_steps(stage, node, step, &mut new)?;
        Some(Candidate::new(kind, cost, new.replaces(node, result), text))
    };
    rounded.chain(others).filter_map(with).collect()
}

/// Attention in steps, one of them changed.
fn in_steps(stage: &Stage, node: usize, changed: Step, new: &mut Expression) -> Option<NewOperand> {
    let Op::Product(Product::Attention { scale, causal, groups, mask }) = *stage.op(node) else {
        return None;
    };
    let inputs: Vec<NewOperand> = stage.node(node).inputs.iter().copied().map(Into::into).collect();
    let shapes: Vec<&[usize]> = stage.operands(node).map(|(_, operand)| stage.shape(operand)).collect();
    let (&[q, k, v, ..], &[q_shape, k_shape, ..]) = (&inputs[..], &shapes[..]) else { return None };
    let rank = k_shape.len();
    if rank < 2 || q_shape.len() != rank || groups > 1 && rank < 3 {
        return None;
    }
    let (queries, keys) = (q_shape[rank - 2], k_shape[rank - 2]);
    let [k, v] = [k, v].map(|x| match groups {
        1 => x,
        repeats => new.add(Op::Form(Form::RepeatInterleave { repeats, axis: rank - 3 }), vec![x]),
    });
    let axes = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
    let turned = new.add(Op::Form(Form::Permute { axes }), vec![k]);
    let mut scores = new.add(Op::Product(Product::Matmul), vec![q, turned]);
    if let Step::Products(dtype) = changed {
        scores = new.add(Op::Cast { dtype }, vec![scores]);
    }
    if changed != Step::ScaledLate {
        scores = new.add(Op::Binary(Binary::Mul), vec![scores, NewOperand::Number(scale)]);
    }
    if let Step::Scores(dtype) = changed {
        scores = new.add(Op::Cast { dtype }, vec![scores]);
    }
    let hidden = NewOperand::Number(f64::NEG_INFINITY);
    match (mask, inputs.get(3)) {
        (Some(Mask::Bool), Some(&mask)) => scores = new.add(Op::Where, vec![mask, scores, hidden]),
        (Some(Mask::Add), Some(&mask)) => scores = new.add(Op::Binary(Binary::Add), vec![scores, mask]),
        _ => {}
    }
    if causal {
        let ones = Op::Leaf(Leaf::Full { shape: vec![queries, keys], value: 1.0 });
        let ones = new.add(ones, Vec::new());
        let seen = new.add(Op::Form(Form::Tril { diagonal: 0 }), vec![ones]);
        scores = new.add(Op::Where, vec![seen, scores, hidden]);
    }
    let softmax = |axis: usize| Op::Normalize(Normalizer::Softmax { axis });
    let mut probabilities = match changed {
        Step::OverQueries => new.add(softmax(rank - 2), vec![scores]),
        Step::NotNormalized => {
            let largest = Op::Reduce { function: Reduction::Max, axes: vec![rank - 1], keep: true };
            let largest = new.add(largest, vec![scores]);
            let moved = new.add(Op::Binary(Binary::Sub), vec![scores, largest]);
            new.add(Op::Unary(Unary::Exp), vec![moved])
        }
        _ => new.add(softmax(rank - 1), vec![scores]),
    };
    match changed {
        Step::Probabilities(dtype) => probabilities = new.add(Op::Cast { dtype }, vec![probabilities]),
        Step::ScaledLate => {
            probabilities = new.add(Op::Binary(Binary::Mul), vec![probabilities, NewOperand::Number(scale)]);
        }
        _ => {}
    }
    Some(new.add(Op::Product(Product::Matmul), vec![probabilities, v]))
}
