//! Explains a failing tensor by the recipe of its golden: the reference's computation, changed in one place.
//!
//! The fixture set has the operations by which the reference made the golden. They are replayed in float64 from the
//! goldens that the port tapped before, the inputs and the weights. If that gives the golden, the recipe is usable. Then
//! each rule (`rules/`) proposes changes of one kind, and a change explains the error if the changed recipe gives the
//! actual instead.

mod candidate;
mod judge;
mod rules;
mod solve;
mod stage;

use super::diagnosis::Cause;
use super::{RecipeUse, Search};
use crate::replay::{Replay, SetLeaves, Work};
use judge::Judge;
use stage::Stage;

/// Steps of one search: operations on elements.
const STEPS: u64 = 1_200_000_000;
/// Memory of one search, at least.
const LEAST_BYTES: u64 = 64 << 20;
/// Memory of one search, as a multiple of the failing tensor.
const TIMES_TENSOR: u64 = 4;

/// The cost of changes that add something to the recipe.
const ADDED: u8 = 4;
/// How often the search starts further back.
const ROUNDS: usize = 2;

/// What the recipe of the golden says about its failure.
pub(super) struct Replayed {
    /// Whether the recipe was of use.
    pub(super) recipe: RecipeUse,
    /// The change of the recipe that explains the error.
    pub(super) cause: Option<Cause>,
    /// Whether the change is of something that the reference does. A change that adds something is less certain than
    /// an explanation by other tensors.
    pub(super) is_certain: bool,
}

/// Replays the recipe of the failing golden, and searches for changes that explain the error.
pub(super) fn explain(search: &Search) -> Replayed {
    let without = |recipe| Replayed { recipe, cause: None, is_certain: false };
    let Some(source) = &search.checkpoint.recipe else { return without(RecipeUse::None) };
    let Some(target) = source.target(search.checkpoint.name) else { return without(RecipeUse::None) };
    let bytes = TIMES_TENSOR * 4 * (search.pair.actual.len() as u64);
    let work = Work::new(STEPS, bytes.max(LEAST_BYTES));
    let leaves = SetLeaves { set: source.fixtures, recipe: source.recipe };
    let judge = Judge::new(search, source, &work);
    let mut cut = source.cut();
    let mut used = RecipeUse::Unknown;
    // A port may not continue with what it tapped. So the second round computes the nearest tapped goldens again.
    for _ in 0..ROUNDS {
        let Ok(replay) = Replay::new(source.recipe, target, cut.clone(), &leaves, &work) else { break };
        match replay.target() {
            Err(error) if error.is_limit() => return without(used.or(RecipeUse::TooLarge)),
            Err(_) => return without(used.or(RecipeUse::Unknown)),
            Ok(value) if !judge.reproduces(&value) => return without(used.or(RecipeUse::NotReproduced)),
            Ok(_) => used = RecipeUse::Replayed,
        }
        let Ok(stage) = Stage::new(source, &replay, target) else { return without(RecipeUse::TooLarge) };
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
