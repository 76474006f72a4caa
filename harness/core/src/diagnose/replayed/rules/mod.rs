//! The rules: each proposes changes of one kind to a recipe. A rule is about a kind of operation, never about a model.
//!
//! The comments of a rule describe the changed computation, which may be a mistake of the port.

mod axes;
mod broadcast;
mod chain;
mod constants;
mod exchanged;
mod functions;
mod left_out;
mod masks;
mod operands;
mod order;
mod pairs;
mod positions;
mod precision;
mod repeated;
mod skipped;
pub(super) mod tied;

use super::candidate::Candidate;
use super::stage::Stage;

/// A rule: returns the changes of one kind at one node.
type RuleOf = fn(&Stage, usize) -> Vec<Candidate>;

/// Rules that are tried at each computed node, in this order.
const RULES: &[RuleOf] = &[
    constants::candidates,
    tied::candidates,
    left_out::candidates,
    skipped::candidates,
    repeated::candidates,
    functions::candidates,
    exchanged::candidates,
    order::candidates,
    masks::candidates,
    axes::candidates,
    broadcast::candidates,
    positions::candidates,
    pairs::candidates,
    precision::candidates,
    operands::candidates,
    order::far_candidates,
];

/// Every change that is tried, rule by rule. Each rule starts at the node that is nearest to the target.
pub(super) fn candidates<'s>(stage: &'s Stage<'s>) -> impl Iterator<Item = Candidate> + 's {
    RULES.iter().flat_map(|rule| stage.computed.iter().flat_map(|&node| rule(stage, node)))
}
