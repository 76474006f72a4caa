//! The rules: each proposes changes of one kind to a recipe. A rule is about a kind of operation, never about a model.
//!
//! The comments of a rule describe the changed computation, which may be a mistake of the port.

mod axes;
mod broadcast;
mod chain;
mod channels;
mod constants;
mod exchanged;
mod filter_banks;
mod functions;
mod inside_attention;
mod left_out;
mod logarithms;
mod masks;
mod operands;
mod order;
mod pairs;
mod positions;
mod precision;
mod repeated;
mod skipped;
mod splits;
mod tables;
pub(super) mod tied;
mod windows;

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
    logarithms::candidates,
    windows::candidates,
    filter_banks::candidates,
    channels::candidates,
    functions::candidates,
    exchanged::candidates,
    order::candidates,
    masks::candidates,
    inside_attention::candidates,
    axes::candidates,
    splits::candidates,
    broadcast::candidates,
    tables::candidates,
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

/// The same for a stage that is too long to try everything. Other windows and filters come first, because few nodes have them,
/// and then other numbers. The rest is tried node by node, from both ends of the stage: what the stage is given and what it returns
/// is written by hand in each port, and rarely tapped.
pub(super) fn candidates_from_both_ends<'s>(stage: &'s Stage<'s>) -> impl Iterator<Item = Candidate> + 's {
    let others = move || stage.computed.iter().copied().filter(move |&node| node != stage.target);
    let pairs = others().rev().zip(others()).flat_map(|(first, last)| [first, last]);
    let nodes = move || pairs.clone().take(stage.computed.len().saturating_sub(1)).chain([stage.target]);
    // Only the target proposes changes of numbers that depend on each other.
    let tied = tied::candidates(stage, stage.target);
    let recognised = stage.computed.iter().flat_map(move |&node| {
        windows::candidates(stage, node).into_iter().chain(filter_banks::candidates(stage, node))
    });
    let few = nodes().flat_map(move |node| constants::few_candidates(stage, node));
    recognised
        .chain(tied)
        .chain(few)
        .chain(nodes().flat_map(move |node| RULES.iter().flat_map(move |rule| rule(stage, node))))
}
