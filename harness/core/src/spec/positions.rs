//! Slots of a cache that are matched by the positions that they hold.

use serde::{Deserialize, Serialize};

/// The axis of a checkpoint along which a cache has its slots, and where the positions of the slots are.
///
/// Golden and actual may have their slots in different orders. The rows with the same position are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Positions {
    /// The checkpoint that holds the position of each slot: this one itself, or an earlier one.
    pub tap: String,
    /// The axis with the slots, after `squeeze` and `layout`.
    pub axis: usize,
}

impl Positions {
    /// The key in words for a list, for the checkpoint with this name.
    pub(super) fn words(&self, name: &str) -> String {
        match self.tap == name {
            true => "positions in any order".to_owned(),
            false => format!("axis {} by {}", self.axis, self.tap),
        }
    }
}
