//! Decides which changes of a recipe explain the error, and which of them is reported.

use super::candidate::Candidate;
use super::plain_words::{mask_offset, tiled};
use super::stage::Stage;
use super::{rules, solve};
use crate::diagnose::diagnosis::Cause;
use crate::diagnose::residual::SmallResidual;
use crate::diagnose::sampled_pair::SampledPair;
use crate::diagnose::stage_recipe::StageRecipe;
use crate::diagnose::{CauseKind, Explanation, Search};
use crate::recipe::{Form, Op};
use crate::replay::{Array, Change, Work, evaluate};

/// Changes whose residuals differ by at most this factor explain the error equally well.
const TIE: f64 = 1.5;
/// Changes per node of a stage, roughly.
const PER_NODE: u64 = 30;
/// The most other changes whose kinds are kept beside that of the best one.
const OTHERS: usize = 2;

/// The text of a cause whose change has this text.
fn in_words(change: &str) -> String {
    format!("the reference's with {change}")
}

/// Compares what a changed recipe gives with the actual.
pub(super) struct Judge<'j, 'a> {
    search: &'j Search<'j, 'a>,
    source: &'j StageRecipe<'a>,
    work: &'j Work,
}

/// A change that explains the error.
struct Found {
    candidate: Candidate,
    residual: SmallResidual,
    /// How many numbers were fitted.
    fitted: usize,
}

impl<'j, 'a> Judge<'j, 'a> {
    pub(super) fn new(search: &'j Search<'j, 'a>, source: &'j StageRecipe<'a>, work: &'j Work) -> Self {
        Self { search, source, work }
    }

    /// Whether the replayed value is the golden, except for rounding.
    pub(super) fn reproduces(&self, value: &Array) -> bool {
        let Some(value) = self.in_port_layout(value) else { return false };
        let expected = &self.search.checkpoint.expected;
        let golden = self.search.checkpoint.with(expected.clone(), expected.clone());
        let pair = SampledPair::new(&golden);
        self.has_shape_of(&value, &pair) && pair.is_predicted(|index| value.values()[pair.positions[index]])
    }

    /// Whether a value has the shape of the actual of a pair.
    fn has_shape_of(&self, value: &Array, pair: &SampledPair) -> bool {
        let parts = value.is_complex().then_some(2);
        value.shape().iter().copied().chain(parts).eq(pair.actual.shape().iter().copied())
    }

    /// The best change of the stage that explains the error, and its cost.
    pub(super) fn best(&self, stage: &Stage) -> Option<(u8, Cause)> {
        let mut found: Vec<Found> = Vec::new();
        let changes = PER_NODE.saturating_mul(stage.computed.len() as u64);
        let can_try_all = stage.replay.steps().saturating_mul(changes) <= self.work.steps_left();
        let candidates: Box<dyn Iterator<Item = Candidate>> = match can_try_all {
            true => Box::new(rules::candidates(stage)),
            false => Box::new(rules::candidates_from_both_ends(stage)),
        };
        for candidate in candidates.filter(|one| self.is_asked(stage, one.kind, one.node, Some(&one.text))) {
            if self.work.steps_left() == 0 {
                break;
            }
            if let Some(residual) = self.residual(stage, &candidate.changes, 0) {
                found.push(Found { candidate, residual, fitted: 0 });
            }
        }
        if found.is_empty() {
            let is_asked = |slot: &solve::Slot| self.is_asked(stage, CauseKind::Constant, slot.node, None);
            for slot in solve::slots(stage).into_iter().filter(is_asked) {
                let fit = solve::fit(&slot, |changes| self.distance(stage, changes));
                let Some(candidate) = fit else { continue };
                if let Some(residual) = self.residual(stage, &candidate.changes, 1) {
                    found.push(Found { candidate, residual, fitted: 1 });
                }
            }
        }
        self.select(stage, found)
    }

    /// Whether the search is for any change, or for one like this: of the same kind, and either at the same line of the reference
    /// or with the same text.
    fn is_asked(&self, stage: &Stage, kind: CauseKind, node: usize, text: Option<&str>) -> bool {
        let Some(known) = self.search.only else { return true };
        let has_text = |cause: &Cause| text.is_some_and(|text| cause.text == in_words(text));
        let place = stage.recipe.place(node);
        let is_there = |cause: &Cause| cause.place.is_some() && cause.place == place;
        known.iter().any(|cause| cause.kind == kind && (is_there(cause) || has_text(cause)))
    }

