//! Observations about an error that nothing explains. None of them predicts the actual, so none is a cause.

use super::diagnosis::Observation;
use super::{Fact, MOST, Search, error_pattern, part_agrees, precision, quantisation, suspicious_values};

/// In the order in which facts are reported.
const FACTS: &[fn(&Search) -> Observation] = &[
    suspicious_values::non_finite,
    suspicious_values::subnormal,
    suspicious_values::constant,
    part_agrees::part_agrees,
    error_pattern::grows,
    quantisation::other_grid,
    precision::narrow_format,
    error_pattern::uncorrelated,
];

/// Returns the facts that hold, at most [`MOST`], most telling first.
pub(super) fn observe(search: &Search) -> Vec<Fact> {
    let pair = &search.pair;
    // Facts compare element with element.
    if !pair.same_shape() || pair.e.is_empty() {
        return Vec::new();
    }
    let facts = FACTS.iter().filter_map(|observe| observe(search)).take(MOST);
    facts.map(|(kind, text)| Fact { kind, text, sampled: pair.sampled() }).collect()
}
