//! What a comparison comes back with.

use super::metrics::Metrics;
use crate::class::Class;

/// The verdict on one tensor, with what it rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The class of the first check that did not hold; `None` when all did.
    pub class: Option<Class>,
    /// The verdict in one line, with the numbers that decided.
    pub detail: String,
    /// What was measured; absent when the shapes differ.
    pub metrics: Option<Metrics>,
}

impl Outcome {
    /// Whether every check held.
    pub fn passed(&self) -> bool {
        self.class.is_none()
    }
}
