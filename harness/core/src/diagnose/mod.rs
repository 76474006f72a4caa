//! Explains why a failing tensor differs from its golden, from the values alone.
//!
//! Each family of explanations (`families::Family`) is a module with one function, `explain`. It predicts the actual
//! from the golden, and from the goldens before it where these are the inputs of the stage. An explanation holds only
//! when the part of the error that it leaves is near the floor or the tolerance (`residual.rs`). A wrong explanation is
//! worse than none, so an observation that predicts nothing is only a fact (`facts.rs`), and facts are reported only
//! where nothing explains the error.
//!
//! Explanations are tried on a sample, first on a few elements of it: on all elements of a small tensor, and on runs
//! from all over a large one, since each page of another golden may have to be read from disk. Every element that is
//! read is taken out of a [`Budget`], which all failures of a run share. Only two things grow with the tensor: a few
//! numbers per row, and the copy of another golden that the spec lays out differently.

mod activation;
mod attention;
mod axis_order;
mod budget;
mod causes;
mod diagnosis;
mod error_pattern;
mod explanation;
mod factor_offset;
mod facts;
mod failing_checkpoint;
mod families;
mod gradient;
mod kinds;
mod known_tensors;
mod layout;
mod linear;
mod modulation;
mod norm;
mod numbers;
mod optimizer_step;
mod part_agrees;
mod per_index;
mod precision;
mod quantisation;
mod replayed;
mod residual;
mod residual_bound;
mod rope;
mod sampled_pair;
mod search;
mod stage_recipe;
mod suspicious_values;
mod wrong_tensor;

pub use budget::Budget;
pub use diagnosis::{Cause, Diagnosis, Fact, MadeFrom, RecipeUse, Residual};
pub use failing_checkpoint::FailingCheckpoint;
pub use kinds::{CauseKind, FactKind};
pub use known_tensors::{KnownTensor, KnownTensors, NoKnownTensors};
pub use stage_recipe::StageRecipe;

use explanation::Explanation;
use residual::SmallResidual;
use search::Search;

/// Most causes, and most facts, that are reported for one failure.
const MOST: usize = 3;

/// Returns the causes of a failure, or facts about it where nothing explains it.
///
/// A panic inside the search costs the diagnosis and prints one line on standard error; it never ends the caller.
pub fn diagnose(checkpoint: &FailingCheckpoint) -> Diagnosis {
    let find = || {
        let search = Search::new(checkpoint, None);
        let replayed = replayed::explain(&search);
        let causes = match (search.cause_of_training(), replayed.cause) {
            (Some(cause), _) => vec![cause],
            (None, Some(cause)) if replayed.is_certain => vec![cause],
            (None, cause) => match search.causes() {
                causes if causes.is_empty() => cause.into_iter().collect(),
                causes => causes,
            },
        };
        if checkpoint.budget.is_spent() {
            eprintln!(
                "the search for the cause of `{}` was cut short: the tensor is large, or earlier failures used up the search budget",
                checkpoint.name
            );
        }
        let facts = if causes.is_empty() { facts::observe(&search) } else { Vec::new() };
        Diagnosis { causes, facts, recipe: replayed.recipe, made_from: made_from(checkpoint) }
    };
    within_limits(checkpoint, find)
}

/// Returns the cause of a failure if it is one of `known`, the causes of earlier failures: code that several stages share makes
/// the same mistake in each. This needs a small part of the work of [`diagnose`], and the recipe of the golden.
pub fn recognise(checkpoint: &FailingCheckpoint, known: &[Cause]) -> Diagnosis {
    let find = || {
        let replayed = replayed::explain(&Search::new(checkpoint, Some(known)));
        match replayed.cause {
            Some(cause) => Diagnosis {
                causes: vec![cause],
                facts: Vec::new(),
                recipe: replayed.recipe,
                made_from: made_from(checkpoint),
            },
            None => Diagnosis::default(),
        }
    };
    within_limits(checkpoint, find)
}

/// Calls `find`, with a limit of time if the tensor is large. A panic costs the diagnosis only.
fn within_limits(checkpoint: &FailingCheckpoint, find: impl FnOnce() -> Diagnosis) -> Diagnosis {
    if checkpoint.actual.is_empty() || checkpoint.expected.is_empty() {
        return Diagnosis::default();
    }
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        match sampled_pair::is_sampled(checkpoint.actual.len()) {
            true => checkpoint.budget.timed(find),
            false => find(),
        }
    }));
    found.unwrap_or_else(|_| panicked(checkpoint))
}

fn made_from(checkpoint: &FailingCheckpoint) -> Option<MadeFrom> {
    checkpoint.recipe.as_ref()?.made_from(checkpoint.name)
}

fn panicked(checkpoint: &FailingCheckpoint) -> Diagnosis {
    eprintln!("the search for the cause of `{}` panicked; please report this", checkpoint.name);
    Diagnosis::default()
}
