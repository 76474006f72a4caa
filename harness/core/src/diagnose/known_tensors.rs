//! The tensors that an error may be explained with: other goldens, inputs and weights.

use crate::golden::StepFacts;
use crate::tensor::{Dtype, Tensor};

/// Name, dtype and shape of a tensor that is known beside the failing one.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownTensor {
    /// The name of the golden, input or weight.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, in the port's layout.
    pub shape: Vec<usize>,
}

impl KnownTensor {
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The shape of its `Float64View`: a complex tensor has one more axis.
    pub(super) fn float64_shape(&self) -> Vec<usize> {
        let mut shape = self.shape.clone();
        shape.extend((self.dtype == Dtype::Complex64).then_some(2));
        shape
    }

    /// How many numbers its `Float64View` has.
    pub(super) fn float64_len(&self) -> usize {
        self.float64_shape().iter().product()
    }
}

/// The tensors around a failing checkpoint. Their values are read only when an explanation needs them.
pub trait KnownTensors {
    /// Goldens that the reference makes before this one, nearest first, then the inputs.
    fn before(&self) -> &[KnownTensor];
    /// Goldens that the reference makes after this one, nearest first.
    fn after(&self) -> &[KnownTensor];
    /// Weights; none where only tensors are compared.
    fn weights(&self) -> &[KnownTensor] {
        &[]
    }
    /// The values of one of these tensors, in the port's layout; `None` if they cannot be read.
    fn tensor(&self, known: &KnownTensor) -> Option<Tensor>;
    /// The goldens that a step of an optimiser made, by name.
    fn steps(&self) -> Vec<(&str, &StepFacts)> {
        Vec::new()
    }
    /// How many elements [`KnownTensors::tensor`] has to copy before any can be read.
    fn work(&self, _: &KnownTensor) -> usize {
        0
    }
}

/// No known tensors: the golden alone has to explain the error.
pub struct NoKnownTensors;

impl KnownTensors for NoKnownTensors {
    fn before(&self) -> &[KnownTensor] {
        &[]
    }

    fn after(&self) -> &[KnownTensor] {
        &[]
    }

    fn tensor(&self, _: &KnownTensor) -> Option<Tensor> {
        None
    }
}
