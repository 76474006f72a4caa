//! The comparison of a port's statistics with their snapshot: the task in `snapshot.json`, the result in `stats.json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The name of the file with the task.
pub const SNAPSHOT_TASK: &str = "snapshot.json";
/// The name of the file with the result.
pub const STATS_FILE: &str = "stats.json";

/// The comparison to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotTask {
    /// The spec's id, which is the snapshot's name.
    pub name: String,
    /// The statistics of the port, as text.
    pub text: String,
    /// The folder of the snapshots.
    pub snapshots: PathBuf,
    /// Whether the port is red. The statistics of a red port are never written or offered.
    pub is_red: bool,
}

impl SnapshotTask {
    /// Returns the path of the accepted snapshot.
    pub fn file(&self) -> PathBuf {
        self.snapshots.join(format!("{}.snap", self.name.replace('/', "__")))
    }

    /// Returns the path of a snapshot that was offered and not accepted yet.
    pub fn offered(&self) -> PathBuf {
        self.file().with_extension("snap.new")
    }
}

/// The result of comparing statistics with their snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compared {
    /// Every statistic is within its tolerance, or the new snapshot was just accepted.
    Kept,
    /// There is no snapshot yet. Not a failure outside CI.
    New {
        /// What happened, in one line.
        line: String,
    },
    /// A statistic moved.
    Changed {
        /// What happened, in one line.
        line: String,
        /// One line per statistic that moved.
        more: Option<String>,
    },
    /// The comparison was not possible, or CI found no snapshot.
    Failed {
        /// What happened, in one line.
        line: String,
        /// Further lines.
        more: Option<String>,
    },
}

impl Compared {
    /// Returns a failure without further lines.
    pub fn failed(line: impl Into<String>) -> Self {
        Self::Failed { line: line.into(), more: None }
    }
}
