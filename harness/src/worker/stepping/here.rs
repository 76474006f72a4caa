//! The tap at which the port stands.

use std::panic::Location;

use mlx_rs::Array;

use super::super::observer::Hit;
use super::super::peek::evaluate;
use super::condition::used;
use super::tensors::SessionTensors;
use mlx_parity_core::compare::examine;
use mlx_parity_core::debug::{GoesOn, TappedTensor};
use mlx_parity_core::gate::Rule;
use mlx_parity_core::record;
use mlx_parity_core::spec::hit_name;
use mlx_parity_core::tensor::Tensor;

/// The tap at which the port stands.
pub(super) struct Here {
    pub(super) hit: Hit,
    pub(super) info: record::TensorInfo,
    pub(super) actual: Option<Tensor>,
    pub(super) golden: Option<Tensor>,
    /// Why there is no actual.
    pub(super) problem: Option<String>,
    /// What the port goes on with.
    pub(super) array: Array,
    pub(super) goes_on: GoesOn,
}

impl Here {
    /// Reads golden and actual, which a tap that the port only passes does not need.
    pub(super) fn read(&mut self, known: &SessionTensors) {
        if self.actual.is_none() && self.problem.is_none() {
            match evaluate(&self.array, &self.info) {
                Ok(tensor) => self.actual = Some(tensor),
                Err(problem) => self.problem = Some(problem),
            }
        }
        if self.golden.is_none() {
            self.golden = known.golden(&hit_name(&self.hit.name, self.hit.hit)).ok();
        }
    }

    /// Describes the tap to the front.
    pub(super) fn tapped(&self) -> TappedTensor {
        let record = self.hit.record.as_deref();
        let metrics = record.and_then(|record| record.metrics.as_ref());
        let difference = metrics.and_then(|metrics| metrics.difference.as_ref());
        let examined = || {
            let actual = self.actual.as_ref()?;
            Some(examine(&actual.view(), &Rule::default()).metrics?.actual)
        };
        TappedTensor {
            name: self.hit.name.clone(),
            hit: self.hit.hit,
            checked: record.is_some(),
            status: record.map(|record| record.verdict.status),
            class: record.and_then(|record| record.verdict.class),
            detail: record.map(|record| record.verdict.detail.clone()).unwrap_or_default(),
            used: difference.and_then(|difference| difference.used).map(|_| used(record)),
            max_abs: difference.map(|difference| difference.max_abs),
            expected: record.and_then(|record| record.expected.clone()),
            actual: self.info.clone(),
            expected_stats: metrics.and_then(|metrics| metrics.expected.clone()),
            actual_stats: metrics.map(|metrics| metrics.actual.clone()).or_else(examined),
        }
    }
}

/// The call of a tap, as records have it.
pub(super) fn place(place: &'static Location<'static>) -> record::Location {
    record::Location { file: place.file().to_owned(), line: place.line() }
}
