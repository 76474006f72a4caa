//! A run in the order in which people look for a mistake when the picture is wrong: from the pixels back to the text.

use super::run::{Fate, RunResults, SpecResult};
use crate::spec::Stage;

impl RunResults {
    /// Puts specs in the order from the end of a pipeline to its start: images, autoencoders, schedulers, transformers, parts
    /// of them, text encoders, then specs without any stage. Specs of the same kind are sorted by id, last first. Ladders
    /// list their checkpoints from the last to the first, too.
    pub fn backwards(&mut self) {
        self.is_backwards = true;
        self.specs.sort_by_key(|spec| std::cmp::Reverse((spec.place(), spec.id.clone())));
    }
}

impl SpecResult {
    /// Returns the place of the spec in a pipeline, from 1 at its start: that of its last part. Stages such as `norm` occur in
    /// every part, so they count only where a spec has no other. A spec that did not run has the place 0.
    pub(crate) fn place(&self) -> u8 {
        let Fate::Ran(account) = &self.fate else { return 0 };
        let stages = || account.spec.checkpoints.iter().filter_map(|checkpoint| checkpoint.stage);
        stages().filter_map(place).max().unwrap_or(if stages().next().is_some() { 3 } else { 1 })
    }
}

fn place(stage: Stage) -> Option<u8> {
    match stage {
        Stage::TextEncoder => Some(2),
        Stage::Transformer => Some(4),
        Stage::Scheduler => Some(5),
        Stage::Vae => Some(6),
        Stage::Image => Some(7),
        Stage::Embedding
        | Stage::Norm
        | Stage::Rope
        | Stage::Attention
        | Stage::Mlp
        | Stage::Linear
        | Stage::Conv
        | Stage::Modulation
        | Stage::Residual
        | Stage::Gradient
        | Stage::Optimizer => None,
    }
}
