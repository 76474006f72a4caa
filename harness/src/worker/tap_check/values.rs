//! The comparison of a hit's values, once its shape and dtype are right.

use std::rc::Rc;

use super::super::array::from_host;
use super::super::cause_search::FailingHit;
use super::super::checked::Checked;
use super::super::choice_check::golden_scores;
use super::super::picture::Picture;
use super::super::slots::MatchedSlots;
use super::super::twin_check::TwinHit;
use super::{NO_OTHER_RUN, TapCheck, reached_too_late};
use mlx_parity_core::compare::{self, Comparison};
use mlx_parity_core::details::ErrorDetails;
use mlx_parity_core::diagnose::Diagnosis;
use mlx_parity_core::gate::{Class, Rule};
use mlx_parity_core::golden::{Golden, as_compared, in_port_layout};
use mlx_parity_core::spec::{Checkpoint, Stage, hit_name};
use mlx_parity_core::tensor::{self, Tensor, TensorView};
use mlx_parity_core::text::error_chain;

/// Number of failures of one run whose error is kept in detail.
const MOST_DETAILED: usize = 40;
/// Number of failures of one run whose error is read at most places. The first failures matter most.
const FIRST_DETAILED: usize = 4;

impl TapCheck {
    /// Compares the values of a hit with its golden, with another tap, or with the other run of a twin.
    pub(super) fn compare(&mut self, checkpoint: &Checkpoint, hit: u64, actual: &Tensor) -> Checked {
        let mut rule = checkpoint.rule();
        if let Some(other) = &checkpoint.against {
            return self.compare_with_tap(checkpoint, other, hit, actual, &rule);
        }
        if let Some(hit) = TwinHit::of(checkpoint, hit) {
            return self.compare_twin(hit, actual, &rule);
        }
        if !checkpoint.needs_golden() {
            return compare::examine(&actual.view(), &rule).into();
        }
        let Some(fixtures) = self.fixtures.clone() else {
            return Checked::failed(Class::Missing, "the spec has no fixtures".to_owned());
        };
        let golden = match fixtures.golden(&hit_name(&checkpoint.name, hit)) {
            Ok(golden) => golden,
            Err(error) => return Checked::failed(error.class(), error_chain(&error)),
        };
        rule.floor = golden.floor;
        rule.is_local = golden.floor_block.is_some();
        rule.judge_systematic = self.judge_systematic;
        let cast;
        let mut expected = match in_port_layout(golden.tensor.view(), checkpoint) {
            Ok(expected) => expected,
            Err(problem) => return Checked::failed(Class::Spec, problem),
        };
        if let Some(dtype) = checkpoint.cast {
            match tensor::cast(&expected, dtype) {
                Ok(tensor) => cast = tensor,
                Err(error) => return Checked::failed(Class::Spec, format!("`cast`: {error}")),
            }
            expected = cast.view();
        }
        let is_top = checkpoint.gate.as_ref().is_some_and(|gate| gate.top().is_some());
        if let Some(declared) = checkpoint.dtype.filter(|&declared| declared != expected.dtype() && !is_top) {
            let problem = format!("the spec declares {declared}, but the golden is {}", expected.dtype());
            return Checked::failed(Class::Spec, problem);
        }
        let matched = match self.matched(checkpoint, hit, actual) {
            Ok(matched) => matched,
            Err((class, text)) => {
                return self.with_golden(checkpoint, hit, Comparison::failed(class, text));
            }
        };
        let whole = actual;
        let actual = matched.as_ref().map_or(actual, |matched| &matched.tensor);
        let inject_ids = checkpoint.ids.as_ref().is_some_and(|ids| self.inject.takes(&self.spec, ids));
        let arranged = match self.choices.arranged((checkpoint, hit), (&expected, actual), inject_ids) {
            Ok(arranged) => arranged,
            Err((class, text)) => return self.with_golden(checkpoint, hit, Comparison::failed(class, text)),
        };
        let actual = arranged.as_ref().unwrap_or(actual);
        let spec = Rc::clone(&self.spec);
        let of = checkpoint.scores.as_ref().and_then(|name| spec.checkpoint(name));
        let held = match self.scores(of, hit) {
            Ok(held) => held,
            Err((class, text)) => return Checked::failed(class, text),
        };
        let scores = match held.as_ref().zip(of).map(|(held, of)| golden_scores(held, of)).transpose() {
            Ok(scores) => scores,
            Err((class, text)) => return Checked::failed(class, text),
        };
        let mut checked = self.choices.compare((checkpoint, hit), (&expected, actual), &rule, scores);
        if is_top && let Ok((_, info)) = self.golden(checkpoint, hit) {
            checked.expected = Some(info);
        }
        if checkpoint.stage == Some(Stage::Gradient) {
            checked.outcome = checked.outcome.of_gradient();
        }
        let diagnosis = match checked.outcome.class {
            Some(Class::Shape | Class::Finite | Class::Value | Class::Systematic)
                if checkpoint.gated && is_of_values(checkpoint) =>
            {
                let (golden, expected, actual) = (&golden, expected.clone(), actual.view());
                self.causes.of_failure(&FailingHit { checkpoint, hit, golden, expected, actual, rule: &rule })
            }
            _ => Diagnosis::default(),
        };
        let picture = draw(checkpoint, &expected, actual);
        let inject = self.inject.takes(&self.spec, &checkpoint.name);
        if inject {
            self.causes.tapped(&hit_name(&checkpoint.name, hit));
        }
        let error = error_details(&mut self.detailed, checkpoint, &checked.outcome, &expected, actual);
        let injected = inject.then(|| match &matched {
            Some(matched) => matched.injected(whole, &expected),
            None => from_host(&expected),
        });
        let slots = matched.as_ref().map(|matched| matched.record(&checked.outcome));
        Checked {
            injected,
            floor_block: golden.floor_block.clone(),
            matched: matched.map(|matched| matched.tensor).zip(slots),
            sequence: Some(golden.sequence),
            picture,
            diagnosis,
            error,
            place: golden.place.clone(),
            ..checked
        }
    }

