//! The counts of a run, in which everything that was declared is somewhere.

use std::fmt;

use crate::run::{Ending, Verdict};
use crate::spec::list::counted;

/// How many trials ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    /// Not known: the run goes on, or was interrupted before it came to them.
    pub(crate) pending: usize,
    pub(crate) not_gated: usize,
    pub(crate) specs: usize,
    /// Specs that should have been run, and were not.
    pub(crate) not_run: usize,
    /// Whether any port went on with goldens in place of its own actuals.
    pub(crate) injected: bool,
}

impl Summary {
    /// Counts the trials of one spec that ran.
    pub(crate) fn add(&mut self, endings: &[Ending]) {
        self.specs += 1;
        for ending in endings {
            match ending.verdict {
                Verdict::Passed => self.passed += 1,
                Verdict::NotGated(_) => self.not_gated += 1,
                Verdict::Failed { .. } => self.failed += 1,
                Verdict::Pending(_) => self.pending += 1,
            }
        }
    }
}

/// `512 passed, 0 failed, 0 ignored, 12 specs`, with those that are pending or not gated where there are any.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} ignored, ", self.passed, self.failed, self.ignored)?;
        if self.pending > 0 {
            write!(f, "{} pending, ", self.pending)?;
        }
        if self.not_gated > 0 {
            write!(f, "{} not gated, ", self.not_gated)?;
        }
        f.write_str(&counted(self.specs, "spec"))?;
        if self.not_run > 0 {
            write!(f, ", {} not run", counted(self.not_run, "spec"))?;
        }
        f.write_str(if self.injected { ", INJECTED" } else { "" })
    }
}
