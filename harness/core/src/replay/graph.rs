//! Evaluates a part of a recipe, as it is or with changes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::array::Array;
use super::change::{Change, NewOperand};
use super::error::ReplayError;
use super::evaluate::evaluate;
use super::leaves::Leaves;
use super::work::Work;
use crate::recipe::{Leaf, Op, Operand, Recipe};

/// Steps that a node costs besides its arithmetic.
const PER_NODE: u64 = 256;

/// The part of a recipe that computes one node, the target, from nodes whose values are known.
///
/// Computed values are kept as long as they take at most half of the memory that was left before the first was computed.
/// Other values are computed again when a change needs them.
pub struct Replay<'a> {
    recipe: &'a Recipe,
    leaves: &'a dyn Leaves,
    work: &'a Work,
    target: usize,
    cut: BTreeSet<usize>,
    nodes: Vec<usize>,
    kept: RefCell<Kept>,
    /// Steps that values without changes took.
    steps: Cell<u64>,
}

/// Kept values, computed without changes.
#[derive(Default)]
struct Kept {
    values: HashMap<usize, Array>,
    bytes: u64,
    /// Bytes that kept values may take; `None` before the first is computed.
    allowed: Option<u64>,
}

/// Identifies the value of a node, with or without changes. Values without changes come first, because values with changes
/// may need them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    changed: bool,
    node: usize,
}

/// The changes of one evaluation.
#[derive(Default)]
struct Changes<'a> {
    /// The changes, by node.
    by_node: BTreeMap<usize, &'a Change>,
    /// Nodes whose values depend on the changes, in order.
    affected: BTreeSet<usize>,
}

impl<'a> Replay<'a> {
    /// The part of the recipe that computes `target` from its leaves and from the nodes of `cut`, whose values `leaves`
    /// knows. The target is computed even if `cut` contains it.
    ///
    /// # Errors
    ///
    /// When the target does not exist, or needs an unknown value.
    pub fn new(
        recipe: &'a Recipe,
        target: usize,
        mut cut: BTreeSet<usize>,
        leaves: &'a dyn Leaves,
        work: &'a Work,
    ) -> Result<Self, ReplayError> {
        cut.remove(&target);
        let kept = Kept::default().into();
        let mut replay =
            Self { recipe, leaves, work, target, cut, nodes: Vec::new(), kept, steps: Cell::new(0) };
        let needed = replay.needed(Key { changed: false, node: target }, &Changes::default())?;
        replay.nodes = needed.keys().map(|key| key.node).collect();
        for &node in &replay.nodes {
            if let Op::Unknown { why } = &recipe.nodes[node].op
                && !replay.cut.contains(&node)
            {
                return Err(in_node(recipe, node, ReplayError::Unknown { why: why.clone() }));
            }
        }
        Ok(replay)
    }

    /// The nodes that lead to the target, in order: those of the cut, the leaves, and those that are computed.
    pub fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    /// Whether the value of a node is known and not computed.
    pub fn is_cut(&self, node: usize) -> bool {
        self.cut.contains(&node)
    }

    /// Steps that values without changes took so far.
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// The value of the target.
    ///
    /// # Errors
    ///
    /// As [`Replay::value`].
    pub fn target(&self) -> Result<Array, ReplayError> {
        self.value(self.target)
    }

    /// The value of a node, which need not lead to the target.
    ///
    /// # Errors
    ///
    /// When an operation cannot be evaluated, a tensor cannot be read, or too few steps or too little memory is left.
    pub fn value(&self, node: usize) -> Result<Array, ReplayError> {
        let before = self.work.steps_left();
        let value = self.run(Key { changed: false, node }, &Changes::default());
        self.steps.set(self.steps.get() + before.saturating_sub(self.work.steps_left()));
        value
    }

