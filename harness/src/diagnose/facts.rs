//! What can be seen of an error that nothing explains. None of it predicts the actual, so none of it is a cause.

use super::{Fact, FactKind, Looked, MOST, agreement, finite, position, precision, quantised};

/// A kind of fact with its text, if it is one of this pair.
pub(super) type Seen = Option<(FactKind, String)>;

/// In the order in which they are told.
const KINDS: &[fn(&Looked) -> Seen] = &[
    finite::non_finite,
    finite::subnormal,
    finite::constant,
    agreement::part_agrees,
    position::grows,
    quantised::other_grid,
    precision::narrow_format,
    position::uncorrelated,
];

pub(super) fn look(looked: &Looked) -> Vec<Fact> {
    let pair = &looked.pair;
    // Element for element there must be something to hold the actual against.
    if !pair.same_shape() || pair.e.is_empty() {
        return Vec::new();
    }
    let seen = KINDS.iter().filter_map(|look| look(looked)).take(MOST);
    seen.map(|(kind, text)| Fact { kind, text, sampled: pair.sampled() }).collect()
}
