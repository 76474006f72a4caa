//! The values that a replay reads instead of computing them.

use super::array::Array;
use super::error::ReplayError;
use super::work::Work;
use crate::golden::{FixtureError, FixtureSet};
use crate::recipe::{Leaf, Recipe};
use crate::tensor::Tensor;
use crate::text::error_chain;

/// Values that a replay starts from.
pub trait Leaves {
    /// The value of an input, a weight or a constant.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is too large.
    fn leaf(&self, leaf: &Leaf, work: &Work) -> Result<Array, ReplayError>;

    /// The known value of a node at which a replay starts.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is too large.
    fn cut(&self, node: usize, work: &Work) -> Result<Array, ReplayError>;
}

/// The tensors of a fixture set: its inputs, weights and constants, and its goldens as the values of their nodes.
#[derive(Debug, Clone, Copy)]
pub struct SetLeaves<'a> {
    /// The set.
    pub set: &'a FixtureSet,
    /// Its recipe.
    pub recipe: &'a Recipe,
}

impl Leaves for SetLeaves<'_> {
    fn leaf(&self, leaf: &Leaf, work: &Work) -> Result<Array, ReplayError> {
        Array::of(&self.leaf_tensor(leaf)?.view(), work)
    }

    fn cut(&self, node: usize, work: &Work) -> Result<Array, ReplayError> {
        Array::of(&self.cut_tensor(node)?.view(), work)
    }
}

impl SetLeaves<'_> {
    /// The tensor of an input, a weight or a constant.
    pub(crate) fn leaf_tensor(&self, leaf: &Leaf) -> Result<Tensor, ReplayError> {
        let (what, tensor) = match leaf {
            Leaf::Input { name } => (format!("input `{name}`"), self.set.input(name)),
            Leaf::Weight { name } => (format!("weight `{name}`"), self.set.weight(name)),
            Leaf::Constant { name } => (format!("constant `{name}`"), self.set.constant(name)),
            Leaf::Full { .. } | Leaf::Arange { .. } | Leaf::Table { .. } => {
                let problem = "it is not part of a fixture set".to_owned();
                return Err(ReplayError::Leaf { what: "a made-up tensor".to_owned(), problem });
            }
        };
        readable(what, tensor)
    }

    /// The golden that a node makes.
    pub(crate) fn cut_tensor(&self, node: usize) -> Result<Tensor, ReplayError> {
        let Some(name) = self.recipe.goldens_of(node).next() else {
            return Err(ReplayError::NoNode { node, problem: "makes no golden" });
        };
        readable(format!("golden `{name}`"), self.set.golden(name).map(|golden| golden.tensor))
    }
}

fn readable(what: String, tensor: Result<Tensor, FixtureError>) -> Result<Tensor, ReplayError> {
    tensor.map_err(|error| ReplayError::Leaf { what, problem: error_chain(&error) })
}
