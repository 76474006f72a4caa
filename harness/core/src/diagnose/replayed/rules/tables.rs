//! A table of whole numbers with one number replaced, such as the id that fills a sequence up.

use super::super::candidate::{Candidate, Expression};
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::number::Short;
use crate::recipe::{Binary, Form, Leaf, Op};
use crate::replay::NewOperand;

/// How often a number must occur in the table. A single entry would be explained by any number.
const OFTEN: usize = 3;
/// The most numbers of a table that are replaced.
const MOST: usize = 4;

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (at, operand) in stage.operands(node) {
        if !matches!(stage.op(operand), Op::Leaf(Leaf::Constant { .. } | Leaf::Input { .. })) {
            continue;
        }
        let Some(value) = stage.value(operand).filter(|value| !value.is_complex() && value.ndim() > 0) else {
            continue;
        };
        let counts = counted(value.values());
        // Masks have rules of their own.
        if counts.iter().all(|(number, _)| *number == 0.0 || *number == 1.0) {
            continue;
        }
        let usual: Vec<f64> = counts.iter().take(MOST).map(|(number, _)| *number).collect();
        for &(old, _) in counts.iter().filter(|(_, count)| *count >= OFTEN).take(MOST) {
            let mut others = vec![0.0, 1.0, -1.0, 2.0];
            others.extend(usual.iter().filter(|number| **number > 2.0));
            for new in others.into_iter().filter(|new| *new != old) {
                let all = format!("{} in place of each {}", Short(new), Short(old));
                // A sequence that ends with the number and is then filled up with another one.
                let later = format!("{all} that follows another one");
                for (only_later, text) in [(false, all), (true, later)] {
                    let mut expression = Expression::default();
                    let table = NewOperand::Old(operand);
                    let number = NewOperand::Number(old);
                    let mut is_old = expression.add(Op::Binary(Binary::Eq), vec![table, number]);
                    if only_later {
                        let roll = Form::Roll { shifts: vec![1], axes: vec![value.ndim() - 1] };
                        let before = expression.add(Op::Form(roll), vec![is_old]);
                        is_old = expression.add(Op::Binary(Binary::And), vec![is_old, before]);
                    }
                    let changed = expression.add(Op::Where, vec![is_old, NewOperand::Number(new), table]);
                    let mut inputs: Vec<NewOperand> =
                        stage.node(node).inputs.iter().copied().map(Into::into).collect();
                    inputs[at] = changed;
                    let result = expression.add(stage.op(node).clone(), inputs);
                    let change = expression.replaces(node, result);
                    let text = format!("{text} in {}", stage.name(operand));
                    found.push(Candidate::new(CauseKind::Constant, 2, change, text));
                }
            }
        }
    }
    found
}

/// The numbers of a table and how often each occurs, the most frequent first; none if some number is not whole.
fn counted(values: &[f64]) -> Vec<(f64, usize)> {
    if !values.iter().all(|x| x.fract() == 0.0) {
        return Vec::new();
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut counts: Vec<(f64, usize)> =
        sorted.chunk_by(|a, b| a == b).map(|same| (same[0], same.len())).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn frequent_numbers_come_first() {
        assert_eq!(counted(&[5.0, 7.0, 0.0, 7.0, 0.0, 7.0]), [(7.0, 3), (0.0, 2), (5.0, 1)]);
        assert!(counted(&[5.0, 0.5]).is_empty());
    }
}
