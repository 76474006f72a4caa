//! The goldens, inputs and weights around a checkpoint, as the port has them: what its error may be explained with.

use super::judge::as_the_port_has_it;
use crate::diagnose::{Other, Others};
use crate::golden::{FixtureSet, Role, TensorEntry};
use crate::spec::Spec;
use crate::tensor::{Tensor, TensorView};

/// What surrounds one golden of a set.
pub(super) struct Neighbours<'a> {
    spec: &'a Spec,
    fixtures: &'a FixtureSet,
    before: Vec<Other>,
    after: Vec<Other>,
    weights: Vec<Other>,
}

impl<'a> Neighbours<'a> {
    /// What surrounds the golden that the reference made at `sequence`.
    pub(super) fn new(spec: &'a Spec, fixtures: &'a FixtureSet, sequence: u64) -> Self {
        let mut goldens: Vec<(u64, Other)> = fixtures
            .entries(Role::Golden)
            .filter_map(|entry| Some((entry.sequence?, other(spec, entry))))
            .filter(|(at, _)| *at != sequence)
            .collect();
        goldens.sort_by_key(|(at, _)| *at);
        let later = goldens.partition_point(|(at, _)| *at < sequence);
        let after = goldens.split_off(later).into_iter().map(|(_, other)| other).collect();
        let inputs = fixtures.entries(Role::Input).map(|entry| other(spec, entry));
        let before = goldens.into_iter().rev().map(|(_, other)| other).chain(inputs).collect();
        let weights = fixtures.weights().map(|entry| other(spec, entry)).collect();
        Self { spec, fixtures, before, after, weights }
    }
}

impl Others for Neighbours<'_> {
    fn before(&self) -> &[Other] {
        &self.before
    }

    fn after(&self) -> &[Other] {
        &self.after
    }

    fn weights(&self) -> &[Other] {
        &self.weights
    }

    fn tensor(&self, other: &Other) -> Option<Tensor> {
        // A tap may go by the name of an input or a weight.
        let is = |entry: &&TensorEntry| entry.name == other.name && self::other(self.spec, entry) == *other;
        let roles = [Role::Golden, Role::Input, Role::Weight];
        let entry = roles.into_iter().find_map(|role| self.fixtures.entries(role).find(is))?;
        let tensor = self.fixtures.read(entry).ok()?;
        let turned = turned(self.spec, entry, tensor.view())?;
        if turned.row_major_bytes().is_some() && turned.shape() == tensor.shape() {
            return Some(tensor);
        }
        let mut bytes = vec![0; turned.len() * turned.dtype().size()];
        turned.gather(0, &mut bytes);
        Tensor::from_vec(turned.dtype(), turned.shape().to_vec(), bytes).ok()
    }

    fn work(&self, other: &Other) -> usize {
        if is_laid_out(self.spec, &other.name) { other.shape.iter().product() } else { 0 }
    }
}

/// Whether the port has the golden of that name in another order of axes.
fn is_laid_out(spec: &Spec, name: &str) -> bool {
    let name = name.split('@').next().unwrap_or(name);
    spec.checkpoint(name).is_some_and(|checkpoint| checkpoint.layout.is_some())
}

/// The golden of a tap with what its checkpoint does to it; everything else as it is.
fn turned<'t>(spec: &Spec, entry: &TensorEntry, view: TensorView<'t>) -> Option<TensorView<'t>> {
    let name = entry.name.split('@').next().unwrap_or(&entry.name);
    match spec.checkpoint(name).filter(|_| entry.role == Role::Golden) {
        Some(checkpoint) => as_the_port_has_it(view, checkpoint).ok(),
        None => Some(view),
    }
}

fn other(spec: &Spec, entry: &TensorEntry) -> Other {
    let name = entry.name.split('@').next().unwrap_or(&entry.name);
    let mut shape = entry.shape.clone();
    if let Some(checkpoint) = spec.checkpoint(name).filter(|_| entry.role == Role::Golden) {
        let mut axis = 0;
        shape.retain(|_| {
            axis += 1;
            !checkpoint.squeeze.contains(&(axis - 1))
        });
        if let Some(layout) = &checkpoint.layout
            && layout.iter().all(|axis| *axis < shape.len())
        {
            shape = layout.iter().map(|&axis| shape[axis]).collect();
        }
    }
    Other { name: entry.name.clone(), dtype: entry.dtype, shape }
}
