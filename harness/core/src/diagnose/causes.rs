//! The causes of one failure: tries the families of explanations and keeps the best.

use super::diagnosis::Cause;
use super::explanation::Explanation;
use super::families::{Family, families, rounds};
use super::{MOST, Search};
use crate::spec::Stage;

/// Explanations whose residuals differ by at most this factor are as good as each other.
const TIE: f64 = 3.0;

impl Search<'_, '_> {
    /// Returns the cause at a gradient or after a step of an optimiser.
    ///
    /// It comes before what the change of a recipe in one place explains: in the first step, moments are the gradient times
    /// constants, so that many changes have the same result.
    pub(super) fn cause_of_training(&self) -> Option<Cause> {
        let family = match self.checkpoint.stage? {
            Stage::Gradient => Family::Gradient,
            Stage::Optimizer => Family::OptimizerStep,
            _ => return None,
        };
        let found = family.explain(self).into_iter().next()?;
        Some(found.into_cause(self.pair.sampled()))
    }

    /// Returns the explanations of the first round that has any, best first.
    ///
    /// Of the explanations that hold, only those that assume least count, and of these only the ones whose residual is
    /// at most [`TIE`] times the smallest. Such a tie goes to the families of the declared stage, then to the
    /// explanation that leaves the smaller part of the error.
    pub(super) fn causes(&self) -> Vec<Cause> {
        let stage = self.checkpoint.stage;
        let of_stage = |family: Family| stage.is_some_and(|stage| families(stage).contains(&family));
        for round in rounds(stage) {
            let in_budget = round.into_iter().take_while(|_| !self.checkpoint.budget.is_spent());
            let mut found: Vec<(Family, Explanation)> = in_budget
                .flat_map(|family| family.explain(self).into_iter().map(move |one| (family, one)))
                .collect();
            let Some(least_cost) = found.iter().map(|(_, one)| one.cost).min() else { continue };
            found.retain(|(_, one)| one.cost == least_cost);
            let least = found.iter().map(|(_, one)| one.residual.rms).fold(f64::INFINITY, f64::min);
            found.retain(|(_, one)| one.residual.rms <= TIE * least);
            found.sort_by(|(family, one), (other_family, other)| {
                let own_first = of_stage(*other_family).cmp(&of_stage(*family));
                own_first.then(one.residual.part.total_cmp(&other.residual.part))
            });
            found.truncate(MOST);
            let sampled = self.pair.sampled();
            return found.into_iter().map(|(_, one)| one.into_cause(sampled)).collect();
        }
        Vec::new()
    }
}
