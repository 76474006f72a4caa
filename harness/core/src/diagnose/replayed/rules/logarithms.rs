//! A logarithm of another base, or with another guard against zeros.

use std::f64::consts::{LN_2, LN_10};

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::number::Short;
use crate::recipe::{Binary, Op, Operand, Unary};
use crate::replay::{Change, NewOperand};

/// Guards that front-ends use. The one from 2^-24 is that of NeMo, the one from 2^-23 is the epsilon of float32.
const GUARDS: [f64; 14] = [
    0.0,
    1e-12,
    1e-10,
    1e-9,
    1e-8,
    1e-7,
    1e-6,
    1e-5,
    1e-4,
    1e-3,
    1e-2,
    1.0,
    1.0 / 16_777_216.0,
    1.0 / 8_388_608.0,
];

/// Factors of a natural logarithm, with the names of what they make of it.
const BASES: [(f64, &str); 5] = [
    (1.0, "the natural logarithm"),
    (1.0 / LN_10, "the logarithm to base 10"),
    (1.0 / LN_2, "the logarithm to base 2"),
    (10.0 / LN_10, "decibels of a power"),
    (20.0 / LN_10, "decibels of an amplitude"),
];

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = bases(stage, node);
    found.extend(guards(stage, node));
    found
}

/// A logarithm to another base.
fn bases(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Some((log, own)) = scaled(stage, node) else { return Vec::new() };
    // A plain logarithm that is scaled afterwards is proposed there.
    let is_scaled = own == 1.0 && stage.users(node).any(|user| scaled(stage, user).is_some());
    let Some((_, name)) = BASES.iter().find(|(factor, _)| (factor / own - 1.0).abs() < 1e-6) else {
        return Vec::new();
    };
    if is_scaled {
        return Vec::new();
    }
    let of_log = if matches!(stage.op(log), Op::Unary(Unary::Log2)) { 1.0 / LN_2 } else { 1.0 };
    let others = BASES.iter().filter(|(_, other)| other != name);
    others
        .map(|(factor, other)| {
            let inputs = vec![NewOperand::Old(log), NewOperand::Number(factor / of_log)];
            let change = Change::node(node, Op::Binary(Binary::Mul), inputs);
            Candidate::new(CauseKind::Function, 0, change, format!("{other} in place of {name}"))
        })
        .collect()
}

/// A logarithm that is multiplied or divided by a number: the node of the logarithm, and the factor of the natural one.
fn scaled(stage: &Stage, node: usize) -> Option<(usize, f64)> {
    let plain = |node: usize| match stage.op(node) {
        Op::Unary(Unary::Log) => Some(1.0),
        Op::Unary(Unary::Log2) => Some(1.0 / LN_2),
        _ => None,
    };
    if let Some(factor) = plain(node) {
        return Some((node, factor));
    }
    let Op::Binary(function) = *stage.op(node) else { return None };
    match (function, &stage.node(node).inputs[..]) {
        (Binary::Div, &[Operand::Node(log), Operand::Number(by)]) if by != 0.0 => {
            Some((log, plain(log)? / by))
        }
        (
            Binary::Mul,
            &[Operand::Node(log), Operand::Number(by)] | &[Operand::Number(by), Operand::Node(log)],
        ) => {
            let (inner, factor) = scaled(stage, log)?;
            // Of a scaled logarithm, the outer factor is replaced with the inner one.
            Some((inner, factor * by))
        }
        _ => None,
    }
}

/// Another guard: a smallest value, or a number that is added.
fn guards(stage: &Stage, node: usize) -> Vec<Candidate> {
    if !matches!(stage.op(node), Op::Unary(Unary::Log | Unary::Log2)) {
        return Vec::new();
    }
    let Some((_, guard)) = stage.operands(node).next().filter(|(_, guard)| stage.is_computed(*guard)) else {
        return Vec::new();
    };
    let Some((x, is_added, own)) = guarded(stage, guard) else { return Vec::new() };
    let mut found = Vec::new();
    for added in [false, true] {
        for number in GUARDS.into_iter().filter(|number| *number != own || added != is_added) {
            let words = |is_added: bool, number: f64| match is_added {
                true => format!("x + {}", Short(number)),
                false => format!("max(x, {})", Short(number)),
            };
            let text = format!("`log({})` in place of `log({})`", words(added, number), words(is_added, own));
            let function = if added { Binary::Add } else { Binary::Maximum };
            let mut new = Expression::default();
            let inside = new.add(Op::Binary(function), vec![NewOperand::Old(x), NewOperand::Number(number)]);
            let result = new.add(stage.op(node).clone(), vec![inside]);
            let kind = if added == is_added { CauseKind::Constant } else { CauseKind::Function };
            found.push(Candidate::new(kind, 1, new.replaces(node, result), text));
        }
    }
    found
}

/// What a guard is applied to, whether its number is added, and the number.
fn guarded(stage: &Stage, node: usize) -> Option<(usize, bool, f64)> {
    match (stage.op(node), &stage.node(node).inputs[..]) {
        (Op::Unary(Unary::Clamp { min: Some(min), max: None }), &[Operand::Node(x)]) => {
            Some((x, false, *min))
        }
        (
            Op::Binary(function @ (Binary::Maximum | Binary::Add)),
            &[Operand::Node(x), Operand::Number(number)] | &[Operand::Number(number), Operand::Node(x)],
        ) => Some((x, *function == Binary::Add, number)),
        _ => None,
    }
}