    /// The value of the target after changes. Only nodes that depend on a change are computed again.
    ///
    /// # Errors
    ///
    /// As [`Replay::value`]; also when two changes have the same node, or a change does not fit the recipe.
    pub fn with(&self, changes: &[Change]) -> Result<Array, ReplayError> {
        let mut by_node = BTreeMap::new();
        for change in changes {
            if change.node >= self.recipe.nodes.len() {
                return Err(ReplayError::NoNode { node: change.node, problem: "does not exist" });
            }
            if by_node.insert(change.node, change).is_some() {
                return Err(ReplayError::NoNode { node: change.node, problem: "has two changes" });
            }
        }
        let affected = self.affected(&by_node)?;
        let changed = affected.contains(&self.target);
        self.run(Key { changed, node: self.target }, &Changes { by_node, affected })
    }

    /// The nodes leading to the target whose values depend on changes.
    fn affected(&self, by_node: &BTreeMap<usize, &Change>) -> Result<BTreeSet<usize>, ReplayError> {
        let Some((&first, _)) = by_node.first_key_value() else { return Ok(BTreeSet::new()) };
        self.work.spend(self.nodes.len() as u64)?;
        let mut affected = BTreeSet::new();
        for &node in &self.nodes[self.nodes.partition_point(|&node| node < first)..] {
            let through = |node: &Operand| matches!(node, Operand::Node(node) if affected.contains(node));
            let is_affected = by_node.contains_key(&node)
                || !self.cut.contains(&node) && self.recipe.nodes[node].inputs.iter().any(through);
            if is_affected {
                affected.insert(node);
            }
        }
        Ok(affected)
    }

    /// Computes a value and everything that it needs. If memory runs out, drops all kept values and tries again.
    fn run(&self, goal: Key, changes: &Changes<'_>) -> Result<Array, ReplayError> {
        self.kept.borrow_mut().allowed.get_or_insert(self.work.bytes_left() / 2);
        match self.try_run(goal, changes) {
            Err(error) if error.is_memory() && self.kept.borrow().bytes > 0 => {
                *self.kept.borrow_mut() = Kept { allowed: Some(0), ..Kept::default() };
                self.try_run(goal, changes)
            }
            result => result,
        }
    }

