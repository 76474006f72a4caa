//! Errors of [`Run`](super::Run) and [`WeightSet`](super::WeightSet).

use thiserror::Error;

use super::array::ArrayError;
use mlx_parity_core::golden::FixtureError;
use mlx_parity_core::tensor::Dtype;
use mlx_parity_core::weights::WeightIndexError;

/// Why [`Run`](crate::Run) or [`WeightSet`](crate::WeightSet) could not return an input, a weight or the parameters.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum RunError {
    #[error("input `{name}` is not in the spec's `inputs` ({declared})")]
    UndeclaredInput { name: String, declared: String },
    #[error("the spec has no `weights`")]
    NoWeights,
    #[error(transparent)]
    WeightIndex(#[from] WeightIndexError),
    #[error("weight `{name}` does not exist{near}")]
    NoWeight { name: String, near: String },
    #[error("the spec has no `adapters`")]
    NoAdapters,
    #[error("adapter weight `{name}` does not exist{near}")]
    NoAdapterWeight { name: String, near: String },
    #[error("module parameter `{name}` has shape {wanted:?}, but the weight has {found:?}")]
    WeightShape { name: String, wanted: Vec<usize>, found: Vec<usize> },
    #[error("module parameter `{name}` is {wanted}, but the weight is {found}")]
    WeightDtype { name: String, wanted: Dtype, found: Dtype },
    #[error("the spec's `reference.params` do not match the port's type: {0}")]
    Params(#[source] serde_json::Error),
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    #[error(transparent)]
    Array(#[from] ArrayError),
}
