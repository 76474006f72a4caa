//! How much work the search for causes may be, counted in elements and not in seconds.

use std::cell::Cell;

/// Elements that the failures of one run may be looked at with, all together.
const OF_A_RUN: u64 = 1 << 28;

/// Elements that may still be looked at. A search that has used up its own finds nothing more.
///
/// What is counted is the same on every machine, so that the same run has the same diagnoses everywhere.
#[derive(Debug)]
pub struct Budget {
    left: Cell<u64>,
}

impl Budget {
    /// So many elements.
    pub const fn new(elements: u64) -> Self {
        Self { left: Cell::new(elements) }
    }

    /// What all failures of one run have.
    pub const fn of_a_run() -> Self {
        Self::new(OF_A_RUN)
    }

    /// Sets three quarters of what is left aside for one failure: the first is the one that people ask about.
    #[must_use]
    pub fn share(&self) -> Self {
        let share = self.left.get() / 4 * 3;
        self.left.set(self.left.get() - share);
        Self::new(share)
    }

    /// Elements that are left.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// Takes so many elements out; with too few left, all of them, and says no.
    pub(super) fn spend(&self, elements: usize) -> bool {
        let left = self.left.get().checked_sub(elements as u64);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_share_is_the_largest_and_what_is_spent_is_gone() {
        let run = Budget::new(64);
        let (first, second) = (run.share(), run.share());
        assert_eq!((first.left.get(), second.left.get(), run.left.get()), (48, 12, 4));
        assert!(first.spend(40) && !first.is_spent());
        assert!(!first.spend(9) && first.is_spent());
        assert!(!first.spend(1));
    }
}
