//! Parts of stages that are too large to replay whole: some indices of one axis, such as some tokens, heads or channels.
//!
//! A plan follows the stage back from the failing golden. Many operations compute each index of an axis by itself, as a norm
//! over channels computes each token. Such an operation needs only the same indices of its operands, and most weights whole.
//! If all operations are of this kind, only these indices are read of the tensors at which the replay starts.

mod axes;
mod shapes;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::diagnose::stage_recipe::StageRecipe;
use crate::golden::Role;
use crate::recipe::{Form, Leaf, Op, Operand, Recipe};
use crate::replay::{Array, Leaves, Replay, ReplayError, SetLeaves, Work};
use crate::tensor::{Tensor, TensorView};
use axes::{Needed, needed};

/// A stage that can be replayed in parts along one axis of its golden.
pub(super) struct PartPlan<'a> {
    source: &'a StageRecipe<'a>,
    /// The axis of the golden, as the reference lays it out.
    pub(super) axis: usize,
    /// The length of that axis.
    pub(super) length: usize,
    /// What is needed of each node.
    needed: BTreeMap<usize, Needed>,
    shapes: BTreeMap<usize, Vec<usize>>,
}

/// A part of a stage: the recipe for some indices, and the tensors that it starts from.
pub(super) struct Part<'a> {
    pub(super) recipe: Recipe,
    range: Range<usize>,
    leaves: SetLeaves<'a>,
    /// Per node at which the replay starts, the axis along which its tensor is cut.
    cut_nodes: BTreeMap<usize, usize>,
    /// Per shape of other goldens, the axis along which they are cut.
    shapes: BTreeMap<Vec<usize>, usize>,
    /// Per input, weight or constant, the axis along which it is cut; `None` if it is needed whole.
    cut_leaves: BTreeMap<String, Option<usize>>,
}

impl<'a> PartPlan<'a> {
    /// Plans for every axis along which the stage can be cut, the longest first.
    pub(super) fn all(source: &'a StageRecipe<'a>, replay: &Replay, target: usize) -> Vec<Self> {
        let Some(shapes) = shapes_of(source, replay) else { return Vec::new() };
        let Some(golden) = shapes.get(&target).cloned() else { return Vec::new() };
        let mut axes: Vec<usize> = (0..golden.len()).filter(|axis| golden[*axis] > 1).collect();
        axes.sort_by_key(|axis| std::cmp::Reverse(golden[*axis]));
        let plan = |axis: usize| {
            let needed = follow(source.recipe, replay, &shapes, target, axis)?;
            Some(Self { source, axis, length: golden[axis], needed, shapes: shapes.clone() })
        };
        axes.into_iter().filter_map(plan).collect()
    }

    /// The axis of the failing tensor in the port's layout.
    pub(super) fn port_axis(&self) -> Option<usize> {
        let squeezed = &self.source.squeeze;
        let axis = self.axis - squeezed.iter().filter(|dropped| **dropped < self.axis).count();
        match self.source.layout {
            None => Some(axis),
            Some(layout) => layout.iter().position(|from| *from == axis),
        }
    }

    /// The part with these indices; `None` if a tensor is needed in two ways.
    pub(super) fn part(&self, range: Range<usize>) -> Option<Part<'a>> {
        let mut recipe = self.source.recipe.clone();
        let mut cut_leaves: BTreeMap<String, Option<usize>> = BTreeMap::new();
        let (mut cut_nodes, mut by_shape) = (BTreeMap::new(), BTreeMap::new());
        for (&node, needed) in &self.needed {
            let axis = match needed {
                Needed::Whole => None,
                Needed::Along(axis) => Some(*axis),
            };
            if let Op::Leaf(leaf) = &recipe.nodes[node].op
                && let Some(name) = key(leaf)
                && *cut_leaves.entry(name).or_insert(axis) != axis
            {
                return None;
            }
            if let Some(axis) = axis {
                cut_nodes.insert(node, axis);
                by_shape.insert(self.shapes.get(&node)?.clone(), axis);
                shorten(&mut recipe.nodes[node].op, axis, &range);
            }
        }
        let leaves = SetLeaves { set: self.source.fixtures, recipe: self.source.recipe };
        Some(Part { recipe, range, leaves, cut_nodes, shapes: by_shape, cut_leaves })
    }
}

impl Part<'_> {
    /// The shape of a golden in the part.
    pub(super) fn shape(&self, whole: &[usize]) -> Vec<usize> {
        let mut shape = whole.to_vec();
        if let Some(&axis) = self.shapes.get(whole) {
            shape[axis] = self.range.len();
        }
        shape
    }
}

impl Leaves for Part<'_> {
    fn leaf(&self, leaf: &Leaf, work: &Work) -> Result<Array, ReplayError> {
        let axis = key(leaf).and_then(|name| self.cut_leaves.get(&name).copied().flatten());
        match axis {
            None => self.leaves.leaf(leaf, work),
            Some(axis) => read(&self.leaves.leaf_tensor(leaf)?, axis, &self.range, work),
        }
    }

    fn cut(&self, node: usize, work: &Work) -> Result<Array, ReplayError> {
        let tensor = self.leaves.cut_tensor(node)?;
        match self.cut_nodes.get(&node).or_else(|| self.shapes.get(tensor.shape())) {
            None => Array::of(&tensor.view(), work),
            Some(&axis) => read(&tensor, axis, &self.range, work),
        }
    }
}

