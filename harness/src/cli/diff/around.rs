//! The tensors of A around one of them, in A's order: what a difference may be explained with.

use super::side::Side;
use crate::diagnose::{Other, Others};
use crate::tensor::Tensor;

/// What surrounds one tensor of a side.
pub(super) struct Around<'s> {
    side: &'s Side,
    names: Vec<String>,
    before: Vec<Other>,
    after: Vec<Other>,
}

impl<'s> Around<'s> {
    /// What surrounds the tensor at `at`, the others being in the order of `order`.
    pub(super) fn new(side: &'s Side, order: &[usize], at: usize) -> Self {
        let names: Vec<String> = side.names().map(str::to_owned).collect();
        let place = order.iter().position(|other| *other == at).unwrap_or(0);
        let other = |&other: &usize| {
            let tensor = side.tensor(other).ok()?;
            Some(Other { name: names[other].clone(), dtype: tensor.dtype(), shape: tensor.shape().to_vec() })
        };
        let before = order[..place].iter().rev().filter_map(other).collect();
        let after = order[place..].iter().filter(|other| **other != at).filter_map(other).collect();
        Self { side, before, after, names }
    }
}

impl Others for Around<'_> {
    fn before(&self) -> &[Other] {
        &self.before
    }

    fn after(&self) -> &[Other] {
        &self.after
    }

    fn weights(&self) -> &[Other] {
        &[]
    }

    fn tensor(&self, other: &Other) -> Option<Tensor> {
        self.side.tensor(self.names.iter().position(|name| *name == other.name)?).ok()
    }
}
