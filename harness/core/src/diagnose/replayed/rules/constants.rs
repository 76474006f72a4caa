//! An operation with another constant.

use std::collections::BTreeSet;

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::number::Short;
use crate::recipe::{Binary, Form, Leaf, Normalizer, Op, Operand, PadMode, Product, Reduction, Unary};
use crate::replay::{Change, NewOperand};

/// Numbers that are tried for eps.
const EPS: [f64; 11] = [0.0, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2];
/// Numbers that occur in models.
const KNOWN: [f64; 25] = [
    0.0,
    1.0,
    2.0,
    3.0,
    0.5,
    -1.0,
    0.044715,
    0.797_884_560_802_865_4,
    std::f64::consts::FRAC_1_SQRT_2,
    1.702,
    10.0,
    20.0,
    30.0,
    50.0,
    100.0,
    1000.0,
    1e4,
    1e5,
    5e5,
    1e6,
    127.5,
    255.0,
    0.18215,
    0.3611,
    0.1159,
];
/// Slopes of a leaky ReLU.
const SLOPES: [f64; 6] = [0.0, 0.01, 0.1, 0.2, 0.25, 0.3];
/// Factors that a port may add by mistake.
const FACTORS: [f64; 6] = [-1.0, 0.5, 2.0, 255.0, 1000.0, 1e-3];

/// The operation with a few other numbers, of those that occur most.
pub(super) fn few_candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let few = |old: f64| vec![1.0, old * 2.0, old / 2.0, -old, old.recip(), old * 1000.0, old / 1000.0];
    let mut found = literals(stage, node, &few);
    found.extend(filled(stage, node, &few));
    found
}

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let of_stage = |old: f64| numbers(stage, old);
    let mut found = literals(stage, node, &of_stage);
    for (op, text) in others(stage, node) {
        let text = format!("{text} in `{}`", stage.op(node).name());
        found.push(Candidate::new(CauseKind::Constant, 2, Change::op(stage.recipe, node, op), text));
    }
    found.extend(added(stage, node));
    found.extend(filled(stage, node, &of_stage));
    found
}

/// A tensor that is filled with another number. The last node that uses the tensor proposes this.
fn filled(stage: &Stage, node: usize, others: &dyn Fn(f64) -> Vec<f64>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (_, operand) in stage.operands(node) {
        let Op::Leaf(Leaf::Full { shape, value }) = stage.op(operand) else { continue };
        if stage.users(operand).next() != Some(node) {
            continue;
        }
        for new in others(*value).into_iter().filter(|new| new.is_finite() && new != value) {
            let op = Op::Leaf(Leaf::Full { shape: shape.clone(), value: new });
            let text = format!("{} in place of {}", Short(new), Short(*value));
            let changes = vec![Change::node(operand, op, Vec::new())];
            found.push(Candidate { kind: CauseKind::Constant, cost: 2, node, changes, text });
        }
    }
    found
}

