//! The limit on the work of a search for causes, counted in elements. Only tensors that are too large to be read whole also have
//! a limit in seconds.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Elements that the diagnoses of one run may read, all together.
const OF_A_RUN: u64 = 1 << 28;
/// The time for all large tensors of one run together. Counted elements say little about them: most of their time goes into
/// pages that have to be read.
const FOR_LARGE: Duration = Duration::from_secs(3);

/// The number of elements that may still be read. A search that has spent its budget finds nothing more.
///
/// Elements are counted alike on every machine, so that the same run has the same diagnoses everywhere, except for tensors that
/// are too large to be read whole.
#[derive(Debug)]
pub struct Budget {
    left: Cell<u64>,
    /// What is left of [`FOR_LARGE`].
    time: Cell<Duration>,
    /// The start of a search in a large tensor.
    started: Cell<Option<Instant>>,
}

impl Budget {
    /// A budget of this many elements.
    pub const fn new(elements: u64) -> Self {
        Self { left: Cell::new(elements), time: Cell::new(FOR_LARGE), started: Cell::new(None) }
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
        Self { left: Cell::new(share), time: self.time.clone(), started: Cell::new(None) }
    }

    /// Takes the time that a share has left, once its search is over.
    pub fn join(&self, share: &Self) {
        self.time.set(self.time.get().min(share.time.get()));
    }

    /// Calls `search` on a tensor that is too large to be read whole, and takes the time that this takes.
    pub(super) fn timed<T>(&self, search: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        self.started.set(Some(started));
        let found = search();
        self.started.set(None);
        self.time.set(self.time.get().saturating_sub(started.elapsed()));
        found
    }

    fn is_late(&self) -> bool {
        self.started.get().is_some_and(|started| started.elapsed() >= self.time.get())
    }

    /// Elements that are left.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.left.get() == 0 || self.is_late()
    }

    /// Takes this many elements out and returns whether there were enough; if not, the budget is spent.
    pub(super) fn spend(&self, elements: usize) -> bool {
        let left = self.left.get().checked_sub(elements as u64).filter(|_| !self.is_late());
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

    #[test]
    fn only_large_tensors_take_time_and_late_is_spent() {
        let run = Budget { time: Cell::new(Duration::ZERO), ..Budget::new(64) };
        assert!(run.spend(8) && !run.is_spent(), "a small tensor has no limit of time");
        let share = run.share();
        share.timed(|| assert!(share.is_spent() && !share.spend(1)));
        let run = Budget::new(64);
        let share = run.share();
        share.timed(|| std::thread::sleep(Duration::from_millis(2)));
        run.join(&share);
        assert!(run.time.get() < FOR_LARGE && !run.is_spent());
    }
}