    /// Compares a hit with the same hit of another tap.
    fn compare_with_tap(
        &mut self,
        checkpoint: &Checkpoint,
        other: &str,
        hit: u64,
        actual: &Tensor,
        rule: &Rule,
    ) -> Checked {
        let Some(Some(expected)) = self.kept.get(&*hit_name(other, hit)) else {
            return Checked::failed(Class::Unreached, reached_too_late(other));
        };
        let picture = draw(checkpoint, &expected.view(), actual);
        let mut checked = Checked { picture, ..Checked::of(&expected.view(), actual, rule) };
        if let Some(part) = checkpoint.at_least {
            checked.outcome = checked.outcome.at_least(part);
        }
        checked.error =
            error_details(&mut self.detailed, checkpoint, &checked.outcome, &expected.view(), actual);
        checked
    }

    /// Returns the golden of the checkpoint `of`, which has the scores that ids are chosen by.
    fn scores(&self, of: Option<&Checkpoint>, hit: u64) -> Result<Option<Golden>, (Class, String)> {
        let (Some(of), Some(fixtures)) = (of, &self.fixtures) else { return Ok(None) };
        let golden = fixtures.golden(&hit_name(&of.name, hit));
        golden.map(Some).map_err(|error| (error.class(), error_chain(&error)))
    }

    /// Returns the rows of a cache in the order of the expected tensor; `None` without the key `positions`.
    fn matched(
        &self,
        checkpoint: &Checkpoint,
        hit: u64,
        actual: &Tensor,
    ) -> Result<Option<MatchedSlots>, (Class, String)> {
        let Some(positions) = &checkpoint.positions else { return Ok(None) };
        let tap = &positions.tap;
        let held = match self.kept.get(&*hit_name(tap, hit)) {
            _ if *tap == checkpoint.name => actual,
            Some(Some(held)) => held,
            Some(None) => {
                let problem = format!("`{tap}` has the positions of its slots, but a wrong shape or dtype");
                return Err((Class::Unreached, problem));
            }
            None => {
                let problem =
                    format!("`{tap}` has the positions of its slots, and the port had not reached it");
                return Err((Class::Unreached, problem));
            }
        };
        let expected = match (&self.twin, TwinHit::of(checkpoint, hit)) {
            (Some(twin), Some(hit)) => twin.other_tensor(tap, hit)?,
            _ => self.golden_positions(tap, hit)?,
        };
        MatchedSlots::of(checkpoint, positions, &expected, held, actual).map(Some)
    }

