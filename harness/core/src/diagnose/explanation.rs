//! An explanation of one failure.

use super::diagnosis::Cause;
use super::{CauseKind, SmallResidual};

/// An explanation that holds, as its [`SmallResidual`] proves.
pub(super) struct Explanation {
    kind: CauseKind,
    /// How much the explanation assumes. Of two explanations that hold, the one that assumes less is reported.
    pub(super) cost: u8,
    pub(super) residual: SmallResidual,
    /// What the actual is, as in [`Cause::text`].
    text: String,
}

impl Explanation {
    pub(super) fn new(kind: CauseKind, cost: u8, residual: SmallResidual, text: String) -> Self {
        Self { kind, cost, residual, text }
    }

    pub(super) fn into_cause(self, sampled: Option<u64>) -> Cause {
        Cause {
            kind: self.kind,
            also: Vec::new(),
            same_as: Vec::new(),
            text: self.text,
            place: None,
            residual: *self.residual,
            sampled,
        }
    }
}
