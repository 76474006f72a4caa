//! The result of comparing two tensors.

use super::metrics::Metrics;
use crate::gate::{Class, Phase};
use crate::number::percent;

/// The verdict on an actual, with the measurements behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The class of the first check that did not hold; `None` when all held.
    pub class: Option<Class>,
    /// The numbers that decided, in one line.
    pub detail: String,
    /// The measurements; absent when the shapes differ.
    pub metrics: Option<Metrics>,
}

impl Comparison {
    /// A failure that needed no measurement, such as a missing golden.
    pub fn failed(class: Class, detail: impl Into<String>) -> Self {
        Self { class: Some(class), detail: detail.into(), metrics: None }
    }

    /// The verdict on measured tensors: the first fault, or `agreement` in words when there is none.
    pub(super) fn measured(
        fault: Option<(Class, String)>,
        agreement: impl FnOnce() -> String,
        metrics: Metrics,
    ) -> Self {
        let (class, detail) = match fault {
            Some((class, detail)) => (Some(class), detail),
            None => (None, agreement()),
        };
        Self { class, detail, metrics: Some(metrics) }
    }

    /// Also requires that the two differ: `rms(actual - expected) / rms(expected)` must be at least `part`.
    ///
    /// A value gate must allow the effect of a step such as quantisation, so it cannot see that the step was left out: the
    /// result is then closer than it should be. A difference below `part` is the class *value*; a failure of an earlier
    /// check stays.
    pub fn at_least(self, part: f64) -> Self {
        let difference = self.metrics.as_ref().and_then(|metrics| metrics.difference.as_ref());
        let Some(found) = difference.map(|difference| difference.relative_l2) else { return self };
        if found >= part || self.class.is_some_and(|class| class.phase() <= Phase::Values) {
            return self;
        }
        let detail = format!(
            "differs by {}, expected at least {}: the step that makes the difference, such as a quantised layer, \
             probably did not run",
            percent(found),
            percent(part)
        );
        Self { class: Some(Class::Value), detail, ..self }
    }

    /// Gives a gradient that is zero everywhere a class of its own, where the gate fails and the golden is not zero.
    pub fn of_gradient(self) -> Self {
        let sides =
            self.metrics.as_ref().and_then(|metrics| Some((metrics.expected.as_ref()?, &metrics.actual)));
        let lost = sides.is_some_and(|(expected, actual)| expected.absmax > 0.0 && actual.absmax == 0.0);
        if self.class != Some(Class::Value) || !lost {
            return self;
        }
        let detail = format!("it is zero everywhere, and the golden is not: {}", self.detail);
        Self { class: Some(Class::Gradient), detail, ..self }
    }

    /// Whether every check held.
    pub fn passed(&self) -> bool {
        self.class.is_none()
    }
}
