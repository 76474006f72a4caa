//! Explains a failing tensor with the recipe of its golden: finds a change in one place of the recipe that gives the actual.
//!
//! The recipe holds the operations by which the reference made the golden. The search replays them in float64, from the
//! inputs, the weights and the goldens that the port tapped before. The recipe is usable if the replay gives the golden.
//! Each rule (`rules/`) then proposes changes of one kind. A change explains the error if the changed recipe gives the
//! actual instead.

mod candidate;
mod judge;
mod part;
mod plain_words;
mod rules;
mod solve;
mod stage;

use std::collections::BTreeSet;

use super::diagnosis::Cause;
use super::stage_recipe::StageRecipe;
use super::{RecipeUse, Search};
use crate::golden::Role;
use crate::recipe::{Leaf, Op};
use crate::replay::{Leaves, Replay, SetLeaves, Work};
use judge::Judge;
use part::{Part, PartPlan, narrowed};
use stage::Stage;

/// The most steps of one search, as [`Work`] counts them.
const STEPS: u64 = 1_200_000_000;
/// The most steps of a search for known causes only.
const KNOWN_STEPS: u64 = STEPS / 8;
/// The most steps of one replay. A stage that takes more is replayed in part, so that many changes can be tried.
const TRIAL: u64 = STEPS / 20;
/// The memory of one search is at least this many bytes.
const LEAST_BYTES: u64 = 64 << 20;
/// The memory of one search is at most this many bytes.
const MOST_BYTES: u64 = 256 << 20;
/// The memory of one search, as a multiple of the size of the failing tensor or of a larger weight, in float32.
const TIMES_TENSOR: u64 = 4;
/// Operations of a stage, at most. The time to propose changes grows with their square.
const MOST_NODES: usize = 4096;
/// How many indices a part of a large stage can have. The largest number that can be replayed is used.
const INDICES: [usize; 4] = [64, 16, 4, 1];

/// The lowest cost of a change that adds something to the recipe.
const ADDED: u8 = 4;
/// Rounds of one search. Each starts further back than the one before.
const ROUNDS: usize = 2;

/// The result of a search with the recipe of the golden.
pub(super) struct Replayed {
    /// How the recipe was used.
    pub(super) recipe: RecipeUse,
    /// The change of the recipe that explains the error.
    pub(super) cause: Option<Cause>,
    /// Whether the change concerns something that the reference does. A change that adds something is less certain than an
    /// explanation by other tensors.
    pub(super) is_certain: bool,
}

/// Replays the recipe of the failing golden, and searches for changes that explain the error.
pub(super) fn explain(search: &Search) -> Replayed {
    let Some(source) = &search.checkpoint.recipe else { return without(RecipeUse::None) };
    let Some(target) = source.target(search.checkpoint.name) else { return without(RecipeUse::None) };
    let leaves = SetLeaves { set: source.fixtures, recipe: source.recipe };
    let work = Work::new(if search.only.is_some() { KNOWN_STEPS } else { STEPS }, LEAST_BYTES);
    let Ok(replay) = Replay::new(source.recipe, target, source.cut(), &leaves, &work) else {
        return without(RecipeUse::Unknown);
    };
    work.set_memory(bytes(search, source, &replay));
    let trial = work.within(TRIAL, || replay.target());
    if trial.is_err_and(|error| error.is_limit()) {
        drop(replay);
        if let Some(found) = explain_part(search, source, target, &work) {
            return found;
        }
        return match Replay::new(source.recipe, target, source.cut(), &leaves, &work) {
            Ok(replay) => search_in(search, source, target, replay, &leaves, &work, None),
            Err(_) => without(RecipeUse::Unknown),
        };
    }
    search_in(search, source, target, replay, &leaves, &work, None)
}

fn without(recipe: RecipeUse) -> Replayed {
    Replayed { recipe, cause: None, is_certain: false }
}

/// The memory of a search: a multiple of the failing tensor or of the stage's largest weight, within limits.
fn bytes(search: &Search, source: &StageRecipe, replay: &Replay) -> u64 {
    let names = replay.nodes().iter().filter_map(|node| match &source.recipe.nodes[*node].op {
        Op::Leaf(Leaf::Weight { name }) => Some(name.as_str()),
        _ => None,
    });
    let names: BTreeSet<&str> = names.collect();
    let weights = source.fixtures.entries(Role::Weight).filter(|entry| names.contains(entry.name.as_str()));
    let elements = weights.map(|entry| entry.shape.iter().product::<usize>()).max().unwrap_or(0);
    let largest = 4 * elements.max(search.pair.actual.len()) as u64;
    TIMES_TENSOR.saturating_mul(largest).clamp(LEAST_BYTES, MOST_BYTES)
}

