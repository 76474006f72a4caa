//! Solves for a number of the recipe, if no change of the rules explains the error.

use super::candidate::Candidate;
use super::rules::tied::tied;
use super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::number::Short;
use crate::recipe::{Normalizer, Op, Operand, Product, Unary};
use crate::replay::{Change, NewOperand};

/// The most steps of the search for one number.
const ROUNDS: usize = 8;

/// The cost of a solved number. It is higher than that of a usual number, but lower than that of a change that adds something.
const COST: u8 = 3;

/// A number of the recipe that may be different in the port.
pub(super) struct Slot<'s> {
    pub(super) node: usize,
    old: f64,
    what: &'static str,
    /// Where the number is.
    place: String,
    changes: Box<dyn Fn(f64) -> Vec<Change> + 's>,
}

/// The numbers in the operations of a stage.
pub(super) fn slots<'s>(stage: &'s Stage<'s>) -> Vec<Slot<'s>> {
    let mut found = Vec::new();
    for &node in &stage.computed {
        let op = stage.op(node);
        let mut push = |old: f64, what, change: Box<dyn Fn(f64) -> Change + 's>| {
            let (place, changes) = (format!(" in `{}`", op.name()), Box::new(move |new| vec![change(new)]));
            found.push(Slot { node, old, what, place, changes });
        };
        if let Op::Binary(_) = op {
            for (at, operand) in stage.node(node).inputs.iter().enumerate() {
                let Operand::Number(old) = *operand else { continue };
                push(
                    old,
                    "",
                    Box::new(move |new| {
                        let mut inputs: Vec<NewOperand> =
                            stage.node(node).inputs.iter().copied().map(Into::into).collect();
                        inputs[at] = NewOperand::Number(new);
                        Change::node(node, stage.op(node).clone(), inputs)
                    }),
                );
            }
        }
        let with = move |op: Op| Change::op(stage.recipe, node, op);
        match *op {
            Op::Normalize(Normalizer::LayerNorm { rank, eps }) => {
                push(
                    eps,
                    "eps ",
                    Box::new(move |eps| with(Op::Normalize(Normalizer::LayerNorm { rank, eps }))),
                );
            }
            Op::Normalize(Normalizer::RmsNorm { rank, eps }) => {
                push(
                    eps,
                    "eps ",
                    Box::new(move |eps| with(Op::Normalize(Normalizer::RmsNorm { rank, eps }))),
                );
            }
            Op::Normalize(Normalizer::GroupNorm { groups, eps }) => {
                push(
                    eps,
                    "eps ",
                    Box::new(move |eps| with(Op::Normalize(Normalizer::GroupNorm { groups, eps }))),
                );
            }
            Op::Product(Product::Attention { scale, causal, groups, mask }) => {
                let op = move |scale| Op::Product(Product::Attention { scale, causal, groups, mask });
                push(scale, "the scale ", Box::new(move |scale| with(op(scale))));
            }
            Op::Unary(Unary::LeakyRelu { slope }) => {
                push(slope, "the slope ", Box::new(move |slope| with(Op::Unary(Unary::LeakyRelu { slope }))));
            }
            _ => {}
        }
    }
    for group in tied(stage) {
        let (node, old) = (group.node(), group.number);
        let changes = Box::new(move |new| group.changes(stage, new));
        found.push(Slot {
            node,
            old,
            what: "",
            place: ", in all places that depend on it".to_owned(),
            changes,
        });
    }
    found
}

/// Finds the number whose prediction is nearest to the actual, by Gauss-Newton steps. Returns `None` if no step helps.
///
/// `distance` returns the prediction of changes minus the actual, per element.
pub(super) fn fit(slot: &Slot, distance: impl Fn(&[Change]) -> Option<Vec<f64>>) -> Option<Candidate> {
    let at = |x: f64| distance(&(slot.changes)(x)).filter(|far| far.iter().all(|x| x.is_finite()));
    let squares = |far: &[f64]| far.iter().map(|x| x * x).sum::<f64>();
    // Positive numbers are searched on a logarithmic scale: eps may be off by powers of ten.
    let scale = |x: f64| if slot.old > 0.0 { slot.old * x.exp() } else { slot.old + x };
    let (mut x, mut far) = (0.0, at(slot.old)?);
    for _ in 0..ROUNDS {
        let step = 1e-4;
        let moved = at(scale(x + step))?;
        let (mut along, mut size) = (0.0, 0.0);
        for (moved, far) in moved.iter().zip(&far) {
            let slope = (moved - far) / step;
            along -= slope * far;
            size += slope * slope;
        }
        if size == 0.0 {
            return None;
        }
        let mut by = (along / size).clamp(-3.0, 3.0);
        let better = loop {
            let next = at(scale(x + by))?;
            if squares(&next) < squares(&far) {
                break Some(next);
            }
            by /= 4.0;
            if by.abs() < 1e-7 {
                break None;
            }
        };
        let Some(next) = better else { break };
        (x, far) = (x + by, next);
        if by.abs() < 1e-7 {
            break;
        }
    }
    let new = rounded(scale(x));
    let text = format!("{}{} in place of {}{}", slot.what, Short(new), Short(slot.old), slot.place);
    let (kind, node, changes) = (CauseKind::Constant, slot.node, (slot.changes)(new));
    (x != 0.0).then_some(Candidate { kind, cost: COST, node, changes, text })
}

/// A short number near the solved one, if there is one: 0.0037 for a solved 0.00369998, because people write short numbers.
fn rounded(solved: f64) -> f64 {
    let short = |digits: usize| format!("{solved:.digits$e}").parse::<f64>().ok();
    let is_near = |short: &f64| (short - solved).abs() <= 2e-5 * solved.abs();
    (0..4).filter_map(short).find(is_near).unwrap_or(solved)
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn a_solved_number_is_rounded_to_one_that_people_write() {
        assert_eq!([0.003_699_98, 1.000_001, -0.25, 0.123_456].map(rounded), [0.0037, 1.0, -0.25, 0.123_456]);
        assert_eq!(rounded(0.0), 0.0);
        assert!(rounded(f64::NAN).is_nan());
    }
}