    /// Returns the golden of a checkpoint that holds positions.
    fn golden_positions(&self, tap: &str, hit: u64) -> Result<Tensor, (Class, String)> {
        let fixtures =
            self.fixtures.as_ref().ok_or((Class::Missing, "the spec has no fixtures".to_owned()))?;
        let holder = self.spec.checkpoint(tap);
        let holder = holder.ok_or_else(|| (Class::Spec, format!("the spec does not declare `{tap}`")))?;
        let golden = fixtures.golden(&hit_name(tap, hit));
        let golden = golden.map_err(|error| (error.class(), error_chain(&error)))?;
        as_compared(&golden.tensor, holder).map_err(|problem| (Class::Spec, problem))
    }

    /// Compares a hit of a twin with the rows of the other run that correspond. Injected, the port continues with these
    /// rows, and keeps its own where nothing corresponds.
    fn compare_twin(&mut self, hit: TwinHit<'_>, whole: &Tensor, rule: &Rule) -> Checked {
        let matched = match self.matched(hit.checkpoint, hit.hit, whole) {
            Ok(matched) => matched,
            Err((class, text)) => {
                let expected = self.twin.as_ref().and_then(|twin| twin.expected(hit));
                return Checked { expected, ..Checked::failed(class, text) };
            }
        };
        let actual = matched.as_ref().map_or(whole, |matched| &matched.tensor);
        let Some(twin) = &mut self.twin else {
            return Checked::failed(Class::Missing, NO_OTHER_RUN.to_owned());
        };
        let checkpoint = hit.checkpoint;
        let (mut checked, pair) = match twin.compare(hit, actual, rule, &mut self.choices) {
            Ok(compared) => compared,
            Err((class, text)) => return Checked::failed(class, text),
        };
        let (expected, part) = (pair.expected.view(), pair.actual.view());
        if let (Some(Class::Finite | Class::Value), Some(known), true) =
            (checked.outcome.class, twin.around(hit), is_of_values(checkpoint))
        {
            let rule = Rule { floor: checked.floor, ..rule.clone() };
            checked.diagnosis =
                self.causes.of_twin(checkpoint, hit.hit, (expected.clone(), part.clone()), &rule, &known);
        }
        if self.inject.takes(&self.spec, &checkpoint.name) {
            let rows = pair.rows.actual.put(&actual.view(), &expected);
            checked.injected = Some(match &matched {
                Some(matched) => matched.injected(whole, &rows.view()),
                None => from_host(&rows.view()),
            });
        }
        checked.picture = draw(checkpoint, &expected, &pair.actual);
        checked.error =
            error_details(&mut self.detailed, checkpoint, &checked.outcome, &expected, &pair.actual);
        let slots = matched.as_ref().map(|matched| matched.record(&checked.outcome));
        checked.matched = matched.map(|matched| matched.tensor).zip(slots);
        checked
    }
}

/// Returns the details of the error of a gated failure, if `detailed` failures are not yet the most.
fn error_details(
    detailed: &mut usize,
    checkpoint: &Checkpoint,
    outcome: &Comparison,
    expected: &TensorView<'_>,
    actual: &Tensor,
) -> Option<ErrorDetails> {
    let is_detailed = checkpoint.gated && is_of_values(checkpoint);
    if outcome.class.is_none() || !is_detailed || *detailed >= MOST_DETAILED {
        return None;
    }
    *detailed += 1;
    match *detailed <= FIRST_DETAILED {
        true => ErrorDetails::of(expected, &actual.view()),
        false => ErrorDetails::of_fewer(expected, &actual.view()),
    }
}

/// Returns whether golden and actual are tensors whose elements have distances: no ids, and no golden that has the most
/// probable ids only.
pub(super) fn is_of_values(checkpoint: &Checkpoint) -> bool {
    checkpoint.gate.as_ref().is_none_or(|gate| !gate.is_of_ids() && gate.top().is_none())
}

/// Returns golden and actual as images, at a checkpoint with the stage `image`.
fn draw(checkpoint: &Checkpoint, expected: &TensorView<'_>, actual: &Tensor) -> Option<Picture> {
    let drawn = (checkpoint.stage == Some(Stage::Image))
        .then(|| Picture::of(expected, &actual.view(), checkpoint.range))?;
    drawn.map_err(|why| eprintln!("cannot draw image `{}`: {why}", checkpoint.name)).ok()
}
