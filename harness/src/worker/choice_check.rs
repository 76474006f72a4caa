//! What choices are judged by: the reference's scores, and the order of the ids that weights belong to.

use std::collections::HashMap;

use super::checked::Checked;
use mlx_parity_core::compare::{Beside, Divergence, IdPlaces, Scores, TopRows};
use mlx_parity_core::gate::{Class, Gate, Rule};
use mlx_parity_core::golden::{Golden, in_port_layout};
use mlx_parity_core::spec::{Checkpoint, hit_name};
use mlx_parity_core::tensor::{Dtype, Tensor, TensorView};

/// Why a hit cannot be compared: the class of the failure and its text.
type Problem = (Class, String);

/// What earlier hits of one run found out about later ones.
#[derive(Default)]
pub(super) struct ChoiceCheck {
    /// For hits of ids that weights belong to: the places with the same id.
    places: HashMap<String, IdPlaces>,
    /// The divergence of compared logits, by hit.
    divergences: HashMap<String, Divergence>,
}

impl ChoiceCheck {
    /// Compares a hit, and remembers what later hits need.
    pub(super) fn compare(
        &mut self,
        (checkpoint, hit): (&Checkpoint, u64),
        (expected, actual): (&TensorView<'_>, &Tensor),
        rule: &Rule,
        scores: Option<Scores<'_>>,
    ) -> Checked {
        let of_scores =
            checkpoint.scores.as_ref().and_then(|name| self.divergences.get(&*hit_name(name, hit)));
        let beside = Beside { scores, divergence: of_scores.copied() };
        let checked = Checked::beside(expected, actual, rule, &beside);
        let choices = checked.outcome.metrics.as_ref().and_then(|metrics| metrics.choices.as_ref());
        let name = || hit_name(&checkpoint.name, hit).into_owned();
        if let (Some(Gate::Distribution(_)), Some(divergence)) =
            (&checkpoint.gate, choices.and_then(|choices| choices.divergence))
        {
            self.divergences.insert(name(), divergence);
        }
        if checkpoint.weights.is_some() && expected.shape() == actual.shape() {
            self.places.insert(name(), IdPlaces::of(expected, &actual.view()));
        }
        checked
    }

    /// Returns weights in the order of the golden's ids; `None` for a checkpoint that belongs to no ids.
    ///
    /// With `is_injected`, the port may have gone on with the golden's ids, so its own order is right, too.
    ///
    /// # Errors
    /// When the ids were not compared before, or there is another number of them.
    pub(super) fn arranged(
        &self,
        (checkpoint, hit): (&Checkpoint, u64),
        (expected, actual): (&TensorView<'_>, &Tensor),
        is_injected: bool,
    ) -> Result<Option<Tensor>, Problem> {
        let Some(ids) = &checkpoint.ids else { return Ok(None) };
        let Some(places) = self.places.get(&*hit_name(ids, hit)) else {
            let text = format!(
                "its elements belong to `{ids}`, which the port had not reached, or not in its right shape"
            );
            return Err((Class::Unreached, text));
        };
        match places.arrange(&actual.view(), is_injected.then_some(expected)) {
            Some(arranged) => Ok(Some(arranged)),
            None => {
                let text = format!("it has {} elements, but `{ids}` has another number of ids", actual.len());
                Err((Class::Shape, text))
            }
        }
    }
}

/// Returns the scores in the golden of the checkpoint `of`.
///
/// # Errors
/// When the golden has no floor, or does not fit its checkpoint.
pub(super) fn golden_scores<'g>(golden: &'g Golden, of: &Checkpoint) -> Result<Scores<'g>, Problem> {
    let name = &of.name;
    let Some(floor) = golden.floor else {
        return Err((
            Class::Missing,
            format!("ties are multiples of the floor of `{name}`, but its golden has none"),
        ));
    };
    let dtype = of.dtype.unwrap_or(Dtype::Float32);
    let spec = |problem: String| (Class::Spec, format!("the scores of `{name}`: {problem}"));
    match of.gate.as_ref().and_then(Gate::top) {
        Some(top) => {
            let rows = TopRows::new(&golden.tensor.view(), top).map_err(spec)?;
            Ok(Scores::top(rows, floor, dtype))
        }
        None => Ok(Scores::all(&in_port_layout(golden.tensor.view(), of).map_err(spec)?, floor, dtype)),
    }
}
