//! The search for the causes of failing hits, within the limits of one run.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::neighbours::Neighbours;
use super::other_run::OtherTensors;
use mlx_parity_core::diagnose::{
    Budget, Cause, Diagnosis, FailingCheckpoint, StageRecipe, diagnose, recognise,
};
use mlx_parity_core::gate::Rule;
use mlx_parity_core::golden::{FixtureSet, Golden};
use mlx_parity_core::recipe::Recipe;
use mlx_parity_core::run_folder::Job;
use mlx_parity_core::spec::{Checkpoint, Inject, Spec, hit_name};
use mlx_parity_core::tensor::TensorView;
use mlx_parity_core::text::error_chain;

/// Number of failures that one run diagnoses. The first failures matter most.
const MOST_DIAGNOSES: usize = 3;
/// Number of failures that one run compares with the causes that it has found.
const MOST_RECOGNITIONS: usize = 24;

/// The searches of one run.
pub(super) struct CauseSearch {
    spec: Rc<Spec>,
    fixtures: Option<Rc<FixtureSet>>,
    /// Number of failures that can still be diagnosed.
    left: usize,
    /// Number of failures that can still be compared with `found`.
    recognitions: usize,
    /// The best cause of each diagnosis.
    found: Vec<Cause>,
    /// Work that the diagnoses of this run can still do.
    budget: Budget,
    /// Goldens that the port continued with so far.
    tapped: BTreeSet<String>,
    /// The recipe of the fixture set, read when the first failure is diagnosed.
    recipe: OnceCell<Option<Recipe>>,
}

/// How much a search may try.
#[derive(Clone, Copy)]
enum Work<'w> {
    /// Everything, within this budget.
    Whole(&'w Budget),
    /// Only these causes.
    Known(&'w [Cause]),
}

/// A hit whose actual does not agree with its golden.
pub(super) struct FailingHit<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) hit: u64,
    pub(super) golden: &'a Golden,
    /// The golden in the port's layout and dtype.
    pub(super) expected: TensorView<'a>,
    pub(super) actual: TensorView<'a>,
    pub(super) rule: &'a Rule,
}

impl CauseSearch {
    pub(super) fn new(spec: Rc<Spec>, fixtures: Option<Rc<FixtureSet>>, job: &Job) -> Self {
        // Without golden inputs, the error of a stage includes the errors before it.
        let (left, recognitions) =
            if job.inject == Inject::All { (MOST_DIAGNOSES, MOST_RECOGNITIONS) } else { (0, 0) };
        let (budget, tapped, recipe) = (Budget::of_a_run(), BTreeSet::new(), OnceCell::new());
        Self { spec, fixtures, left, recognitions, found: Vec::new(), budget, tapped, recipe }
    }

    /// Returns whether another failure of this run would be diagnosed.
    pub(super) fn is_left(&self) -> bool {
        self.left > 0 || self.can_recognise()
    }

    fn can_recognise(&self) -> bool {
        self.recognitions > 0 && !self.found.is_empty()
    }

    /// Notes that the port continues with the golden of this hit.
    pub(super) fn tapped(&mut self, hit: &str) {
        self.tapped.insert(hit.to_owned());
    }

    /// Returns the causes of a failure. Code that several stages share makes the same mistake in each, so the causes of earlier
    /// failures are tried first. If none fits, one of the first failures gets a search with its share of the run's work.
    pub(super) fn of_failure(&mut self, failing: &FailingHit<'_>) -> Diagnosis {
        if self.can_recognise() {
            self.recognitions -= 1;
            let known = self.search(failing, self.tapped.clone(), Work::Known(&self.found));
            if !known.causes.is_empty() {
                return known;
            }
        }
        if self.left == 0 {
            return Diagnosis::default();
        }
        self.left -= 1;
        let budget = self.budget.share();
        let diagnosis = self.search(failing, self.tapped.clone(), Work::Whole(&budget));
        self.budget.join(&budget);
        self.found.extend(diagnosis.causes.first().cloned());
        diagnosis
    }

    /// Returns the causes of a hit that a person asks for, with the work that a whole run may do. The port also
    /// continued with tensors that agree with the goldens `passed`.
    pub(super) fn asked_for(&self, failing: &FailingHit<'_>, passed: Vec<String>) -> Diagnosis {
        let tapped = self.tapped.iter().cloned().chain(passed).collect();
        self.search(failing, tapped, Work::Whole(&Budget::of_a_run()))
    }

    /// Returns the causes of a failing hit of a twin. `known` are the tensors of the run that it is compared with.
    ///
    /// The recipe is about the reference's inputs, which a twin may change, so it is not used.
    pub(super) fn of_twin(
        &mut self,
        checkpoint: &Checkpoint,
        hit: u64,
        (expected, actual): (TensorView<'_>, TensorView<'_>),
        rule: &Rule,
        known: &OtherTensors<'_>,
    ) -> Diagnosis {
        if self.left == 0 {
            return Diagnosis::default();
        }
        self.left -= 1;
        let budget = self.budget.share();
        let diagnosis = diagnose(&FailingCheckpoint {
            name: &hit_name(&checkpoint.name, hit),
            stage: checkpoint.stage,
            expected,
            actual,
            rule,
            known,
            recipe: None,
            budget: &budget,
        });
        self.budget.join(&budget);
        diagnosis
    }

    fn search(&self, failing: &FailingHit<'_>, tapped: BTreeSet<String>, work: Work<'_>) -> Diagnosis {
        let Some(fixtures) = &self.fixtures else { return Diagnosis::default() };
        let FailingHit { checkpoint, hit, golden, expected, actual, rule } = failing;
        let recipe = self.recipe(fixtures).map(|recipe| StageRecipe {
            recipe,
            fixtures,
            tapped,
            squeeze: &checkpoint.squeeze,
            layout: checkpoint.layout.as_deref(),
        });
        let failing = FailingCheckpoint {
            name: &hit_name(&checkpoint.name, *hit),
            stage: checkpoint.stage,
            expected: expected.clone(),
            actual: actual.clone(),
            rule,
            known: &Neighbours::new(&self.spec, fixtures, golden.sequence),
            recipe,
            budget: match work {
                Work::Whole(budget) => budget,
                Work::Known(_) => &self.budget,
            },
        };
        match work {
            Work::Whole(_) => diagnose(&failing),
            Work::Known(causes) => recognise(&failing, causes),
        }
    }

    /// Returns the recipe of the fixture set. A recipe that cannot be read costs the diagnosis its help, nothing else.
    fn recipe(&self, fixtures: &FixtureSet) -> Option<&Recipe> {
        let read = || match fixtures.recipe() {
            Ok(recipe) => recipe,
            Err(error) => {
                eprintln!("causes are searched without the recipe: {}", error_chain(&error));
                None
            }
        };
        self.recipe.get_or_init(read).as_ref()
    }
}
