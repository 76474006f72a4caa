//! Positions and indices that are shifted, scaled, reversed, or off by one.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::recipe::{Binary, Complex, Form, Leaf, Lookup, Op, Slice};
use crate::replay::{Array, Change, NewOperand};

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut push = |cost: u8, change: Change, text: String| {
        found.push(Candidate::new(CauseKind::Position, cost, change, text));
    };
    match stage.op(node) {
        Op::Form(Form::Slice(own)) => {
            let Some((_, source)) = stage.operands(node).next() else { return found };
            let length = stage.shape(source).get(own.axis).copied().unwrap_or(0);
            for shift in [-2i64, -1, 1, 2] {
                let moved = |at: usize| usize::try_from(at as i64 + shift).ok().filter(|at| *at <= length);
                if let (Some(start), Some(end)) = (moved(own.start), moved(own.end)) {
                    let op = Op::Form(Form::Slice(Slice { start, end, ..*own }));
                    let text = format!("the slice of {} moved by {shift}", stage.name(source));
                    push(2, Change::op(stage.recipe, node, op), text);
                }
            }
            let count = own.end - own.start;
            for (start, text) in [(0, "first"), (length.saturating_sub(count), "last")] {
                if start != own.start && start + count <= length {
                    let op = Op::Form(Form::Slice(Slice { start, end: start + count, ..*own }));
                    let text = format!("the {text} {count} of {} in place of others", stage.name(source));
                    push(2, Change::op(stage.recipe, node, op), text);
                }
            }
        }
        Op::Form(Form::Roll { shifts, axes }) => {
            let shifts = shifts.iter().map(|shift| -shift).collect();
            let op = Op::Form(Form::Roll { shifts, axes: axes.clone() });
            push(2, Change::op(stage.recipe, node, op), "`roll` in the other direction".to_owned());
        }
        Op::Form(Form::Tril { diagonal }) | Op::Form(Form::Triu { diagonal }) => {
            for shift in [-1, 1] {
                let op = match stage.op(node) {
                    Op::Form(Form::Tril { .. }) => Form::Tril { diagonal: diagonal + shift },
                    _ => Form::Triu { diagonal: diagonal + shift },
                };
                let text = format!("the diagonal of `{}` moved by {shift}", op.name());
                push(2, Change::op(stage.recipe, node, Op::Form(op)), text);
            }
        }
        Op::Topk { k, axis, largest, output } => {
            for k in [k + 1, k.saturating_sub(1)] {
                let op = Op::Topk { k, axis: *axis, largest: *largest, output: *output };
                push(2, Change::op(stage.recipe, node, op), format!("{k} in `topk`"));
            }
        }
        _ => {}
    }
    found.extend(moved_together(stage, node));
    found.extend(turned_grid(stage, node));
    found.extend(turned_back(stage, node));
    found.extend(indices(stage, node));
    found.extend(ranges(stage, node));
    found
}

/// Every slice of one tensor moved by the same number of places, such as both ends of a step in a schedule.
///
/// The slice that is nearest to the target proposes this.
fn moved_together(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Op::Form(Form::Slice(own)) = *stage.op(node) else { return Vec::new() };
    let Some((_, source)) = stage.operands(node).next() else { return Vec::new() };
    let length = stage.shape(source).get(own.axis).copied().unwrap_or(0);
    let slices: Vec<(usize, Slice)> = (stage.computed.iter())
        .filter_map(|&other| match *stage.op(other) {
            Op::Form(Form::Slice(slice)) if slice.axis == own.axis => Some((other, slice)),
            _ => None,
        })
        .filter(|(other, _)| stage.operands(*other).any(|(_, of)| of == source))
        .collect();
    if slices.len() < 2 || slices[0].0 != node {
        return Vec::new();
    }
    let moved_by = |shift: i64| {
        let moved = |at: usize| usize::try_from(at as i64 + shift).ok().filter(|at| *at <= length);
        let change = |&(node, slice): &(usize, Slice)| {
            let slice = Slice { start: moved(slice.start)?, end: moved(slice.end)?, ..slice };
            Some(Change::op(stage.recipe, node, Op::Form(Form::Slice(slice))))
        };
        let changes = slices.iter().map(change).collect::<Option<Vec<Change>>>()?;
        let text = format!("{} slices of {} moved by {shift}", slices.len(), stage.name(source));
        Some(Candidate { kind: CauseKind::Position, cost: 2, node, changes, text })
    };
    [-1, 1].into_iter().filter_map(moved_by).collect()
}

/// Positions of a grid with as many rows as the right one has columns: (rows, columns, coordinates) merged into a list.
fn turned_grid(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Op::Form(Form::Reshape { shape: to }) = stage.op(node) else { return Vec::new() };
    let Some((_, grid)) = stage.operands(node).next() else { return Vec::new() };
    let &[rows, columns, coordinates] = stage.shape(grid) else { return Vec::new() };
    if rows < 2 || columns < 2 || !(2..=3).contains(&coordinates) || *to != [rows * columns, coordinates] {
        return Vec::new();
    }
    let is_counted = |value: &Array| value.values().iter().all(|x| x.fract() == 0.0);
    if !stage.value(grid).is_some_and(|value| is_counted(&value)) {
        return Vec::new();
    }
    let mut new = Expression::default();
    let turned = new.add(Op::Form(Form::Permute { axes: vec![1, 0, 2] }), vec![NewOperand::Old(grid)]);
    // Rows and columns are the last two coordinates.
    let order = (0..coordinates - 2).chain([coordinates - 1, coordinates - 2]);
    let parts = order.map(|at| {
        let slice = Slice { axis: 2, start: at, end: at + 1, step: 1 };
        new.add(Op::Form(Form::Slice(slice)), vec![turned])
    });
    let parts = parts.collect();
    let joined = new.add(Op::Form(Form::Cat { axis: 2 }), parts);
    let result = new.add(stage.op(node).clone(), vec![joined]);
    let text = format!("positions of {columns} rows and {rows} columns in place of {rows} and {columns}");
    vec![Candidate::new(CauseKind::Position, 3, new.replaces(node, result), text)]
}

