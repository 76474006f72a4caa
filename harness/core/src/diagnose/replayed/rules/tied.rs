//! Numbers of a recipe that come from one number of the reference: the same number in two places, or `shift` and `shift - 1`.

use super::super::candidate::Candidate;
use super::super::stage::Stage;
use super::constants::numbers;
use crate::diagnose::CauseKind;
use crate::number::Short;
use crate::recipe::{Op, Operand};
use crate::replay::{Change, NewOperand};

/// How a number depends on another.
type Relation = fn(f64) -> f64;

/// The relations that are looked for.
const RELATIONS: [Relation; 6] = [|x| x, |x| x - 1.0, |x| 1.0 - x, |x| 1.0 / x, |x| -x, |x| x * x];
/// Numbers that occur without a common origin.
const COMMON: [f64; 5] = [0.0, 0.5, 1.0, 2.0, -1.0];

/// Numbers that change together.
pub(in super::super) struct Tied {
    /// The number that the others are made from.
    pub(in super::super) number: f64,
    /// Nodes, positions of the operands, and how each depends on the number.
    members: Vec<(usize, usize, Relation)>,
}

impl Tied {
    /// All of them, with another number.
    pub(in super::super) fn changes(&self, stage: &Stage, new: f64) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        for &(node, at, relation) in &self.members {
            match changes.iter_mut().find(|change| change.node == node) {
                Some(change) => change.with[0].inputs[at] = NewOperand::Number(relation(new)),
                None => {
                    let mut inputs: Vec<NewOperand> =
                        stage.node(node).inputs.iter().copied().map(Into::into).collect();
                    inputs[at] = NewOperand::Number(relation(new));
                    changes.push(Change::node(node, stage.op(node).clone(), inputs));
                }
            }
        }
        changes
    }

    /// A node of the recipe that has the number.
    pub(in super::super) fn node(&self) -> usize {
        self.members[0].0
    }
}

/// Groups of numbers that may come from one number.
pub(in super::super) fn tied(stage: &Stage) -> Vec<Tied> {
    let mut literals: Vec<(usize, usize, f64)> = Vec::new();
    for &node in stage.computed.iter().filter(|node| matches!(stage.op(**node), Op::Binary(_))) {
        for (at, operand) in stage.node(node).inputs.iter().enumerate() {
            if let Operand::Number(number) = *operand {
                literals.push((node, at, number));
            }
        }
    }
    let mut found: Vec<Tied> = Vec::new();
    for &(node, at, number) in &literals {
        if COMMON.contains(&number) || found.iter().any(|tied| tied.number == number) {
            continue;
        }
        let mut members: Vec<(usize, usize, Relation)> = vec![(node, at, RELATIONS[0])];
        for &(other, other_at, value) in
            literals.iter().filter(|(other, other_at, _)| (*other, *other_at) != (node, at))
        {
            let is_near = |relation: &&Relation| (relation(number) - value).abs() <= 1e-12 * value.abs();
            if let Some(relation) = RELATIONS.iter().find(is_near) {
                members.push((other, other_at, *relation));
            }
        }
        if members.len() > 1 {
            found.push(Tied { number, members });
        }
    }
    found
}

/// Another number in all places that depend on it. The target proposes this.
pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    if node != stage.target {
        return Vec::new();
    }
    let of = |tied: &Tied| -> Vec<Candidate> {
        let candidate = |new: f64| Candidate {
            kind: CauseKind::Constant,
            cost: 2,
            node: tied.node(),
            changes: tied.changes(stage, new),
            text: format!(
                "{} in place of {}, in {} places",
                Short(new),
                Short(tied.number),
                tied.members.len()
            ),
        };
        numbers(stage, tied.number).into_iter().map(candidate).collect()
    };
    tied(stage).iter().flat_map(of).collect()
}
