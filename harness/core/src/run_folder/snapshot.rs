//! The comparison of a port's statistics with their snapshot: `stats.json`.

use serde::{Deserialize, Serialize};

/// The result of comparing statistics with their snapshot, kept in the run folder as `stats.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compared {
    /// Every statistic is within its tolerance, or the new snapshot was just accepted.
    Kept,
    /// A statistic moved, or the comparison was not possible.
    Failed {
        /// What happened, in one line.
        line: String,
        /// One line per statistic that moved.
        more: Option<String>,
    },
}

impl Compared {
    /// Returns a failure without further lines.
    pub fn failed(line: impl Into<String>) -> Self {
        Self::Failed { line: line.into(), more: None }
    }
}