fn read(tensor: &Tensor, axis: usize, range: &Range<usize>, work: &Work) -> Result<Array, ReplayError> {
    let problem =
        || ReplayError::Leaf { what: "a part of a tensor".to_owned(), problem: "it is too short".to_owned() };
    Array::of(&narrowed(&tensor.view(), axis, range).ok_or_else(problem)?.view(), work)
}

/// A copy of some indices of an axis; `None` if the axis is shorter.
pub(super) fn narrowed(view: &TensorView, axis: usize, range: &Range<usize>) -> Option<Tensor> {
    let length = *view.shape().get(axis)?;
    if range.end > length {
        return None;
    }
    let (before, after) = (&view.shape()[..axis], &view.shape()[axis + 1..]);
    let (outer, inner) = (before.iter().product::<usize>(), after.iter().product::<usize>());
    let run = range.len() * inner * view.dtype().size();
    let mut bytes = vec![0; outer * run];
    if run > 0 {
        for (at, part) in bytes.chunks_exact_mut(run).enumerate() {
            view.gather((at * length + range.start) * inner, part);
        }
    }
    let mut shape = view.shape().to_vec();
    shape[axis] = range.len();
    Tensor::from_vec(view.dtype(), shape, bytes).ok()
}

/// A key for an input, a weight or a constant. It includes the kind, because an input and a weight may have the same name.
fn key(leaf: &Leaf) -> Option<String> {
    match leaf {
        Leaf::Input { name } => Some(format!("input {name}")),
        Leaf::Weight { name } => Some(format!("weight {name}")),
        Leaf::Constant { name } => Some(format!("constant {name}")),
        Leaf::Full { .. } | Leaf::Arange { .. } | Leaf::Table { .. } => None,
    }
}

/// Shortens an operation whose attributes hold the length of its result.
fn shorten(op: &mut Op, axis: usize, range: &Range<usize>) {
    match op {
        Op::Form(Form::Reshape { shape } | Form::Expand { shape }) | Op::Leaf(Leaf::Full { shape, .. }) => {
            if let Some(length) = shape.get_mut(axis) {
                *length = range.len();
            }
        }
        Op::Leaf(Leaf::Arange { start, end, step }) => {
            let first = *start + *step * range.start as f64;
            // The end is half a step after the last number, so that rounding does not add or drop a number.
            (*start, *end) = (first, first + *step * (range.len() as f64 - 0.5));
        }
        _ => {}
    }
}

/// The shape of every node that leads to the target, if all are known.
fn shapes_of(source: &StageRecipe, replay: &Replay) -> Option<BTreeMap<usize, Vec<usize>>> {
    let recipe = source.recipe;
    let entry = |role, name: &str| {
        source.fixtures.entries(role).find(|entry| entry.name == name).map(|entry| entry.shape.clone())
    };
    let mut shapes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &node in replay.nodes() {
        let shape = if replay.is_cut(node) {
            recipe.goldens_of(node).next().and_then(|name| entry(Role::Golden, name))
        } else {
            match &recipe.nodes[node].op {
                Op::Leaf(Leaf::Input { name }) => entry(Role::Input, name),
                Op::Leaf(Leaf::Weight { name }) => entry(Role::Weight, name),
                Op::Leaf(Leaf::Constant { name }) => entry(Role::Constant, name),
                op => {
                    let operands: Vec<Option<&[usize]>> = operand_shapes(recipe, node, &shapes);
                    shapes::result(op, &operands)
                }
            }
        };
        shapes.insert(node, shape?);
    }
    Some(shapes)
}

fn operand_shapes<'s>(
    recipe: &Recipe,
    node: usize,
    shapes: &'s BTreeMap<usize, Vec<usize>>,
) -> Vec<Option<&'s [usize]>> {
    let shape = |operand: &Operand| match operand {
        Operand::Node(node) => shapes.get(node).map(Vec::as_slice),
        Operand::Number(_) => Some(&[][..]),
        Operand::Absent => None,
    };
    recipe.nodes[node].inputs.iter().map(shape).collect()
}

/// What a range of the target's indices along `axis` needs of every node; `None` if some operation mixes the indices.
fn follow(
    recipe: &Recipe,
    replay: &Replay,
    shapes: &BTreeMap<usize, Vec<usize>>,
    target: usize,
    axis: usize,
) -> Option<BTreeMap<usize, Needed>> {
    let mut all = BTreeMap::from([(target, Needed::Along(axis))]);
    // Operands have smaller numbers than their users, so every user of a node comes before it.
    for &node in replay.nodes().iter().rev() {
        let of_node = *all.get(&node)?;
        if replay.is_cut(node) {
            continue;
        }
        let operands = operand_shapes(recipe, node, shapes);
        for (at, operand) in recipe.nodes[node].inputs.iter().enumerate() {
            let Operand::Node(operand) = operand else { continue };
            let of_operand = match of_node {
                Needed::Whole => Needed::Whole,
                Needed::Along(axis) => {
                    needed(&recipe.nodes[node].op, at, axis, shapes.get(&node)?, &operands)?
                }
            };
            if *all.entry(*operand).or_insert(of_operand) != of_operand {
                return None;
            }
        }
    }
    Some(all)
}
