//! Functions of one tensor that a reference writes as several operations, such as `0.5 * x * (1 + tanh(…))`.

use super::super::candidate::Expression;
use super::super::stage::Stage;
use crate::recipe::{Op, Operand};
use crate::replay::NewOperand;

/// The most operations of a chain.
const MOST: usize = 16;

/// Element-wise operations on a single tensor and numbers.
pub(super) struct Chain {
    /// The tensor.
    pub(super) source: usize,
    /// The operations, in order; the last is the result.
    pub(super) nodes: Vec<usize>,
}

impl Chain {
    /// The longest chain that ends in `node` and is a function of one tensor alone; `None` if there is none.
    pub(super) fn ending_in(stage: &Stage, node: usize) -> Option<Self> {
        let is_elementwise = |node: usize| {
            stage.is_computed(node)
                && matches!(stage.op(node), Op::Unary(_) | Op::Binary(_) | Op::Cast { .. })
        };
        if !is_elementwise(node) {
            return None;
        }
        let mut nodes = vec![node];
        let mut open = operands(stage, node);
        let mut best = None;
        loop {
            open.sort_unstable();
            open.dedup();
            if let [source] = open[..] {
                best = Some((source, nodes.len()));
            }
            // The latest operand is followed first, because it may be computed from an earlier one.
            match open.pop() {
                Some(latest) if is_elementwise(latest) && nodes.len() < MOST => {
                    nodes.push(latest);
                    open.extend(operands(stage, latest));
                }
                _ => break,
            }
        }
        let (source, count) = best?;
        nodes.truncate(count);
        nodes.reverse();
        Some(Self { source, nodes })
    }

    /// The same operations on another tensor.
    pub(super) fn of(&self, stage: &Stage, tensor: NewOperand, new: &mut Expression) -> NewOperand {
        let mut made: Vec<(usize, NewOperand)> = vec![(self.source, tensor)];
        for &node in &self.nodes {
            let inputs = stage.node(node).inputs.iter().map(|operand| match *operand {
                Operand::Node(operand) => (made.iter().find(|(of, _)| *of == operand))
                    .map_or(NewOperand::Old(operand), |(_, value)| *value),
                other => other.into(),
            });
            let value = new.add(stage.op(node).clone(), inputs.collect());
            made.push((node, value));
        }
        made.last().map_or(tensor, |(_, value)| *value)
    }
}

fn operands(stage: &Stage, node: usize) -> Vec<usize> {
    stage.operands(node).map(|(_, operand)| operand).collect()
}
