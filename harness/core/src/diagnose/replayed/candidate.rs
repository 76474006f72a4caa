//! A change of the recipe that may explain the error.

use crate::diagnose::CauseKind;
use crate::recipe::Op;
use crate::replay::{Change, NewNode, NewOperand};

/// A change of the recipe, and what it means.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) kind: CauseKind,
    /// How much the change assumes. If several changes explain the error equally well, the one with the lowest cost is named
    /// first.
    pub(super) cost: u8,
    /// The node of the recipe whose line in the reference is shown.
    pub(super) node: usize,
    pub(super) changes: Vec<Change>,
    /// What is different. Messages put "the reference's with" before this text.
    pub(super) text: String,
}

impl Candidate {
    pub(super) fn new(kind: CauseKind, cost: u8, change: Change, text: String) -> Self {
        Self { kind, cost, node: change.node, changes: vec![change], text }
    }

    /// Whether all numbers of its new operations are whole.
    pub(super) fn is_whole(&self) -> bool {
        let operands = self.changes.iter().flat_map(|change| &change.with).flat_map(|new| &new.inputs);
        operands
            .into_iter()
            .all(|operand| !matches!(operand, NewOperand::Number(number) if number.fract() != 0.0))
    }
}

/// A small expression that replaces a node.
#[derive(Default)]
pub(super) struct Expression {
    with: Vec<NewNode>,
}

impl Expression {
    /// Adds an operation and returns its value.
    pub(super) fn add(&mut self, op: Op, inputs: Vec<NewOperand>) -> NewOperand {
        self.with.push(NewNode { op, inputs });
        NewOperand::New(self.with.len() - 1)
    }

    /// The change that puts `result` in place of the node.
    pub(super) fn replaces(self, node: usize, result: NewOperand) -> Change {
        Change { node, with: self.with, result }
    }
}
