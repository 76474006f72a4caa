//! What every explanation is tried on: the sample of one failing checkpoint, and the tensors around it.

use super::sampled_pair::SampledPair;
use super::{Cause, FailingCheckpoint, KnownTensor};
use crate::tensor::Float64View;
use crate::tensor::Tensor;

/// A failing checkpoint, and the sample of it that explanations are tried on.
pub(super) struct Search<'s, 'a> {
    pub(super) pair: SampledPair<'a>,
    pub(super) checkpoint: &'s FailingCheckpoint<'a>,
    /// If given, only changes of the recipe like these causes are tried.
    pub(super) only: Option<&'s [Cause]>,
}

impl<'s, 'a> Search<'s, 'a> {
    pub(super) fn new(checkpoint: &'s FailingCheckpoint<'a>, only: Option<&'s [Cause]>) -> Self {
        Self { pair: SampledPair::new(checkpoint), checkpoint, only }
    }

    /// The values of a known tensor, if the budget allows reading them.
    pub(super) fn tensor(&self, known: &KnownTensor) -> Option<Tensor> {
        let FailingCheckpoint { known: all, budget, .. } = self.checkpoint;
        let work = all.work(known) + known.len().min(self.pair.positions.len());
        budget.spend(work).then(|| all.tensor(known)).flatten()
    }

    /// Calls `work` with the values of a known tensor, if the budget allows reading them.
    pub(super) fn with_values<T>(
        &self,
        known: &KnownTensor,
        work: impl FnOnce(&Float64View) -> Option<T>,
    ) -> Option<T> {
        let tensor = self.tensor(known)?;
        work(&Float64View::new(&tensor.view()))
    }

    /// The tensors before this one that have its shape, nearest first, at most `most`.
    pub(super) fn inputs(&self, most: usize) -> impl Iterator<Item = &KnownTensor> {
        let shape = self.pair.shape();
        self.checkpoint.known.before().iter().filter(move |known| known.float64_shape() == shape).take(most)
    }

    /// The axis lengths that occur in nearby shapes, those of the checkpoint itself first.
    pub(super) fn lengths(&self) -> Vec<usize> {
        let own = self.pair.expected.shape().iter().rev();
        let nearby = self.checkpoint.known.before().iter().take(8).flat_map(|known| known.shape.iter().rev());
        let mut lengths: Vec<usize> = Vec::new();
        for &length in own.chain(nearby) {
            if !lengths.contains(&length) {
                lengths.push(length);
            }
        }
        lengths
    }
}
