//! What a worker is asked to do: `job.json`, which also tells a later reader what the run was.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::folder::Folder;
use crate::golden::FixtureSet;
use crate::identity::FileIdentity;
use crate::spec::Spec;

/// The file of the job in the folder of its spec.
pub(crate) const JOB: &str = "job.json";

/// What one worker is asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The spec's id.
    pub(crate) spec: String,
    pub(crate) spec_root: PathBuf,
    pub(crate) fixture_root: PathBuf,
    pub(crate) folder: Folder,
    /// Checkpoints up to this level are looked at.
    pub(crate) level: u8,
    /// After all of these the port may be stopped; nothing means that it runs to its end.
    pub(crate) until: Option<Vec<String>>,
    pub(crate) inject: Inject,
    /// How often the port runs again once it was judged, to be timed.
    pub(crate) times: u32,
    /// Faults are planted at the taps, one after another, in place of the judged run: all but the first so many.
    #[serde(default)]
    pub(crate) mutate: Option<usize>,
    /// What the parent has verified, which is all that the worker may use.
    #[serde(default)]
    pub(crate) verified: Verified,
}

/// What was verified before a worker is started: it reads everything once more, and must find the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verified {
    /// The digest of the spec.
    pub(crate) spec: String,
    /// The files of the fixture set whose content was verified, the manifest among them.
    pub(crate) fixtures: BTreeMap<String, FileIdentity>,
}

impl Verified {
    pub(crate) fn of(spec: &Spec, fixtures: Option<&FixtureSet>) -> Self {
        Self { spec: spec.digest(), fixtures: fixtures.map(FixtureSet::identities).unwrap_or_default() }
    }
}

/// The goldens that a port goes on with in place of its own actuals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Inject {
    /// Those that the spec names.
    #[default]
    Declared,
    /// These too: `PARITY_INJECT`.
    Also(Vec<String>),
    /// Every one, so that each stage is judged on golden inputs: `PARITY_LOCALISE`.
    All,
}

impl Inject {
    /// Whether the port goes on with the golden of this checkpoint.
    pub(crate) fn takes(&self, spec: &Spec, checkpoint: &str) -> bool {
        let declared = || spec.inject.iter().any(|name| name == checkpoint);
        match self {
            Self::Declared => declared(),
            Self::Also(names) => declared() || names.iter().any(|name| name == checkpoint),
            Self::All => true,
        }
    }

    /// Whether any golden of this spec is injected.
    pub(crate) fn any(&self, spec: &Spec) -> bool {
        spec.checkpoints.iter().any(|checkpoint| self.takes(spec, &checkpoint.name))
    }
}