    /// The best of the changes that explain the error. Its text also names a change that explains the error equally well and
    /// leads to another line of the reference.
    fn select(&self, stage: &Stage, mut found: Vec<Found>) -> Option<(u8, Cause)> {
        let least = found.iter().map(|one| one.residual.rms).fold(f64::INFINITY, f64::min);
        found.retain(|one| one.residual.rms <= TIE * least);
        found.sort_by(|a, b| {
            let by_cost = (a.fitted, a.candidate.cost).cmp(&(b.fitted, b.candidate.cost));
            let by_residual = a.residual.rms.total_cmp(&b.residual.rms);
            // Where several numbers do the same, the simplest one is named.
            by_cost.then(by_residual).then(b.candidate.is_whole().cmp(&a.candidate.is_whole()))
        });
        let mut found = found.into_iter();
        let best = found.next()?;
        let mut others: Vec<Candidate> = Vec::new();
        for Found { candidate, .. } in found {
            let is_named = |named: &Candidate| named.text == candidate.text;
            if others.len() < OTHERS && !is_named(&best.candidate) && !others.iter().any(is_named) {
                others.push(candidate);
            }
        }
        let place = stage.recipe.place(best.candidate.node);
        let leads_elsewhere = |other: &&Candidate| {
            let is_same_operation = other.kind == best.candidate.kind
                && stage.op(other.node).name() == stage.op(best.candidate.node).name();
            let elsewhere = stage.recipe.place(other.node).filter(|other| place.as_ref() != Some(other));
            other.cost <= best.candidate.cost && !is_same_operation && elsewhere.is_some()
        };
        let plain = self.plain_words(stage, &best.candidate, TIE * least);
        // Everything that takes the mask away does the same.
        let is_plain = plain.is_some() || best.candidate.kind == CauseKind::MaskChange;
        let other = others.iter().find(leads_elsewhere).filter(|_| !is_plain);
        let same_as = other.map(|other| other.text.clone()).into_iter().collect();
        let Candidate { kind, cost, text, .. } = best.candidate;
        let text = in_words(&plain.unwrap_or(text));
        let explanation = Explanation::new(kind, cost, best.residual, text);
        let cause = explanation.into_cause(self.search.pair.sampled());
        let also = others.iter().map(|other| other.kind).filter(|other| *other != kind).collect();
        Some((cost, Cause { place, also, same_as, ..cause }))
    }

    /// Words that say what a change means for the model. They replace those about operations of the recipe. `most` is the
    /// largest residual that counts as equal.
    fn plain_words(&self, stage: &Stage, best: &Candidate, most: f64) -> Option<String> {
        if let Some(offset) = mask_offset(stage, best) {
            return Some(format!("{}, the offset of a mask: {offset}", best.text));
        }
        let (change, words) = tiled(stage, best.node)?;
        self.residual(stage, &[change], 0).filter(|residual| residual.rms <= most).map(|_| words)
    }

    /// The error that the changes leave, if it is small enough.
    fn residual(&self, stage: &Stage, changes: &[Change], fitted: usize) -> Option<SmallResidual> {
        let value = self.predicted(stage, changes)?;
        let pair = &self.search.pair;
        pair.explained(fitted, |index| value.values()[pair.positions[index]])
    }

    /// The prediction of the changes minus the actual, at the sampled positions.
    fn distance(&self, stage: &Stage, changes: &[Change]) -> Option<Vec<f64>> {
        let value = self.predicted(stage, changes)?;
        let pair = &self.search.pair;
        let of = |(index, position): (usize, &usize)| value.values()[*position] - pair.a[index];
        Some(pair.positions.iter().enumerate().map(of).collect())
    }

    /// The prediction of the changes, if it has the shape of the actual.
    fn predicted(&self, stage: &Stage, changes: &[Change]) -> Option<Array> {
        let value = self.in_port_layout(&stage.replay.with(changes).ok()?)?;
        self.has_shape_of(&value, &self.search.pair).then_some(value)
    }

    /// A value of the reference as the port lays it out.
    fn in_port_layout(&self, value: &Array) -> Option<Array> {
        let mut value = value.clone();
        if !self.source.squeeze.is_empty() {
            let kept =
                value.shape().iter().enumerate().filter(|(axis, _)| !self.source.squeeze.contains(axis));
            let shape = kept.map(|(_, length)| *length).collect();
            value = evaluate(&Op::Form(Form::Reshape { shape }), &[Some(value)], self.work).ok()?;
        }
        if let Some(layout) = self.source.layout {
            let op = Op::Form(Form::Permute { axes: layout.to_vec() });
            value = evaluate(&op, &[Some(value)], self.work).ok()?;
        }
        Some(value)
    }
}