/// The operation with other attributes. Each comes with a text about the difference.
fn others(stage: &Stage, node: usize) -> Vec<(Op, String)> {
    let instead = |new: f64, old: f64| format!("{} in place of {}", Short(new), Short(old));
    let of_eps = |eps: f64, op: &dyn Fn(f64) -> Normalizer| -> Vec<(Op, String)> {
        let other = EPS.iter().filter(|other| **other != eps);
        other.map(|&other| (Op::Normalize(op(other)), format!("eps {}", instead(other, eps)))).collect()
    };
    match stage.op(node).clone() {
        Op::Normalize(function) => match function {
            Normalizer::LayerNorm { rank, eps } => of_eps(eps, &|eps| Normalizer::LayerNorm { rank, eps }),
            Normalizer::RmsNorm { rank, eps } => of_eps(eps, &|eps| Normalizer::RmsNorm { rank, eps }),
            Normalizer::BatchNorm { eps } => of_eps(eps, &|eps| Normalizer::BatchNorm { eps }),
            Normalizer::L2Normalize { axis, eps } => {
                of_eps(eps, &|eps| Normalizer::L2Normalize { axis, eps })
            }
            Normalizer::GroupNorm { groups, eps } => {
                let mut found = of_eps(eps, &|eps| Normalizer::GroupNorm { groups, eps });
                let channels = stage.operands(node).next().and_then(|(_, x)| stage.shape(x).get(1).copied());
                let channels = channels.unwrap_or(1);
                let counts: BTreeSet<usize> = [1, 2, 4, 8, 16, 32, channels, groups * 2, groups / 2].into();
                for count in counts.into_iter().filter(|count| *count > 0 && *count != groups) {
                    if channels.is_multiple_of(count) {
                        let op = Op::Normalize(Normalizer::GroupNorm { groups: count, eps });
                        found.push((op, format!("{count} groups in place of {groups}")));
                    }
                }
                found
            }
            Normalizer::Softmax { .. } | Normalizer::LogSoftmax { .. } => Vec::new(),
        },
        Op::Product(Product::Attention { scale, causal, groups, mask }) => (numbers(stage, scale)
            .into_iter())
        .map(|new| {
            let op = Product::Attention { scale: new, causal, groups, mask };
            (Op::Product(op), format!("the scale {}", instead(new, scale)))
        })
        .collect(),
        Op::Product(Product::Conv { stride, padding, dilation, groups }) => {
            let mut found = Vec::new();
            let moved: Vec<[usize; 2]> = padding.iter().map(|[a, b]| [a + b, 0]).collect();
            let late: Vec<[usize; 2]> = padding.iter().map(|[a, b]| [0, a + b]).collect();
            for (padding, side) in [(moved, "before"), (late, "after")] {
                let op =
                    Product::Conv { stride: stride.clone(), padding, dilation: dilation.clone(), groups };
                found.push((Op::Product(op), format!("all padding {side} the elements")));
            }
            for new in [1, 2, 3] {
                let op = Product::Conv {
                    stride: stride.clone(),
                    padding: padding.iter().map(|_| [new, new]).collect(),
                    dilation: dilation.iter().map(|_| new).collect(),
                    groups,
                };
                if dilation.iter().any(|old| *old != new) {
                    found.push((Op::Product(op), format!("dilation {new} in place of {}", dilation[0])));
                }
            }
            found
        }
        Op::Unary(Unary::LeakyRelu { slope }) => (SLOPES.iter().filter(|new| **new != slope))
            .map(|&new| {
                (Op::Unary(Unary::LeakyRelu { slope: new }), format!("the slope {}", instead(new, slope)))
            })
            .collect(),
        Op::Unary(Unary::Elu { alpha }) => (numbers(stage, alpha).into_iter())
            .map(|new| (Op::Unary(Unary::Elu { alpha: new }), format!("alpha {}", instead(new, alpha))))
            .collect(),
        Op::Unary(Unary::Clamp { min, max }) => {
            let mut found = vec![];
            for (new_min, new_max) in [(None, max), (min, None), (min.map(|x| x / 2.0), max.map(|x| x / 2.0))]
            {
                if (new_min, new_max) != (min, max) {
                    let op = Op::Unary(Unary::Clamp { min: new_min, max: new_max });
                    found.push((op, "other bounds".to_owned()));
                }
            }
            found
        }
        Op::Reduce { function: Reduction::Var { ddof } | Reduction::Std { ddof }, axes, keep } => {
            let new = if ddof == 0.0 { 1.0 } else { 0.0 };
            let function = match stage.op(node) {
                Op::Reduce { function: Reduction::Std { .. }, .. } => Reduction::Std { ddof: new },
                _ => Reduction::Var { ddof: new },
            };
            vec![(Op::Reduce { function, axes, keep }, format!("ddof {}", instead(new, ddof)))]
        }
        Op::Dequantize { bits, group_size } => ([2, 3, 4, 6, 8].into_iter())
            .flat_map(|bits| [32, 64, 128].map(|group| (bits, group)))
            .filter(|new| *new != (bits, group_size))
            .map(|(bits, group_size)| {
                (Op::Dequantize { bits, group_size }, format!("{bits} bits in groups of {group_size}"))
            })
            .collect(),
        Op::Form(Form::Pad { pads, mode, value }) => {
            let moved: Vec<[usize; 2]> = pads.iter().map(|[before, after]| [*after, *before]).collect();
            let mut found = Vec::new();
            if moved != pads {
                found.push((
                    Op::Form(Form::Pad { pads: moved, mode, value }),
                    "padding on the other side".to_owned(),
                ));
            }
            let before: Vec<[usize; 2]> = pads.iter().map(|[before, after]| [before + after, 0]).collect();
            let after: Vec<[usize; 2]> = pads.iter().map(|[before, after]| [0, before + after]).collect();
            for (new, side) in [(before, "before"), (after, "after")] {
                if new != pads {
                    let modes =
                        if mode == PadMode::Constant { vec![mode] } else { vec![mode, PadMode::Constant] };
                    for mode in modes {
                        let with = if mode == PadMode::Constant { " by a constant" } else { "" };
                        let op = Op::Form(Form::Pad { pads: new.clone(), mode, value });
                        found.push((op, format!("all padding {side} the elements{with}")));
                    }
                }
            }
            for new in [0.0, 1.0, -1.0].into_iter().filter(|new| *new != value) {
                let op = Form::Pad { pads: pads.clone(), mode, value: new };
                found.push((Op::Form(op), format!("padding by {}", instead(new, value))));
            }
            found
        }
        _ => Vec::new(),
    }
}

