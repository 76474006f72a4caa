//! Channels of a picture in the reverse order, and another mean or standard deviation per channel.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::number::Short;
use crate::recipe::{Binary, Form, Leaf, Op, Operand};
use crate::replay::{Array, Change, NewOperand};

/// Channels of a picture without transparency.
const CHANNELS: usize = 3;
/// Means that models use, with the standard deviations that belong to them.
const STATISTICS: [(&str, [f64; CHANNELS], [f64; CHANNELS]); 5] = [
    ("one half", [0.5; 3], [0.5; 3]),
    ("ImageNet", [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ("CLIP", [0.481_454_66, 0.457_827_5, 0.408_210_73], [0.268_629_54, 0.261_302_58, 0.275_777_11]),
    ("COCO", [0.471, 0.448, 0.408], [0.234, 0.239, 0.242]),
    ("none", [0.0; 3], [1.0; 3]),
];

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = reversed(stage, node);
    found.extend(other_statistics(stage, node));
    found
}

/// The channels of an operand that the stage starts from in the reverse order, as BGR is that of RGB.
fn reversed(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (at, operand) in stage.operands(node) {
        let shape = stage.shape(operand);
        if stage.is_computed(operand) || stage.weight(operand).is_some() || shape.len() < 3 {
            continue;
        }
        for axis in (0..shape.len()).filter(|axis| shape[*axis] == CHANNELS) {
            let mut new = Expression::default();
            let turned = new.add(Op::Form(Form::Flip { axes: vec![axis] }), vec![NewOperand::Old(operand)]);
            let mut inputs: Vec<NewOperand> =
                stage.node(node).inputs.iter().copied().map(Into::into).collect();
            inputs[at] = turned;
            let result = new.add(stage.op(node).clone(), inputs);
            let text = format!("the channels of {} in the reverse order, as BGR", stage.name(operand));
            found.push(Candidate::new(CauseKind::Position, 2, new.replaces(node, result), text));
        }
    }
    found
}

/// Another mean, another standard deviation, or both.
fn other_statistics(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Some((function, at, own)) = per_channel(stage, node) else { return Vec::new() };
    let is_mean = matches!(function, Binary::Sub | Binary::Add);
    let what = if is_mean { "mean" } else { "standard deviation" };
    // The reference may subtract a mean or add its opposite, and divide or multiply by the inverse.
    let numbers = |of: [f64; CHANNELS]| match function {
        Binary::Add => of.map(|x| -x),
        Binary::Mul => of.map(f64::recip),
        _ => of,
    };
    let mut found = Vec::new();
    let mut backwards = of_channels(&own);
    backwards.reverse();
    let mut push = |new: [f64; CHANNELS], cost: u8, text: String| {
        if let Some(change) = with_numbers(stage, node, at, &own, new) {
            found.push(Candidate { kind: CauseKind::Constant, cost, node, changes: vec![change], text });
        }
    };
    push(backwards, 1, format!("the {what} of the channels in the reverse order"));
    for (name, mean, deviation) in STATISTICS {
        let new = if is_mean { mean } else { deviation };
        push(numbers(new), 1, format!("the {what} {} ({name})", listed(new)));
        push(numbers(new.map(|x| x * 255.0)), 2, format!("the {what} {} ({name}, times 255)", listed(new)));
    }
    found.extend(both(stage, node, function, at, &own));
    found
}

/// Mean and standard deviation of another model.
fn both(stage: &Stage, node: usize, function: Binary, at: usize, own: &Array) -> Vec<Candidate> {
    if function != Binary::Div || at != 1 {
        return Vec::new();
    }
    let Some((_, centred)) = stage.operands(node).next().filter(|(at, x)| *at == 0 && stage.is_computed(*x))
    else {
        return Vec::new();
    };
    let Some((Binary::Sub, 1, mean_of)) = per_channel(stage, centred) else { return Vec::new() };
    (STATISTICS.into_iter())
        .filter_map(|(name, mean, deviation)| {
            let changes = vec![
                with_numbers(stage, centred, 1, &mean_of, mean)?,
                with_numbers(stage, node, 1, own, deviation)?,
            ];
            let (mean, deviation) = (listed(mean), listed(deviation));
            let text = format!("the mean {mean} and the standard deviation {deviation} ({name})");
            Some(Candidate { kind: CauseKind::Constant, cost: 2, node, changes, text })
        })
        .collect()
}

/// A sum or product of an operand with one constant number per channel: the function, the position of the constant, its value.
fn per_channel(stage: &Stage, node: usize) -> Option<(Binary, usize, Array)> {
    let Op::Binary(function @ (Binary::Sub | Binary::Add | Binary::Mul | Binary::Div)) = *stage.op(node)
    else {
        return None;
    };
    stage.node(node).inputs.iter().enumerate().find_map(|(at, operand)| {
        let Operand::Node(operand) = *operand else { return None };
        let value = stage.value(operand).filter(|value| !value.is_complex() && value.len() == CHANNELS)?;
        let is_given = !depends_on_input(stage, operand);
        is_given.then_some((function, at, value))
    })
}

/// Whether a node is an input, a golden, or computed from one.
fn depends_on_input(stage: &Stage, node: usize) -> bool {
    match stage.op(node) {
        Op::Leaf(Leaf::Input { .. }) => true,
        Op::Leaf(_) => false,
        _ if !stage.is_computed(node) => true,
        _ => stage.operands(node).any(|(_, operand)| depends_on_input(stage, operand)),
    }
}

/// The change that puts other numbers in place of a constant.
fn with_numbers(stage: &Stage, node: usize, at: usize, own: &Array, new: [f64; CHANNELS]) -> Option<Change> {
    if of_channels(own) == new {
        return None;
    }
    let mut expression = Expression::default();
    let table = Leaf::Table { shape: own.shape().to_vec(), numbers: new.to_vec().into() };
    let mut inputs: Vec<NewOperand> = stage.node(node).inputs.iter().copied().map(Into::into).collect();
    inputs[at] = expression.add(Op::Leaf(table), Vec::new());
    let result = expression.add(stage.op(node).clone(), inputs);
    Some(expression.replaces(node, result))
}

fn of_channels(value: &Array) -> [f64; CHANNELS] {
    let numbers = value.values();
    [numbers[0], numbers[1], numbers[2]]
}

fn listed(numbers: [f64; CHANNELS]) -> String {
    numbers.map(|number| Short(number).to_string()).join(", ")
}