    /// As [`run`](Self::run). Values are released after their last use, unless they are kept.
    fn try_run(&self, goal: Key, changes: &Changes<'_>) -> Result<Array, ReplayError> {
        let mut uses = self.needed(goal, changes)?;
        let mut live: HashMap<Key, Array> = HashMap::new();
        for key in uses.keys().copied().collect::<Vec<_>>() {
            // The operands are listed before the value is kept, because a kept value has none.
            let operands = self.operands(key, changes);
            let value = match self.kept_value(key) {
                Some(value) => value,
                None => {
                    self.work.spend(PER_NODE)?;
                    let value = self.compute(key, changes, &live);
                    value.map_err(|error| in_node(self.recipe, key.node, error))?
                }
            };
            self.keep(key, &value);
            for used in operands {
                if let Some(left) = uses.get_mut(&used) {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        live.remove(&used);
                    }
                }
            }
            live.insert(key, value);
        }
        live.remove(&goal).ok_or(ReplayError::NoNode { node: goal.node, problem: "does not exist" })
    }

    /// Every value that the goal needs, with the number of its uses, in an order in which they can be computed.
    fn needed(&self, goal: Key, changes: &Changes<'_>) -> Result<BTreeMap<Key, usize>, ReplayError> {
        let mut uses: BTreeMap<Key, usize> = BTreeMap::new();
        // The goal itself counts as one use, so that it is not released.
        let mut waiting = vec![goal];
        while let Some(key) = waiting.pop() {
            if key.node >= self.recipe.nodes.len() {
                return Err(ReplayError::NoNode { node: key.node, problem: "does not exist" });
            }
            let count = uses.entry(key).or_default();
            *count += 1;
            if *count == 1 {
                self.work.spend(1)?;
                waiting.extend(self.operands(key, changes));
            }
        }
        Ok(uses)
    }

    /// The values that a value is computed from; none if the value is known.
    fn operands(&self, key: Key, changes: &Changes<'_>) -> Vec<Key> {
        if self.kept_value(key).is_some() {
            return Vec::new();
        }
        if key.changed
            && let Some(change) = changes.by_node.get(&key.node)
        {
            let key = |(node, base)| {
                if base { Key { changed: false, node } } else { changes.old(change.node, node) }
            };
            return change.old_nodes().map(key).collect();
        }
        if self.cut.contains(&key.node) {
            return Vec::new();
        }
        let inputs = self.recipe.nodes[key.node].inputs.iter();
        let nodes = inputs.filter_map(|operand| match operand {
            Operand::Node(node) => Some(*node),
            _ => None,
        });
        nodes.map(|node| Key { changed: key.changed && changes.affected.contains(&node), node }).collect()
    }

    fn compute(
        &self,
        key: Key,
        changes: &Changes<'_>,
        live: &HashMap<Key, Array>,
    ) -> Result<Array, ReplayError> {
        let find = |key: Key| {
            let found = live.get(&key).cloned().or_else(|| self.kept_value(key));
            found.ok_or(ReplayError::NoNode { node: key.node, problem: "was not computed" })
        };
        if key.changed
            && let Some(change) = changes.by_node.get(&key.node)
        {
            return self.compute_change(change, |node, base| {
                find(if base { Key { changed: false, node } } else { changes.old(change.node, node) })
            });
        }
        if self.cut.contains(&key.node) {
            return self.leaves.cut(key.node, self.work);
        }
        let node = &self.recipe.nodes[key.node];
        let inputs = node.inputs.iter().map(|operand| match operand {
            Operand::Absent => Ok(None),
            Operand::Number(number) => Ok(Some(Array::scalar(*number))),
            Operand::Node(node) => {
                find(Key { changed: key.changed && changes.affected.contains(node), node: *node }).map(Some)
            }
        });
        self.op_value(&node.op, &inputs.collect::<Result<Vec<_>, _>>()?)
    }

    fn compute_change(
        &self,
        change: &Change,
        old: impl Fn(usize, bool) -> Result<Array, ReplayError>,
    ) -> Result<Array, ReplayError> {
        let mut new: Vec<Array> = Vec::with_capacity(change.with.len());
        let value = |operand: &NewOperand, new: &[Array]| match operand {
            NewOperand::Absent => Ok(None),
            NewOperand::Number(number) => Ok(Some(Array::scalar(*number))),
            NewOperand::Old(node) => old(*node, false).map(Some),
            NewOperand::Base(node) => old(*node, true).map(Some),
            NewOperand::New(index) => match new.get(*index) {
                Some(value) => Ok(Some(value.clone())),
                None => Err(ReplayError::operands(format!("new node {index} does not come earlier"))),
            },
        };
        for node in &change.with {
            let inputs = node.inputs.iter().map(|operand| value(operand, &new));
            let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
            new.push(self.op_value(&node.op, &inputs)?);
        }
        value(&change.result, &new)?.ok_or_else(|| ReplayError::operands("the change has no result"))
    }

    fn op_value(&self, op: &Op, inputs: &[Option<Array>]) -> Result<Array, ReplayError> {
        match op {
            Op::Leaf(leaf @ (Leaf::Input { .. } | Leaf::Weight { .. } | Leaf::Constant { .. })) => {
                self.leaves.leaf(leaf, self.work)
            }
            other => evaluate(other, inputs, self.work),
        }
    }

    fn kept_value(&self, key: Key) -> Option<Array> {
        if key.changed { None } else { self.kept.borrow().values.get(&key.node).cloned() }
    }

    /// Keeps a value without changes if it fits.
    fn keep(&self, key: Key, value: &Array) {
        let kept = &mut *self.kept.borrow_mut();
        if !key.changed
            && !kept.values.contains_key(&key.node)
            && kept.bytes.saturating_add(value.bytes()) <= kept.allowed.unwrap_or(0)
        {
            kept.bytes += value.bytes();
            kept.values.insert(key.node, value.clone());
        }
    }
}

impl Changes<'_> {
    /// The value of [`NewOperand::Old`] in a change that replaces the node `changed`.
    fn old(&self, changed: usize, node: usize) -> Key {
        Key { changed: node < changed && self.affected.contains(&node), node }
    }
}

fn in_node(recipe: &Recipe, node: usize, error: ReplayError) -> ReplayError {
    match recipe.nodes.get(node) {
        Some(found) => ReplayError::Node { node, op: found.op.name(), source: error.into() },
        None => error,
    }
}

#[cfg(test)]
mod tests;
