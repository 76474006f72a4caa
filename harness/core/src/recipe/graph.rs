//! The graph of operations by which a reference made its goldens.

use std::collections::BTreeMap;

use super::op::Op;

/// A checked recipe: every node's operands are earlier nodes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recipe {
    /// The operations, in an order in which they can be evaluated.
    pub nodes: Vec<Node>,
    /// The node of each golden, by name; a later hit is `name@1`.
    pub goldens: BTreeMap<String, usize>,
    /// Why a golden has no node, by name.
    pub missing: BTreeMap<String, String>,
    /// Source files of the reference, as paths inside their packages.
    pub sources: Vec<String>,
}

/// One operation with its operands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// The operands.
    pub inputs: Vec<Operand>,
    /// The line of the reference that computes it.
    pub place: Option<Place>,
}

/// An operand of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operand {
    /// The value of an earlier node.
    Node(usize),
    /// A number.
    Number(f64),
    /// An optional operand that is left out.
    Absent,
}

/// A line of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The position of the file in [`Recipe::sources`].
    pub file: usize,
    /// The line, from 1.
    pub line: u32,
}

impl Recipe {
    /// The line of the reference that computes a node, as `file:line`.
    pub fn place(&self, node: usize) -> Option<String> {
        let place = self.nodes.get(node)?.place?;
        Some(format!("{}:{}", self.sources.get(place.file)?, place.line))
    }

    /// The goldens that a node makes, in the order of their names.
    pub fn goldens_of(&self, node: usize) -> impl Iterator<Item = &str> {
        self.goldens.iter().filter(move |&(_, &made_by)| made_by == node).map(|(name, _)| name.as_str())
    }
}
