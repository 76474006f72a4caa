//! The tensors of A before and after a given one, which may explain a difference.

use super::side::DiffSide;
use mlx_parity_core::diagnose::{KnownTensor, KnownTensors};
use mlx_parity_core::tensor::Tensor;

/// The tensors before and after one tensor of a side, nearest first.
pub(super) struct Neighbours<'s> {
    side: &'s DiffSide,
    names: Vec<String>,
    before: Vec<KnownTensor>,
    after: Vec<KnownTensor>,
}

impl<'s> Neighbours<'s> {
    /// Returns the neighbours of the tensor at `at`, where `order` lists all tensors of the side.
    pub(super) fn new(side: &'s DiffSide, order: &[usize], at: usize) -> Self {
        let names: Vec<String> = side.names().map(str::to_owned).collect();
        let place = order.iter().position(|other| *other == at).unwrap_or(0);
        let other = |&other: &usize| {
            let tensor = side.tensor(other).ok()?;
            Some(KnownTensor {
                name: names[other].clone(),
                dtype: tensor.dtype(),
                shape: tensor.shape().to_vec(),
            })
        };
        let before = order[..place].iter().rev().filter_map(other).collect();
        let after = order[place..].iter().filter(|other| **other != at).filter_map(other).collect();
        Self { side, before, after, names }
    }
}

impl KnownTensors for Neighbours<'_> {
    fn before(&self) -> &[KnownTensor] {
        &self.before
    }

    fn after(&self) -> &[KnownTensor] {
        &self.after
    }

    fn tensor(&self, other: &KnownTensor) -> Option<Tensor> {
        self.side.tensor(self.names.iter().position(|name| *name == other.name)?).ok()
    }
}
