//! What the taps of a twin are compared with: the rows of the other run's tensors that correspond.

use std::collections::HashMap;
use std::rc::Rc;

use super::checked::Checked;
use super::choice_check::ChoiceCheck;
use super::other_run::{OtherRun, OtherTensors};
use mlx_parity_core::compare::{self, Scores};
use mlx_parity_core::gate::{Class, Floor, Gate, Rule};
use mlx_parity_core::golden::{Correspondence, FixtureSet, RowsError, SlotMatch};
use mlx_parity_core::record::{Record, TensorInfo};
use mlx_parity_core::run_folder::Job;
use mlx_parity_core::spec::{Checkpoint, Counterpart, Spec, hit_name};
use mlx_parity_core::tensor::Tensor;
use mlx_parity_core::text::error_chain;

/// Why a hit cannot be compared: the class of the failure and its text.
type Problem = (Class, String);

/// The run that a twin is compared with, and how far its hits have come.
pub(super) struct TwinCheck {
    run: Result<OtherRun, String>,
    fixtures: Option<Rc<FixtureSet>>,
    /// For checkpoints with `along`: how many indices earlier hits have covered.
    covered: HashMap<String, usize>,
}

/// One hit of a twin's checkpoint.
#[derive(Clone, Copy)]
pub(super) struct TwinHit<'c> {
    pub(super) checkpoint: &'c Checkpoint,
    counterpart: &'c Counterpart,
    /// The number of the hit, from 0.
    pub(super) hit: u64,
}

impl<'c> TwinHit<'c> {
    /// Returns the hit; `None` if the checkpoint is not compared with another run.
    pub(super) fn of(checkpoint: &'c Checkpoint, hit: u64) -> Option<Self> {
        let counterpart = checkpoint.counterpart.as_deref().filter(|counterpart| !counterpart.unseen)?;
        Some(Self { checkpoint, counterpart, hit })
    }

    /// Returns the hit of the other run: hits along an axis make up one tensor.
    fn there(&self) -> u64 {
        if self.counterpart.along.is_some() { 0 } else { self.hit }
    }
}

/// The elements of both runs that correspond.
pub(super) struct TwinPair {
    pub(super) rows: Correspondence,
    pub(super) expected: Tensor,
    pub(super) actual: Tensor,
}

impl TwinCheck {
    /// Reads the other run; `None` for a spec that is no twin.
    pub(super) fn of(spec: &Spec, fixtures: Option<Rc<FixtureSet>>, job: &Job) -> Option<Self> {
        spec.twin.as_ref()?;
        let run = OtherRun::open(spec, job.other.as_ref())
            .and_then(|run| run.ok_or_else(|| "the run that it is compared with does not exist".to_owned()));
        Some(Self { run, fixtures, covered: HashMap::new() })
    }

    /// Compares the shape and the dtype of a hit; `None` if both are right.
    pub(super) fn compare_forms(&self, hit: TwinHit<'_>, found: &TensorInfo, rule: &Rule) -> Option<Checked> {
        let there = self.record(hit).ok().and_then(|record| record.actual.clone());
        // The slots of a cache may be more than those of the other run, and some of them empty.
        let slots = hit.checkpoint.positions.as_ref().zip(there.as_ref());
        let matched =
            slots.map(|(slots, there)| SlotMatch::matched_shape(slots.axis, &there.shape, &found.shape));
        let rows = match self.rows(hit, matched.as_ref().unwrap_or(&found.shape)) {
            Ok(rows) => rows,
            // Without an expected tensor, nothing would be wrong with the port.
            Err((class, text)) => {
                let expected = there.filter(|_| class == Class::Shape);
                return Some(Checked { expected, ..Checked::failed(class, text) });
            }
        };
        let there = there?;
        let (expected, actual) = (rows.expected.shape(), rows.actual.shape());
        let outcome = compare::compare_forms((there.dtype, expected), (found.dtype, actual), rule)?;
        Some(Checked { expected: Some(there), ..outcome.into() })
    }

    /// Compares the values of a hit whose shape and dtype are right.
    ///
    /// # Errors
    /// When there is nothing to compare with.
    pub(super) fn compare(
        &mut self,
        hit: TwinHit<'_>,
        actual: &Tensor,
        rule: &Rule,
        choices: &mut ChoiceCheck,
    ) -> Result<(Checked, TwinPair), Problem> {
        let rows = self.rows(hit, actual.shape())?;
        let there = self.run()?.tensor(&hit.checkpoint.name, hit.there())?;
        let mut pair = TwinPair {
            expected: rows.expected.take(&there.view()),
            actual: rows.actual.take(&actual.view()),
            rows,
        };
        let rule = Rule { floor: self.floor(hit)?, ..rule.clone() };
        let at = (hit.checkpoint, hit.hit);
        let arranged = choices.arranged(at, (&pair.expected.view(), &pair.actual), false)?;
        pair.actual = arranged.unwrap_or(pair.actual);
        let held =
            hit.checkpoint.scores.as_ref().map(|name| self.run()?.tensor(name, hit.there())).transpose()?;
        let scores = held.as_ref().map(|held| self.scores(hit, held, &pair)).transpose()?;
        let mut checked = choices.compare(at, (&pair.expected.view(), &pair.actual), &rule, scores);
        if let Some(least) = hit.checkpoint.at_least {
            checked.outcome = checked.outcome.at_least(least);
        }
        if checked.outcome.class.is_some() {
            let detail = format!("compared with `{}`: {}", self.run()?.id(), checked.outcome.detail);
            checked.outcome.detail = detail;
        }
        checked.sequence = Some(self.record(hit)?.sequence);
        if let Some((rows, _)) = pair.rows.along {
            *self.covered.entry(hit.checkpoint.name.clone()).or_insert(0) += rows;
        }
        Ok((checked, pair))
    }