/// The operation with another literal number.
fn literals(stage: &Stage, node: usize, others: &dyn Fn(f64) -> Vec<f64>) -> Vec<Candidate> {
    let Op::Binary(function) = *stage.op(node) else { return Vec::new() };
    let mut found = Vec::new();
    for (at, operand) in stage.node(node).inputs.iter().enumerate() {
        let Operand::Number(old) = *operand else { continue };
        let is_eps = matches!(function, Binary::Add | Binary::Maximum) && old > 0.0 && old <= 1e-3;
        let new = if is_eps { EPS.to_vec() } else { others(old) };
        let kind = match function {
            _ if stage.op(node).is_comparison() || stage.feeds_mask(node) => CauseKind::MaskChange,
            Binary::Add | Binary::Sub if counts(stage, node) => CauseKind::Position,
            _ => CauseKind::Constant,
        };
        for new in new.into_iter().filter(|new| new.is_finite() && *new != old) {
            // With a neutral number the operation has no effect. The rule `left_out` proposes this.
            let is_neutral = match function {
                Binary::Add | Binary::Sub => new == 0.0,
                Binary::Mul | Binary::Div | Binary::Pow => new == 1.0,
                _ => false,
            };
            if is_neutral && !is_eps {
                continue;
            }
            let mut inputs: Vec<NewOperand> =
                stage.node(node).inputs.iter().copied().map(Into::into).collect();
            inputs[at] = NewOperand::Number(new);
            let what = if is_eps { "eps " } else { "" };
            let text = format!("{what}{} in place of {} in `{}`", Short(new), Short(old), function.name());
            found.push(Candidate::new(kind, 2, Change::node(node, Op::Binary(function), inputs), text));
        }
    }
    found
}

/// Whether the other operand of a sum holds whole numbers. Such numbers count positions.
fn counts(stage: &Stage, node: usize) -> bool {
    let mut values = stage.operands(node).filter_map(|(_, operand)| stage.value(operand));
    values.any(|value| value.values().iter().all(|x| x.fract() == 0.0 && x.abs() < 1e6))
}

/// Numbers that a port may use by mistake in place of `old`.
pub(super) fn numbers(stage: &Stage, old: f64) -> Vec<f64> {
    let mut found =
        vec![old * 2.0, old / 2.0, -old, old + 1.0, old - 1.0, old * old, 1.0 / old, old.abs().sqrt()];
    for length in stage.lengths() {
        let length = length as f64;
        found.extend([length.sqrt().recip(), length.sqrt(), length.recip(), length]);
    }
    found.extend(KNOWN);
    // The number may be the logarithm of one that is twice or half as large, such as a largest distance.
    if old.fract() != 0.0 {
        let two = std::f64::consts::LN_2;
        found.extend([old + two, old - two, old + 2.0 * two, old - 2.0 * two]);
    }
    found.retain(|new| new.is_finite() && *new != old);
    let mut kept: Vec<f64> = Vec::new();
    for new in found {
        if !kept.contains(&new) {
            kept.push(new);
        }
    }
    kept
}

/// A factor that the reference does not have, or 1 added to an operand or subtracted from it.
fn added(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut factors = FACTORS.to_vec();
    for length in stage.lengths() {
        let length = length as f64;
        factors.extend([length.sqrt().recip(), length.sqrt(), length.recip()]);
    }
    let scaled = factors.into_iter().map(|factor| {
        let change = Change::node(
            node,
            Op::Binary(Binary::Mul),
            vec![NewOperand::Old(node), NewOperand::Number(factor)],
        );
        let text = format!("the result of `{}` times {}", stage.op(node).name(), Short(factor));
        Candidate::new(CauseKind::Constant, 5, change, text)
    });
    let moves_only = matches!(stage.op(node), Op::Form(_) | Op::Cast { .. } | Op::Complex(_));
    let mut found: Vec<Candidate> = if moves_only { Vec::new() } else { scaled.collect() };
    for (at, operand) in stage.operands(node) {
        // An operand that is scaled by mistake.
        for factor in [1000.0, 1e-3, 255.0, 255f64.recip(), 2.0, 0.5, -1.0] {
            if stage.is_computed(operand) || stage.weight(operand).is_some() {
                continue;
            }
            let mut new = Expression::default();
            let scaled =
                new.add(Op::Binary(Binary::Mul), vec![NewOperand::Old(operand), NewOperand::Number(factor)]);
            let mut inputs: Vec<NewOperand> =
                stage.node(node).inputs.iter().copied().map(Into::into).collect();
            inputs[at] = scaled;
            let result = new.add(stage.op(node).clone(), inputs);
            let text = format!("{} times {}", stage.name(operand), Short(factor));
            found.push(Candidate::new(CauseKind::Constant, 4, new.replaces(node, result), text));
        }
        if !matches!(stage.op(node), Op::Binary(Binary::Mul) | Op::Normalize(_)) {
            continue;
        }
        for (number, text) in [(1.0, "1 added to"), (-1.0, "1 subtracted from")] {
            let mut new = Expression::default();
            let moved =
                new.add(Op::Binary(Binary::Add), vec![NewOperand::Old(operand), NewOperand::Number(number)]);
            let mut inputs: Vec<NewOperand> =
                stage.node(node).inputs.iter().copied().map(Into::into).collect();
            inputs[at] = moved;
            let result = new.add(stage.op(node).clone(), inputs);
            let text = format!("{text} {}", stage.name(operand));
            found.push(Candidate::new(CauseKind::Constant, 3, new.replaces(node, result), text));
        }
    }
    found
}
