//! The limit on the work of a search for causes, counted in elements and not in seconds.

use std::cell::Cell;

/// Elements that the diagnoses of one run may read, all together.
const OF_A_RUN: u64 = 1 << 28;

/// The number of elements that may still be read. A search that has spent its budget finds nothing more.
///
/// Elements are counted alike on every machine, so that the same run has the same diagnoses everywhere.
#[derive(Debug)]
pub struct Budget {
    left: Cell<u64>,
}

impl Budget {
    /// A budget of this many elements.
    pub const fn new(elements: u64) -> Self {
        Self { left: Cell::new(elements) }
    }

    /// The budget that all failures of one run share.
    pub const fn of_a_run() -> Self {
        Self::new(OF_A_RUN)
    }

    /// Takes three quarters of the rest for one failure: the first failure matters most.
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

    /// Takes this many elements out and returns whether there were enough; if not, the budget is spent.
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
