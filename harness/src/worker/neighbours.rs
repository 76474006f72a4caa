//! The goldens, inputs and weights around a checkpoint, in the port's layout. A diagnosis explains an error with them.

use mlx_parity_core::diagnose::{KnownTensor, KnownTensors};
use mlx_parity_core::golden::{FixtureSet, Role, StepFacts, TensorEntry, in_port_layout};
use mlx_parity_core::spec::Spec;
use mlx_parity_core::tensor::{Tensor, TensorView};

/// The tensors of a fixture set around one golden.
pub(super) struct Neighbours<'a> {
    spec: &'a Spec,
    fixtures: &'a FixtureSet,
    /// The goldens that the reference made before it, latest first, and then the inputs.
    before: Vec<KnownTensor>,
    /// The goldens that the reference made after it, in order.
    after: Vec<KnownTensor>,
    weights: Vec<KnownTensor>,
}

impl<'a> Neighbours<'a> {
    /// Returns the tensors around the golden with the sequence number `sequence`.
    pub(super) fn new(spec: &'a Spec, fixtures: &'a FixtureSet, sequence: u64) -> Self {
        let mut goldens: Vec<(u64, KnownTensor)> = fixtures
            .entries(Role::Golden)
            .filter_map(|entry| Some((entry.sequence?, known(spec, entry))))
            .filter(|(at, _)| *at != sequence)
            .collect();
        goldens.sort_by_key(|(at, _)| *at);
        let later = goldens.partition_point(|(at, _)| *at < sequence);
        let after = goldens.split_off(later).into_iter().map(|(_, tensor)| tensor).collect();
        let inputs = fixtures.entries(Role::Input).map(|entry| known(spec, entry));
        let before = goldens.into_iter().rev().map(|(_, tensor)| tensor).chain(inputs).collect();
        let weights = fixtures.weights().map(|entry| known(spec, entry)).collect();
        Self { spec, fixtures, before, after, weights }
    }
}

impl KnownTensors for Neighbours<'_> {
    fn before(&self) -> &[KnownTensor] {
        &self.before
    }

    fn after(&self) -> &[KnownTensor] {
        &self.after
    }

    fn weights(&self) -> &[KnownTensor] {
        &self.weights
    }

    fn tensor(&self, other: &KnownTensor) -> Option<Tensor> {
        // A tap can have the same name as an input or a weight, so dtype and shape are compared too.
        let is = |entry: &&TensorEntry| entry.name == other.name && known(self.spec, entry) == *other;
        let roles = [Role::Golden, Role::Input, Role::Weight];
        let entry = roles.into_iter().find_map(|role| self.fixtures.entries(role).find(is))?;
        let tensor = self.fixtures.read(entry).ok()?;
        let view = port_view(self.spec, entry, tensor.view())?;
        if view.row_major_bytes().is_some() && view.shape() == tensor.shape() {
            return Some(tensor);
        }
        let mut bytes = vec![0; view.len() * view.dtype().size()];
        view.gather(0, &mut bytes);
        Tensor::from_vec(view.dtype(), view.shape().to_vec(), bytes).ok()
    }

    fn steps(&self) -> Vec<(&str, &StepFacts)> {
        let goldens = self.fixtures.entries(Role::Golden);
        goldens.filter_map(|entry| Some((entry.name.as_str(), entry.step.as_ref()?))).collect()
    }

    fn work(&self, other: &KnownTensor) -> usize {
        if has_layout(self.spec, &other.name) { other.shape.iter().product() } else { 0 }
    }
}

/// Returns whether the spec declares a `layout` for the golden of that name.
fn has_layout(spec: &Spec, name: &str) -> bool {
    let name = name.split('@').next().unwrap_or(name);
    spec.checkpoint(name).is_some_and(|checkpoint| checkpoint.layout.is_some())
}

/// Returns the view of a golden in the port's layout, or any other tensor unchanged.
fn port_view<'t>(spec: &Spec, entry: &TensorEntry, view: TensorView<'t>) -> Option<TensorView<'t>> {
    let name = entry.name.split('@').next().unwrap_or(&entry.name);
    match spec.checkpoint(name).filter(|_| entry.role == Role::Golden) {
        Some(checkpoint) => in_port_layout(view, checkpoint).ok(),
        None => Some(view),
    }
}

/// Returns the name, the dtype and the shape of a tensor, for a golden in the port's layout.
fn known(spec: &Spec, entry: &TensorEntry) -> KnownTensor {
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
    KnownTensor { name: entry.name.clone(), dtype: entry.dtype, shape }
}
