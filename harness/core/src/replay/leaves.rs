//! Where the values come from that a replay does not compute.

use super::array::Array;
use super::error::ReplayError;
use super::work::Work;
use crate::golden::FixtureSet;
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

/// The tensors of a fixture set: its inputs, weights and constants, and its goldens for the nodes that make them.
#[derive(Debug, Clone, Copy)]
pub struct SetLeaves<'a> {
    /// The set.
    pub set: &'a FixtureSet,
    /// Its recipe.
    pub recipe: &'a Recipe,
}

impl Leaves for SetLeaves<'_> {
    fn leaf(&self, leaf: &Leaf, work: &Work) -> Result<Array, ReplayError> {
        let (what, tensor) = match leaf {
            Leaf::Input { name } => (format!("input `{name}`"), self.set.input(name)),
            Leaf::Weight { name } => (format!("weight `{name}`"), self.set.weight(name)),
            Leaf::Constant { name } => (format!("constant `{name}`"), self.set.constant(name)),
            Leaf::Full { .. } | Leaf::Arange { .. } => {
                let problem = "it is not part of a fixture set".to_owned();
                return Err(ReplayError::Leaf { what: "a made-up tensor".to_owned(), problem });
            }
        };
        read(what, tensor, work)
    }

    fn cut(&self, node: usize, work: &Work) -> Result<Array, ReplayError> {
        let Some(name) = self.recipe.goldens_of(node).next() else {
            return Err(ReplayError::NoNode { node, problem: "makes no golden" });
        };
        read(format!("golden `{name}`"), self.set.golden(name).map(|golden| golden.tensor), work)
    }
}

fn read(
    what: String,
    tensor: Result<Tensor, crate::golden::FixtureError>,
    work: &Work,
) -> Result<Array, ReplayError> {
    match tensor {
        Ok(tensor) => Array::of(&tensor.view(), work),
        Err(error) => Err(ReplayError::Leaf { what, problem: error_chain(&error) }),
    }
}
