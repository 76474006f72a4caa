//! A tap that holds the state of a cache: its slots in the order of the expected tensor.

use mlx_rs::Array;

use super::array::{ArrayError, from_host};
use mlx_parity_core::compare::Comparison;
use mlx_parity_core::gate::Class;
use mlx_parity_core::golden::{SlotMatch, SlotsError};
use mlx_parity_core::record;
use mlx_parity_core::spec::{Checkpoint, Positions};
use mlx_parity_core::tensor::{Tensor, TensorView};

/// A port's tensor whose slots were matched with those of the expected tensor.
pub(super) struct MatchedSlots {
    positions: Positions,
    slots: SlotMatch,
    /// The rows in the order of the expected tensor.
    pub(super) tensor: Tensor,
}

impl MatchedSlots {
    /// Matches the slots of `actual`. `expected` and `held` are the positions of both caches.
    ///
    /// # Errors
    /// The class and the text of the failure.
    pub(super) fn of(
        checkpoint: &Checkpoint,
        positions: &Positions,
        expected: &Tensor,
        held: &Tensor,
        actual: &Tensor,
    ) -> Result<Self, (Class, String)> {
        let failed = |error| {
            let (class, text) = match error {
                SlotsError::Spec(text) => (Class::Spec, text),
                SlotsError::Shape(text) => (Class::Shape, text),
                SlotsError::Positions(text) => (Class::Positions, text),
            };
            let is_own = positions.tap == checkpoint.name;
            (class, if is_own { text } else { format!("by `{}`, {text}", positions.tap) })
        };
        let slots = SlotMatch::new(positions.axis, expected, held).map_err(failed)?;
        let tensor = slots.matched(&actual.view()).map_err(failed)?;
        Ok(Self { positions: positions.clone(), slots, tensor })
    }

    /// Returns the array that the port continues with: `expected` in the slots of `actual`.
    pub(super) fn injected(&self, actual: &Tensor, expected: &TensorView<'_>) -> Result<Array, ArrayError> {
        match self.slots.put(&actual.view(), expected) {
            Ok(tensor) => from_host(&tensor.view()),
            Err(error) => Err(ArrayError::Mlx(format!("{error:?}"))),
        }
    }

    /// Returns what the record holds about the slots, after a comparison in the order of the expected tensor.
    pub(super) fn record(&self, outcome: &Comparison) -> record::Slots {
        let difference = outcome.metrics.as_ref().and_then(|metrics| metrics.difference.as_ref());
        let worst = difference.and_then(|difference| difference.worst.first());
        let place = worst.and_then(|worst| self.slots.place_of(&worst.index));
        record::Slots {
            positions: self.positions.tap.clone(),
            axis: self.positions.axis,
            worst_position: place.map(|(position, _)| position),
            worst_slot: place.map(|(_, slot)| slot),
        }
    }
}