/// A rotation by the opposite angles.
fn turned_back(stage: &Stage, node: usize) -> Vec<Candidate> {
    if *stage.op(node) != Op::Binary(Binary::Mul) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, operand) in stage.operands(node) {
        if !stage.value(operand).is_some_and(|value| value.is_complex()) {
            continue;
        }
        let mut new = Expression::default();
        let turned = new.add(Op::Complex(Complex::Conj), vec![NewOperand::Old(operand)]);
        let mut inputs: Vec<NewOperand> = stage.node(node).inputs.iter().copied().map(Into::into).collect();
        inputs[at] = turned;
        let result = new.add(stage.op(node).clone(), inputs);
        let text = format!("{} with the opposite angles", stage.name(operand));
        found.push(Candidate::new(CauseKind::Position, 2, new.replaces(node, result), text));
    }
    found
}

/// Whole numbers that count positions: shifted, reversed or scaled.
fn indices(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (at, operand) in stage.operands(node) {
        let counts = match stage.op(node) {
            Op::Lookup(Lookup::Embedding | Lookup::Take { .. } | Lookup::Gather { .. }) => at == 1,
            Op::Binary(_) | Op::Cast { .. } | Op::Product(_) => true,
            _ => false,
        };
        if !counts
            || stage.is_computed(operand) && !matches!(stage.op(operand), Op::Cast { .. } | Op::Form(_))
        {
            continue;
        }
        let Some(value) = stage.value(operand) else { continue };
        if value.len() < 2 || !value.values().iter().all(|x| x.fract() == 0.0 && x.abs() < 1e6) {
            continue;
        }
        let mut push = |text: &str, make: &dyn Fn(&mut Expression, NewOperand) -> NewOperand| {
            let mut new = Expression::default();
            let moved = make(&mut new, NewOperand::Old(operand));
            let mut inputs: Vec<NewOperand> =
                stage.node(node).inputs.iter().copied().map(Into::into).collect();
            inputs[at] = moved;
            let result = new.add(stage.op(node).clone(), inputs);
            let text = format!("{} {text}", stage.name(operand));
            let kind = if stage.feeds_mask(node) { CauseKind::MaskChange } else { CauseKind::Position };
            found.push(Candidate::new(kind, 2, new.replaces(node, result), text));
        };
        for shift in [-1.0, 1.0] {
            push(if shift > 0.0 { "plus 1" } else { "minus 1" }, &|new, x| {
                new.add(Op::Binary(Binary::Add), vec![x, NewOperand::Number(shift)])
            });
        }
        for factor in [0.5, 2.0] {
            push(if factor > 1.0 { "doubled" } else { "halved" }, &|new, x| {
                new.add(Op::Binary(Binary::Mul), vec![x, NewOperand::Number(factor)])
            });
        }
        let rank = value.ndim();
        for axis in (0..rank).filter(|axis| value.shape()[*axis] > 1) {
            push("reversed", &|new, x| new.add(Op::Form(Form::Flip { axes: vec![axis] }), vec![x]));
            for shift in [-1, 1] {
                push(&format!("moved by {shift}"), &|new, x| {
                    new.add(Op::Form(Form::Roll { shifts: vec![shift], axes: vec![axis] }), vec![x])
                });
            }
        }
        // Positions of another axis, such as rows in place of columns.
        for a in 0..rank {
            for b in a + 1..rank {
                if value.shape()[a] == value.shape()[b] && value.shape()[a] > 1 {
                    push("taken along another axis", &|new, x| {
                        let mut axes: Vec<usize> = (0..rank).collect();
                        axes.swap(a, b);
                        new.add(Op::Form(Form::Permute { axes }), vec![x])
                    });
                }
            }
        }
        push("all zero", &|new, x| new.add(Op::Binary(Binary::Mul), vec![x, NewOperand::Number(0.0)]));
    }
    found
}

/// Another range of numbers. The change is at the range. The first node that uses the range proposes it.
fn ranges(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (_, operand) in stage.operands(node) {
        let Op::Leaf(Leaf::Arange { start, end, step }) = *stage.op(operand) else { continue };
        if stage.users(operand).last() != Some(node) {
            continue;
        }
        let count = stage.shape(operand).first().copied().unwrap_or(0) as f64;
        let last = start + (count - 1.0) * step;
        for (start, end, step, text) in [
            (start + step, end + step, step, "one later"),
            (start - step, end - step, step, "one earlier"),
            (last, start - step, -step, "reversed"),
            (start * 2.0, end * 2.0, step * 2.0, "doubled"),
            (start / 2.0, end / 2.0, step / 2.0, "halved"),
            (0.0, count, 1.0, "counted from 0 by 1"),
            (1.0, count + 1.0, 1.0, "counted from 1 by 1"),
        ] {
            let op = Op::Leaf(Leaf::Arange { start, end, step });
            if op == *stage.op(operand) {
                continue;
            }
            let changes = vec![Change::node(operand, op, Vec::new())];
            let text = format!("the range of positions {text}");
            found.push(Candidate { kind: CauseKind::Position, cost: 2, node, changes, text });
        }
    }
    found
}
