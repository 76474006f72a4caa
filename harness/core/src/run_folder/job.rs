//! The job of a worker: `job.json`. Reports read it too.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::folder::Folder;
use crate::approval::Approval;
use crate::debug::DebugTask;
use crate::external::ExternalFile;
use crate::files::identity::FileIdentity;
use crate::golden::{ExternalWeights, FixtureSet};
use crate::spec::{Devices, Inject, Spec};

/// The name of the file in the folder of the spec.
pub const JOB: &str = "job.json";

/// The job of one worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The spec's id.
    pub spec: String,
    /// Where specs run that name no device.
    #[serde(default)]
    pub devices: Devices,
    /// The folder with all specs.
    pub spec_root: PathBuf,
    /// The folder with all fixtures.
    pub fixture_root: PathBuf,
    /// The run folder of the spec.
    pub folder: Folder,
    /// The level up to which checkpoints are checked.
    pub level: u8,
    /// The port can be stopped after all of these checkpoints; `None` runs it to its end.
    pub until: Option<Vec<String>>,
    /// Which goldens are injected.
    pub inject: Inject,
    /// Patterns of the taps whose tensors are described in `peeks.jsonl`.
    #[serde(default)]
    pub peek: Vec<String>,
    /// How often the port runs again to be timed.
    pub times: u32,
    /// Whether the actuals of green checkpoints are kept, too.
    #[serde(default)]
    pub keep_all: bool,
    /// Checkpoints whose actuals are kept although they are green, because a twin is compared with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// For a twin: the run folder whose actuals take the place of goldens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Folder>,
    /// The pictures that people approved by eye. Empty where goldens are injected, since the pictures differ then.
    #[serde(default)]
    pub approvals: Vec<Approval>,
    /// The worker looks at shapes and dtypes only, in place of the usual run.
    #[serde(default)]
    pub shapes: bool,
    /// The worker makes mutations at the taps, one after another, in place of the usual run. It skips this many first.
    #[serde(default)]
    pub mutate: Option<usize>,
    /// How many bytes of actuals and pictures the worker may write: what `PARITY_SIZE_LIMIT` leaves. `None` is any number.
    #[serde(default)]
    pub room: Option<u64>,
    /// How many bytes of actuals and pictures the run may still keep: what `PARITY_KEEP_LIMIT` leaves. `None` is any number.
    #[serde(default)]
    pub keep_room: Option<u64>,
    /// The worker is stepped through by a debug session. Nothing in its folder is a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug: Option<DebugTask>,
    /// The files that the parent has verified; the worker uses no others.
    #[serde(default)]
    pub verified: Verified,
}

/// The spec and fixtures that were verified before the worker started. The worker reads them again and must find the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// The digest of the spec.
    pub spec: String,
    /// The verified files of the fixture set, with the manifest.
    pub fixtures: BTreeMap<String, FileIdentity>,
    /// The files of external weights, whose identities are among `fixtures`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external: Vec<ExternalFile>,
}

impl Verified {
    /// Returns the identities of the spec and of its fixtures.
    pub fn of(spec: &Spec, fixtures: Option<&FixtureSet>) -> Self {
        let external = fixtures.and_then(FixtureSet::external).map(ExternalWeights::located);
        Self {
            spec: spec.digest(),
            fixtures: fixtures.map(FixtureSet::identities).unwrap_or_default(),
            external: external.unwrap_or_default(),
        }
    }
}
