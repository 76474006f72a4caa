//! The operations from the last goldens that the port tapped to the failing golden.

use std::collections::{BTreeMap, BTreeSet};

use super::part::Part;
use crate::diagnose::stage_recipe::StageRecipe;
use crate::golden::FixtureSet;
use crate::recipe::{Leaf, Node, Op, Operand, Recipe};
use crate::replay::{Array, Replay, ReplayError};

/// The nodes that lead to the failing golden.
pub(super) struct Stage<'s> {
    pub(super) recipe: &'s Recipe,
    pub(super) fixtures: &'s FixtureSet,
    pub(super) replay: &'s Replay<'s>,
    pub(super) target: usize,
    /// Nodes that are computed, nearest to the target first.
    pub(super) computed: Vec<usize>,
    /// Goldens made before the failing one that the replay can read: node and shape, latest first.
    pub(super) earlier: Vec<(usize, Vec<usize>)>,
    shapes: BTreeMap<usize, Vec<usize>>,
}

impl<'s> Stage<'s> {
    pub(super) fn new(
        source: &StageRecipe<'s>,
        replay: &'s Replay<'s>,
        target: usize,
        part: Option<&Part>,
    ) -> Result<Self, ReplayError> {
        let recipe = source.recipe;
        let mut shapes = BTreeMap::new();
        for &node in replay.nodes() {
            shapes.insert(node, replay.value(node)?.shape().to_vec());
        }
        let is_computed = |node: &usize| {
            !replay.is_cut(*node) && !matches!(recipe.nodes[*node].op, Op::Leaf(_) | Op::Unknown { .. })
        };
        let computed = replay.nodes().iter().rev().copied().filter(is_computed).collect();
        let mut earlier: Vec<(usize, Vec<usize>)> = (source.tapped.iter())
            .filter_map(|name| {
                let node = source.target(name).filter(|node| *node != target)?;
                let entry =
                    source.fixtures.entries(crate::golden::Role::Golden).find(|entry| entry.name == *name)?;
                Some((node, part.map_or_else(|| entry.shape.clone(), |part| part.shape(&entry.shape))))
            })
            .collect();
        earlier.sort_unstable_by(|a, b| b.cmp(a));
        earlier.dedup();
        Ok(Self { recipe, fixtures: source.fixtures, replay, target, computed, earlier, shapes })
    }

    pub(super) fn node(&self, node: usize) -> &'s Node {
        &self.recipe.nodes[node]
    }

    pub(super) fn op(&self, node: usize) -> &'s Op {
        &self.node(node).op
    }

    /// The nodes that lead to the target: computed ones, leaves, and those at which the replay starts.
    pub(super) fn nodes(&self) -> &[usize] {
        self.replay.nodes()
    }

    /// The shape of a node that leads to the target.
    pub(super) fn shape(&self, node: usize) -> &[usize] {
        self.shapes.get(&node).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_computed(&self, node: usize) -> bool {
        self.computed.contains(&node)
    }

    /// The operands of a node that are nodes, with their positions.
    pub(super) fn operands(&self, node: usize) -> impl Iterator<Item = (usize, usize)> {
        self.node(node).inputs.iter().enumerate().filter_map(|(at, operand)| match operand {
            Operand::Node(operand) => Some((at, *operand)),
            Operand::Number(_) | Operand::Absent => None,
        })
    }

    /// The computed nodes that use a node.
    pub(super) fn users(&self, node: usize) -> impl Iterator<Item = usize> {
        let uses = move |user: &usize| self.node(*user).inputs.contains(&Operand::Node(node));
        self.computed.iter().copied().filter(uses)
    }

    /// Whether a node reaches the target only through a comparison, so that it decides what a mask hides.
    pub(super) fn feeds_mask(&self, node: usize) -> bool {
        let (mut waiting, mut seen) = (vec![node], BTreeSet::new());
        while let Some(node) = waiting.pop() {
            if node == self.target {
                return false;
            }
            let users = self.users(node).filter(|user| !self.op(*user).is_comparison() && seen.insert(*user));
            waiting.extend(users.collect::<Vec<_>>());
        }
        true
    }

    /// Whether `node` is computed from `ancestor`.
    pub(super) fn descends(&self, node: usize, ancestor: usize) -> bool {
        let (mut waiting, mut seen) = (vec![node], BTreeSet::new());
        while let Some(node) = waiting.pop() {
            let operands = self.operands(node).map(|(_, operand)| operand).filter(|_| self.is_computed(node));
            for operand in operands.collect::<Vec<_>>() {
                if operand == ancestor {
                    return true;
                }
                if seen.insert(operand) {
                    waiting.push(operand);
                }
            }
        }
        false
    }

    /// The value of a node without changes.
    pub(super) fn value(&self, node: usize) -> Option<Array> {
        self.replay.value(node).ok()
    }

    /// The name of the weight, if the node is a weight.
    pub(super) fn weight(&self, node: usize) -> Option<&'s str> {
        match self.op(node) {
            Op::Leaf(Leaf::Weight { name }) => Some(name),
            _ => None,
        }
    }

    /// Lengths of axes in the stage, each once.
    pub(super) fn lengths(&self) -> BTreeSet<usize> {
        self.shapes.values().flatten().copied().filter(|length| *length > 1).collect()
    }

    /// Describes a node for messages: its golden, its weight or input, or its operation.
    pub(super) fn name(&self, node: usize) -> String {
        if let Some(golden) = self.recipe.goldens_of(node).next() {
            return format!("`{golden}`");
        }
        match self.op(node) {
            Op::Leaf(Leaf::Input { name } | Leaf::Weight { name }) => format!("`{name}`"),
            Op::Leaf(Leaf::Constant { .. }) => "a constant tensor".to_owned(),
            op => match self.node(node).place {
                Some(place) => {
                    // A line of another file than the rest of the stage needs its file.
                    let file = self.recipe.sources.get(place.file).filter(|_| {
                        self.node(self.target).place.is_none_or(|target| target.file != place.file)
                    });
                    let file = file.and_then(|file| file.rsplit('/').next());
                    let file = file.map(|file| format!(" of {file}")).unwrap_or_default();
                    format!("`{}` of line {}{file}", op.name(), place.line)
                }
                None => format!("the result of `{}`", op.name()),
            },
        }
    }
}