    /// Returns the dtype and the shape of a hit in the other run.
    pub(super) fn expected(&self, hit: TwinHit<'_>) -> Option<TensorInfo> {
        self.record(hit).ok()?.actual.clone()
    }

    /// Returns the tensor of another checkpoint at the same hit of the other run.
    pub(super) fn other_tensor(&self, name: &str, hit: TwinHit<'_>) -> Result<Tensor, Problem> {
        self.run()?.tensor(name, hit.there())
    }

    /// Returns the tensors around a hit in the other run, for the search of causes.
    pub(super) fn around(&self, hit: TwinHit<'_>) -> Option<OtherTensors<'_>> {
        let name = hit_name(&hit.checkpoint.name, hit.there());
        self.run.as_ref().ok().map(|run| OtherTensors::new(run, &name, hit.counterpart.is_whole()))
    }

    /// Returns which elements of a hit with this shape correspond to which of the other run.
    fn rows(&self, hit: TwinHit<'_>, shape: &[usize]) -> Result<Correspondence, Problem> {
        let run = self.run()?;
        let Some(there) = &self.record(hit)?.actual else {
            return Err((Class::Missing, format!("`{}` recorded no tensor here", run.id())));
        };
        let mask = hit.counterpart.mask.as_ref().map(|mask| self.mask(mask)).transpose()?;
        let covered = self.covered.get(&hit.checkpoint.name).copied().unwrap_or(0);
        let rows = Correspondence::new(hit.counterpart, &there.shape, shape, covered, mask.as_ref());
        let rows = rows.map_err(|error| match error {
            RowsError::Spec(text) => (Class::Spec, text),
            RowsError::Shape(text) => (Class::Shape, format!("compared with `{}`: {text}", run.id())),
        })?;
        let hits = hit.checkpoint.hits;
        match rows.along {
            Some((_, left)) if left > 0 && hit.hit + 1 == u64::from(hits) => Err((
                Class::Shape,
                format!("`{}` has {left} more rows than all {hits} hits together", run.id()),
            )),
            _ => Ok(rows),
        }
    }

    /// Returns the floor of the checkpoint's golden, where the gate needs one.
    fn floor(&self, hit: TwinHit<'_>) -> Result<Option<Floor>, Problem> {
        if !hit.checkpoint.gate.as_ref().is_some_and(Gate::needs_floor) {
            return Ok(None);
        }
        let fixtures = self.fixtures()?;
        let golden = fixtures.golden(&hit_name(&hit.checkpoint.name, hit.there()));
        golden.map(|golden| golden.floor).map_err(|error| (error.class(), error_chain(&error)))
    }

    /// Returns the other run's scores in the rows that are compared, with the floor of their golden.
    fn scores<'t>(&self, hit: TwinHit<'_>, held: &'t Tensor, pair: &TwinPair) -> Result<Scores<'t>, Problem> {
        let name = hit.checkpoint.scores.as_deref().unwrap_or_default();
        let golden = self.fixtures()?.golden(&hit_name(name, hit.there()));
        let golden = golden.map_err(|error| (error.class(), error_chain(&error)))?;
        let Some(floor) = golden.floor else {
            let text = format!("ties are multiples of the floor of `{name}`, but its golden has none");
            return Err((Class::Missing, text));
        };
        let scores = Scores::all(&held.view(), floor, held.dtype());
        if hit.counterpart.is_whole() {
            return Ok(scores);
        }
        let is_set = matches!(hit.checkpoint.gate, Some(Gate::Set { .. }));
        let width = if is_set {
            self.record(hit)?.actual.as_ref().and_then(|one| one.shape.last().copied())
        } else {
            None
        };
        Ok(scores.select(pair.rows.expected.rows(width.unwrap_or(1))))
    }

    fn mask(&self, name: &str) -> Result<Tensor, Problem> {
        self.fixtures()?.input(name).map_err(|error| (error.class(), error_chain(&error)))
    }

    fn fixtures(&self) -> Result<&FixtureSet, Problem> {
        self.fixtures.as_deref().ok_or((Class::Missing, "the spec has no fixtures".to_owned()))
    }

    fn record(&self, hit: TwinHit<'_>) -> Result<&Record, Problem> {
        self.run()?.record(&hit.checkpoint.name, hit.there())
    }

    fn run(&self) -> Result<&OtherRun, Problem> {
        self.run.as_ref().map_err(|problem| (Class::Missing, problem.clone()))
    }
}
