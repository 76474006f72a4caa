//! What a diagnosis starts from.

use super::stage_recipe::StageRecipe;
use super::{Budget, KnownTensors};
use crate::gate::Rule;
use crate::spec::Stage;
use crate::tensor::TensorView;

/// A checkpoint that failed, with everything its error may be explained with.
pub struct FailingCheckpoint<'a> {
    /// The checkpoint's name, as goldens have it.
    pub name: &'a str,
    /// The kind of computation that ends at the checkpoint, if the spec declares one. Its families of explanations are
    /// tried first and win a tie.
    pub stage: Option<Stage>,
    /// The golden, in the port's layout.
    pub expected: TensorView<'a>,
    /// The tensor that the port computed. Other tensors can explain it only if it was computed from golden inputs.
    pub actual: TensorView<'a>,
    /// The checkpoint's gate and floor.
    pub rule: &'a Rule,
    /// The other tensors of the fixture set.
    pub known: &'a dyn KnownTensors,
    /// How the reference made the golden, if the fixture set has a recipe.
    pub recipe: Option<StageRecipe<'a>>,
    /// How many elements the search may read.
    pub budget: &'a Budget,
}

impl<'a> FailingCheckpoint<'a> {
    /// The same checkpoint with other tensors, without its recipe.
    pub(super) fn with<'s>(&self, expected: TensorView<'s>, actual: TensorView<'s>) -> FailingCheckpoint<'s>
    where
        'a: 's,
    {
        let Self { name, stage, rule, known, budget, .. } = *self;
        FailingCheckpoint { name, stage, expected, actual, rule, known, recipe: None, budget }
    }
}
