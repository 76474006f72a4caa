//! What a merged run was made from: `merge.json`.
//!
//! A suite can be split over several machines. The merged run folder holds each spec once, and this file holds what only the
//! runs together show: where each part ran, and why the whole does not add up.

use std::fmt::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::folder::{Folder, FolderError};
use super::merge_finding::MergeFinding;
use super::suite::Checkout;
use crate::files::size::words;
use crate::spec::list::counted;
use crate::text::printable::clean;

/// The name of the file in a merged run folder. No other run folder has it.
pub const MERGED: &str = "merge.json";

/// The content of `merge.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedRuns {
    /// The runs that were merged, in the order in which they were given.
    pub parts: Vec<MergedPart>,
    /// Why the merged run proves less than one whole run. A merged run with any finding is red.
    pub findings: Vec<MergeFinding>,
}

/// One of the runs that were merged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedPart {
    /// The name of the run, as findings show it.
    pub name: String,
    /// When its first suite started, in UTC.
    pub started: String,
    /// The commit that was checked out, if it is known.
    pub checkout: Option<Checkout>,
    /// The selected trials in a few words.
    pub selected: String,
    /// How many trials it judged.
    pub trials: usize,
    /// Of how many specs.
    pub specs: usize,
    /// The MLX version, device, system and chip: one line per distinct environment of its specs.
    pub environments: Vec<String>,
    /// The most memory that a port used.
    pub peak: Option<PeakMemory>,
}

/// The most memory that a port of a run used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakMemory {
    /// In bytes, as MLX counts them.
    pub bytes: u64,
    /// The spec of this port.
    pub spec: String,
    /// The memory of the machine in bytes, if it is known.
    pub machine: Option<u64>,
}

impl MergedRuns {
    /// Reads the file in the run folder `run`; `None` if the run was not merged.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn read(run: &Path) -> Result<Option<Self>, FolderError> {
        Folder::at(run.to_owned()).read_json(MERGED)
    }
}

/// Prints `part-1-of-3  651 trials of 27 specs, nextest; MLX 0.32.2 on cpu, …; memory peak 1.0 MB in flux/pipeline; …`.
impl fmt::Display for MergedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!(
            "{}  {} of {}, {}",
            clean(&self.name),
            counted(self.trials, "trial"),
            counted(self.specs, "spec"),
            clean(&self.selected)
        );
        for environment in &self.environments {
            let _ = write!(text, "; {}", clean(environment));
        }
        if let Some(PeakMemory { bytes, spec, machine }) = &self.peak {
            let _ = write!(text, "; memory peak {}", words(*bytes));
            if let Some(machine) = machine {
                let _ = write!(text, " of {}", words(*machine));
            }
            let _ = write!(text, " in {}", clean(spec));
        }
        if let Some(checkout) = &self.checkout {
            let _ = write!(text, "; {}", clean(&checkout.to_string()));
        }
        f.write_str(&text)
    }
}
