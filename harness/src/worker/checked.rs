//! What the check of one hit of a tap found.

use mlx_rs::Array;

use super::array::ArrayError;
use super::picture::Picture;
use mlx_parity_core::compare::{self, Beside, Comparison};
use mlx_parity_core::details::ErrorDetails;
use mlx_parity_core::diagnose::Diagnosis;
use mlx_parity_core::gate::{Class, Floor, Rule};
use mlx_parity_core::record;
use mlx_parity_core::tensor::{Tensor, TensorView};

/// The result of checking one hit of a tap.
pub(super) struct Checked {
    pub(super) outcome: Comparison,
    /// Dtype and shape of the expected tensor; `None` if there was none to compare with.
    pub(super) expected: Option<record::TensorInfo>,
    pub(super) floor: Option<Floor>,
    /// The block of the reference in which a local floor was measured.
    pub(super) floor_block: Option<String>,
    /// The golden that the port continues with; `None` if it is not injected.
    pub(super) injected: Option<Result<Array, ArrayError>>,
    /// The golden's sequence number in the reference's run.
    pub(super) sequence: Option<u64>,
    /// Golden and actual as images, at a checkpoint with the stage `image`.
    pub(super) picture: Option<Picture>,
    /// Causes of a failure; empty if the failure was not diagnosed.
    pub(super) diagnosis: Diagnosis,
    /// The rows of a cache in the order of the expected tensor, and how its slots were matched.
    pub(super) matched: Option<(Tensor, record::Slots)>,
    /// Where the error of a failure is; `None` without a failure, and for all but the first failures.
    pub(super) error: Option<ErrorDetails>,
    /// The place in the reference's source that made the golden.
    pub(super) place: Option<String>,
}

impl Checked {
    /// Returns the comparison of a hit with its expected tensor.
    pub(super) fn of(expected: &TensorView<'_>, actual: &Tensor, rule: &Rule) -> Self {
        Self::beside(expected, actual, rule, &Beside::default())
    }

    /// Returns the comparison of a hit with its expected tensor, and with what its choices are judged by.
    pub(super) fn beside(
        expected: &TensorView<'_>,
        actual: &Tensor,
        rule: &Rule,
        beside: &Beside<'_>,
    ) -> Self {
        let outcome = compare::compare_choices(expected, &actual.view(), rule, beside);
        Self { expected: Some(expected.into()), floor: rule.floor, ..outcome.into() }
    }

    /// Returns the check of a hit that was compared with nothing.
    pub(super) fn failed(class: Class, detail: String) -> Self {
        Comparison::failed(class, detail).into()
    }
}

impl From<Comparison> for Checked {
    fn from(outcome: Comparison) -> Self {
        Self {
            outcome,
            expected: None,
            floor: None,
            floor_block: None,
            injected: None,
            sequence: None,
            picture: None,
            diagnosis: Diagnosis::default(),
            matched: None,
            error: None,
            place: None,
        }
    }
}
