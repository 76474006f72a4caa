//! Which tensor of the other run a twin's checkpoint is compared with, and in which rows.

use serde::{Deserialize, Serialize};

use super::tensor_part::TensorPart;

/// How the tensor of a twin corresponds to that of the run it is compared with.
///
/// Without any field, both are compared whole, hit by hit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counterpart {
    /// The part of the twin's tensor that is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<TensorPart>,
    /// The part of the other run's tensor that is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_slice: Option<TensorPart>,
    /// The axis along which the twin's hits follow one another in the other run's tensor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub along: Option<usize>,
    /// The input that selects rows of the twin's tensor: those where it is not 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
    /// Whether the tap is inside compiled code, where no tensor can be evaluated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
}

impl Counterpart {
    /// Whether the whole tensors correspond, hit by hit.
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }
}
