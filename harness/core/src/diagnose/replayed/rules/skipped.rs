//! Several operations in a row that are left out.

use super::super::candidate::Candidate;
use super::super::stage::Stage;
use super::chain::Chain;
use crate::diagnose::CauseKind;
use crate::replay::{Change, NewOperand};

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut push = |source: usize| {
        let text =
            format!("all operations between {} and `{}` left out", stage.name(source), stage.op(node).name());
        found.push(Candidate::new(CauseKind::LeftOut, 1, Change::value(node, NewOperand::Old(source)), text));
    };
    // The rule `left_out` proposes the operands themselves.
    let is_far = |source: usize| stage.operands(node).all(|(_, operand)| operand != source);
    let fits = |source: usize| stage.shape(source) == stage.shape(node) && stage.weight(source).is_none();
    if node == stage.target {
        let sources = stage.nodes().iter().copied().filter(|source| *source != node);
        sources.filter(|source| is_far(*source) && fits(*source)).for_each(&mut push);
    } else if let Some(chain) = Chain::ending_in(stage, node)
        && is_far(chain.source)
        && fits(chain.source)
    {
        push(chain.source);
    }
    found
}
