//! The search for the causes of differences.

use super::late_bar::LateBar;
use super::neighbours::Neighbours;
use super::recipe::RecipeOfA;
use super::{DiffError, Pairing, TensorDiff};
use mlx_parity_core::diagnose::{Budget, Diagnosis, FailingCheckpoint, diagnose};
use mlx_parity_core::gate::Class;
use mlx_parity_core::report::Pair;

/// The most differences that are diagnosed. They share one budget, and each replay of a recipe takes a second or two.
pub(super) const MOST: usize = 8;

impl TensorDiff {
    /// Searches for the causes of the first difference and, if A has a recipe, of every later difference whose inputs agree.
    /// At most [`MOST`] differences are diagnosed. Returns how many more there are.
    ///
    /// Without a recipe, the inputs of a tensor are unknown. In this case only the first difference certainly starts from
    /// tensors that agree.
    pub(super) fn find_causes(
        &self,
        pairs: &mut [Pair],
        places: &[Pairing],
        order: &[usize],
    ) -> Result<usize, DiffError> {
        let Some(first) = pairs.iter().position(|pair| !pair.agrees()) else { return Ok(0) };
        let mut agrees = vec![None; self.a.len()];
        pairs.iter().zip(places).for_each(|(pair, (at, ..))| agrees[*at] = Some(pair.agrees()));
        let recipe = RecipeOfA::read(&self.a, &agrees);
        if let Some(recipe) = &recipe {
            for (pair, &(at, ..)) in pairs.iter_mut().zip(places) {
                // A wrong dtype or a missing floor needs no search.
                let class = pair.record.verdict.class;
                let is_searched = matches!(class, Some(Class::Shape | Class::Finite | Class::Value));
                pair.inputs_agree = is_searched && recipe.inputs_agree(at) && !self.casts(at)?;
            }
        }
        let mut wanted: Vec<usize> =
            (first..pairs.len()).filter(|&place| place == first || pairs[place].inputs_agree).collect();
        let not_searched = wanted.len().saturating_sub(MOST);
        wanted.truncate(MOST);
        let mut bar = LateBar::new("searching for causes", wanted.len());
        let mut left = Budget::of_a_run().left();
        for (done, &place) in wanted.iter().enumerate() {
            bar.at(done);
            // The next searches share what this search leaves of the budget.
            let is_last = done + 1 == wanted.len();
            let share = if is_last { left } else { left / 2 };
            let budget = Budget::new(share);
            let record = &mut pairs[place].record;
            let found = self.diagnosis(&record.checkpoint, places[place], order, recipe.as_ref(), &budget)?;
            (record.causes, record.facts, record.recipe) = (found.causes, found.facts, found.recipe);
            left -= share - budget.left();
        }
        Ok(not_searched)
    }

    fn diagnosis(
        &self,
        name: &str,
        (at, other, _): Pairing,
        order: &[usize],
        recipe: Option<&RecipeOfA<'_>>,
        budget: &Budget,
    ) -> Result<Diagnosis, DiffError> {
        let (expected, actual) = self.tensors(name, (at, other))?;
        let expected = self.laid_out(name, expected.view())?;
        // The recipe computes the golden before the cast, so it cannot explain a tensor that is cast.
        let recipe = if self.casts(at)? { None } else { recipe };
        let layout = self.layout.as_deref().filter(|axes| axes.len() == expected.ndim());
        Ok(diagnose(&FailingCheckpoint {
            name: recipe.map_or(name, |recipe| recipe.golden(at)),
            stage: None,
            actual: actual.view(),
            rule: &self.rule(name, &expected)?,
            expected,
            known: &Neighbours::new(&self.a, order, at),
            recipe: recipe.map(|recipe| recipe.stage(at, layout)),
            budget,
        }))
    }

    /// Whether `--cast` changes the tensor of A at `at`.
    fn casts(&self, at: usize) -> Result<bool, DiffError> {
        Ok(match self.cast {
            Some(dtype) => self.a.tensor(at)?.dtype() != dtype,
            None => false,
        })
    }
}
