//! Green checkpoints whose range is far from that of the golden: a loose gate lets a wrong scale pass.

use std::collections::BTreeMap;

use super::finding::Finding;
use mlx_parity_core::gate::USUAL_NOISE;
use mlx_parity_core::record::{Record, Status};
use mlx_parity_core::report::multiple;
use mlx_parity_core::results::RunData;
use mlx_parity_core::spec::Spec;

/// The ratios of two ranges, `max - min`, that are ordinary.
const ORDINARY: std::ops::RangeInclusive<f64> = 0.5..=2.0;

/// The lines of a spec with a green row in the run whose range is not ordinary; of a loop the worst row.
pub(super) fn unusual_ranges(spec: &Spec, data: &RunData) -> Vec<Finding> {
    let mut lines: BTreeMap<usize, (f64, &Record)> = BTreeMap::new();
    for record in data.records() {
        let Some(checkpoint) = spec.checkpoint(&record.checkpoint) else { continue };
        // The row must be green under the gate that the spec has now.
        if record.verdict.status != Status::Pass || record.gate != checkpoint.gate {
            continue;
        }
        let Some(ratio) = unusual_ratio(record) else { continue };
        let far = |ratio: f64| ratio.max(1.0 / ratio);
        let worst = lines.entry(checkpoint.line).or_insert((ratio, record));
        if far(ratio) > far(worst.0) {
            *worst = (ratio, record);
        }
    }
    let finding = |(line, (ratio, record)): (usize, (f64, &Record))| Finding {
        is_error: false,
        message: format!(
            "`{}` passed, but its range (max - min) is {} that of the golden",
            record.checkpoint,
            multiple(ratio)
        ),
        path: spec.path.clone(),
        line: Some(line),
        notes: Vec::new(),
        help: Some(
            "look at its values; if they are wrong, tighten the gate, which lets a wrong scale pass"
                .to_owned(),
        ),
    };
    lines.into_iter().map(finding).collect()
}

/// The range of the actual divided by that of the golden, if it is not ordinary and rounding does not explain it.
fn unusual_ratio(record: &Record) -> Option<f64> {
    let metrics = record.metrics.as_ref()?;
    let (difference, expected) = (metrics.difference.as_ref()?, metrics.expected.as_ref()?);
    let ratio = difference.range_ratio;
    if !ratio.is_finite() || ORDINARY.contains(&ratio) {
        return None;
    }
    // The ranges of nearly constant tensors are made of rounding.
    let epsilon = record.actual.as_ref().and_then(|actual| actual.dtype.epsilon()).unwrap_or(0.0);
    let rounding = record.floor.map_or(0.0, |floor| floor.max).max(epsilon * expected.absmax);
    let moved = (metrics.actual.max - metrics.actual.min) - (expected.max - expected.min);
    (moved.abs() > 2.0 * USUAL_NOISE * rounding).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_parity_core::compare::compare;
    use mlx_parity_core::gate::{Gate, Rule};
    use mlx_parity_core::tensor::{Dtype, TensorView};

    fn record(expected: [f32; 2], actual: [f32; 2]) -> Record {
        let bytes =
            |values: [f32; 2]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let (expected, actual) = (bytes(expected), bytes(actual));
        let view = |bytes: &'static [u8]| TensorView::new(Dtype::Float32, &[2], bytes).unwrap();
        let (expected, actual) = (view(expected.leak()), view(actual.leak()));
        let gate = Some(Gate::Tolerance { rtol: 1.0, atol: 1.0, policy: None });
        let comparison = compare(&expected, &actual, &Rule { gate: gate.clone(), ..Rule::default() });
        let info = (&actual).into();
        Record { gate, actual: Some(info), ..Record::new("a/b", "x", comparison, true) }
    }

    #[test]
    fn only_a_range_that_rounding_does_not_explain_is_unusual() {
        assert_eq!(unusual_ratio(&record([0.0, 1.0], [0.0, 0.25])), Some(0.25));
        assert_eq!(unusual_ratio(&record([0.0, 1.0], [0.0, 0.75])), None);
        assert_eq!(unusual_ratio(&record([0.25, 0.5], [0.0, 1.0])), Some(4.0));
        let almost = 1.0 + f32::EPSILON;
        assert_eq!(unusual_ratio(&record([1.0, almost], [1.0, 1.0 + 5.0 * f32::EPSILON])), None);
        assert_eq!(unusual_ratio(&record([1.0, 1.0], [1.0, almost])), None, "the golden is constant");
    }
}