/// Searches in a part of a stage that is too large to replay whole; `None` if the stage cannot be cut.
fn explain_part(search: &Search, source: &StageRecipe, target: usize, work: &Work) -> Option<Replayed> {
    let whole = search.checkpoint;
    if whole.expected.shape() != whole.actual.shape() {
        return None;
    }
    let leaves = SetLeaves { set: source.fixtures, recipe: source.recipe };
    let planning = work.with_steps(STEPS);
    let replay = Replay::new(source.recipe, target, source.cut(), &leaves, &planning).ok()?;
    for plan in PartPlan::all(source, &replay, target) {
        let Some(axis) =
            plan.port_axis().filter(|axis| whole.actual.shape().get(*axis) == Some(&plan.length))
        else {
            continue;
        };
        let middle = search.pair.worst_index(axis);
        for indices in INDICES.into_iter().filter(|indices| *indices < plan.length) {
            let start = middle.saturating_sub(indices / 2).min(plan.length - indices);
            let range = start..start + indices;
            let Some(part) = plan.part(range.clone()) else { break };
            let Ok(replay) = Replay::new(&part.recipe, target, source.cut(), &part, work) else { break };
            match work.within(TRIAL, || replay.target()) {
                Ok(_) => {}
                Err(error) if error.is_limit() => continue,
                Err(_) => break,
            }
            let expected = narrowed(&whole.expected, axis, &range)?;
            let actual = narrowed(&whole.actual, axis, &range)?;
            let checkpoint = whole.with(expected.view(), actual.view());
            let part_source = source.with(&part.recipe);
            let part_search = Search::new(&checkpoint, search.only);
            let mut found = search_in(&part_search, &part_source, target, replay, &part, work, Some(&part));
            if found.recipe == RecipeUse::Replayed {
                found.recipe = RecipeUse::Part;
            }
            if let Some(cause) = &mut found.cause {
                let words = if indices == 1 { "index" } else { "indices" };
                cause.text +=
                    &format!(", by a replay of {indices} {words} of the {} of axis {axis}", plan.length);
                cause.sampled = Some(part_search.pair.positions.len() as u64);
            }
            return Some(found);
        }
    }
    None
}

/// Searches for changes of a stage, or of a part of it, that explain the error. `replay` is that of the first round.
fn search_in<'s>(
    search: &Search,
    source: &'s StageRecipe,
    target: usize,
    replay: Replay<'s>,
    leaves: &'s dyn Leaves,
    work: &'s Work,
    part: Option<&Part>,
) -> Replayed {
    let judge = Judge::new(search, source, work);
    let mut cut = source.cut();
    let mut used = RecipeUse::Unknown;
    // A port may tap one tensor and continue with another. The second round therefore computes the nearest tapped goldens
    // instead of starting from them. A part has only the first round, because it was cut for this round.
    let mut next = Some(replay);
    for _ in 0..if part.is_some() { 1 } else { ROUNDS } {
        let again = || Replay::new(source.recipe, target, cut.clone(), leaves, work).ok();
        let Some(replay) = next.take().or_else(again) else { break };
        if replay.nodes().len() > MOST_NODES {
            return without(used.or(RecipeUse::TooLarge));
        }
        match replay.target() {
            Err(error) if error.is_limit() => return without(used.or(RecipeUse::TooLarge)),
            Err(_) => return without(used.or(RecipeUse::Unknown)),
            Ok(value) if !judge.reproduces(&value) => return without(used.or(RecipeUse::NotReproduced)),
            Ok(_) => used = RecipeUse::Replayed,
        }
        let Ok(stage) = Stage::new(source, &replay, target, part) else {
            return without(RecipeUse::TooLarge);
        };
        if let Some((cost, cause)) = judge.best(&stage) {
            return Replayed { recipe: RecipeUse::Replayed, is_certain: cost < ADDED, cause: Some(cause) };
        }
        let nearest: Vec<usize> =
            replay.nodes().iter().copied().filter(|node| replay.is_cut(*node)).collect();
        nearest.iter().for_each(|node| {
            cut.remove(node);
        });
    }
    without(used)
}
