//! Changes to a recipe.

use crate::recipe::{Op, Operand, Recipe};

/// A node replaced by a small expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The node that is replaced.
    pub node: usize,
    /// New operations. Each may use the values of earlier ones.
    pub with: Vec<NewNode>,
    /// The value that replaces the node's value.
    pub result: NewOperand,
}

/// An operation of a change.
#[derive(Debug, Clone, PartialEq)]
pub struct NewNode {
    /// What is computed. An input, a weight or a constant is read by its name.
    pub op: Op,
    /// The operands.
    pub inputs: Vec<NewOperand>,
}

/// An operand of a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NewOperand {
    /// The value of a new node, by its position in [`Change::with`].
    New(usize),
    /// The value of a node of the recipe. A node before the replaced one has its value after all changes. The replaced node
    /// and the nodes after it have their values without any change, so that a change can, for example, scale the node.
    Old(usize),
    /// The value of a node of the recipe without any change.
    Base(usize),
    /// A number.
    Number(f64),
    /// An optional operand that is left out.
    Absent,
}

impl From<Operand> for NewOperand {
    fn from(operand: Operand) -> Self {
        match operand {
            Operand::Node(node) => Self::Old(node),
            Operand::Number(number) => Self::Number(number),
            Operand::Absent => Self::Absent,
        }
    }
}

impl Change {
    /// A node with another operation on the same operands.
    pub fn op(recipe: &Recipe, node: usize, op: Op) -> Self {
        let inputs = recipe.nodes.get(node).map_or(&[][..], |node| &node.inputs);
        Self::node(node, op, inputs.iter().copied().map(NewOperand::from).collect())
    }

    /// A node replaced by one operation.
    pub fn node(node: usize, op: Op, inputs: Vec<NewOperand>) -> Self {
        Self { node, with: vec![NewNode { op, inputs }], result: NewOperand::New(0) }
    }

    /// A node replaced by another value.
    pub fn value(node: usize, result: NewOperand) -> Self {
        Self { node, with: Vec::new(), result }
    }

    /// The nodes of the recipe that the new value needs. The flag is true for [`NewOperand::Base`].
    pub(super) fn old_nodes(&self) -> impl Iterator<Item = (usize, bool)> {
        let operands = self.with.iter().flat_map(|new| new.inputs.iter());
        operands.chain([&self.result]).filter_map(|operand| match operand {
            NewOperand::Old(node) | NewOperand::Base(node) => {
                Some((*node, matches!(operand, NewOperand::Base(_))))
            }
            _ => None,
        })
    }
}
