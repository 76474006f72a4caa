//! Counts the hits of taps.

use std::collections::HashMap;

/// The number of hits per tap.
#[derive(Debug, Default)]
pub(super) struct Hits(HashMap<String, u64>);

impl Hits {
    /// Counts a hit of the tap `name`, and returns its number, from 0.
    pub(super) fn next(&mut self, name: &str) -> u64 {
        let count = self.0.entry(name.to_owned()).or_insert(0);
        *count += 1;
        *count - 1
    }

    /// Returns the number of hits of the tap `name` so far.
    pub(super) fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}
