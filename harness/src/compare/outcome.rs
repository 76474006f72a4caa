//! What a comparison comes back with.

use super::metrics::Metrics;
use super::number::percent;
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
    /// Demands that the two differ, too: `rms(actual - expected) / rms(expected)` must be at least `part`.
    ///
    /// A value gate cannot see that a step was left out whose effect it has to allow, as that of a quantised layer: the
    /// result is then nearer than it should be. Less than `part` is the class *value*; a failure of an earlier class stays.
    pub fn at_least(self, part: f64) -> Self {
        let difference = self.metrics.as_ref().and_then(|metrics| metrics.difference.as_ref());
        let Some(found) = difference.map(|difference| difference.relative_l2) else { return self };
        if found >= part || self.class.is_some_and(|class| class <= Class::Value) {
            return self;
        }
        let detail = format!(
            "differs by {}, at least {} expected: what makes the difference, such as a quantised layer, was probably not \
             used",
            percent(found),
            percent(part)
        );
        Self { class: Some(Class::Value), detail, ..self }
    }

    /// Whether every check held.
    pub fn passed(&self) -> bool {
        self.class.is_none()
    }
}
