//! One spec that is ready to run outside the tests, for `mutate`, `shapes` and debug sessions.

use std::path::Path;

use super::Suite;
use mlx_parity_core::approval::{Approval, Approvals};
use mlx_parity_core::golden::{ChecksumMemory, FixtureSet, Trust};
use mlx_parity_core::preflight::look_at_fixtures;
use mlx_parity_core::run_folder::{Folder, Job, Verified};
use mlx_parity_core::runs::{Out, claim};
use mlx_parity_core::settings::Settings;
use mlx_parity_core::spec::{Host, Inject, Spec, Specs};
use mlx_parity_core::text::error_chain;

/// A spec whose port is registered and whose fixtures were verified.
pub(super) struct PreparedSpec {
    pub(super) spec: Spec,
    pub(super) out: Out,
    pub(super) folder: Folder,
    fixtures: Option<FixtureSet>,
    approvals: Vec<Approval>,
    settings: Settings,
    _held: std::fs::File,
}

impl PreparedSpec {
    /// Prepares the spec `id` and its empty folder `<out>/<within>/<id>`.
    ///
    /// # Errors
    /// Why the spec cannot run here, in words.
    pub(super) fn new(suite: &Suite, id: &str, within: &str) -> Result<Self, String> {
        Self::in_folder(suite, id, &Out::of(&suite.root).path().join(within))
    }

    /// Prepares the spec `id` and its empty folder `<within>/<id>`.
    ///
    /// # Errors
    /// Why the spec cannot run here, in words.
    pub(super) fn in_folder(suite: &Suite, id: &str, within: &Path) -> Result<Self, String> {
        if let Some(problem) = &suite.misplaced {
            return Err(problem.clone());
        }
        let specs = || Specs::load(&suite.spec_root).specs.into();
        let settings = Settings::read(specs).map_err(|error| error.to_string())?;
        let spec = Specs::load_one(&suite.spec_root, id).map_err(|error| error.to_string())?;
        if !suite.ports.contains_key(&spec.port) {
            return Err(format!("port `{}` is not registered with `Suite::port`", spec.port));
        }
        if let Some(reason) = spec.unmet(&Host::here(&suite.fixture_root, &spec.fixtures)) {
            return Err(format!("`{id}` cannot run here: it {reason}"));
        }
        let out = Out::of(&suite.root);
        let mut memory = ChecksumMemory::load(out.checksums(), Trust::here());
        let (fixtures, obstacles) = look_at_fixtures(&spec, &suite.root, &suite.fixture_root, &mut memory);
        // Without saved checksums, the next run hashes the files again.
        let _ = memory.save();
        if let Some(obstacle) = obstacles.first() {
            return Err(obstacle.text.clone());
        }
        let approvals = Approvals::read(&Approvals::path(&suite.spec_root, id));
        let approvals = approvals.map_err(|error| error_chain(&error))?.pictures;
        let message = |error: mlx_parity_core::run_folder::FolderError| error_chain(&error);
        claim(within).map_err(message)?;
        let folder = Folder::create(within.join(id)).map_err(message)?;
        let held = folder.lock().map_err(message)?;
        folder.clear().map_err(message)?;
        Ok(Self { spec, out, folder, fixtures, approvals, settings, _held: held })
    }

    /// Returns how many bytes `PARITY_SIZE_LIMIT` leaves for the tensors of this run.
    pub(super) fn room(&self, suite: &Suite) -> u64 {
        self.settings.sizes.stop.saturating_sub(self.out.taken(&suite.fixture_root))
    }

    /// Returns a job for the spec, which neither mutates nor looks at shapes only.
    pub(super) fn job(&self, suite: &Suite) -> Job {
        Job {
            spec: self.spec.id.clone(),
            spec_root: suite.spec_root.clone(),
            fixture_root: suite.fixture_root.clone(),
            folder: self.folder.clone(),
            level: self.settings.level_of(&self.spec),
            until: None,
            inject: Inject::Declared,
            peek: Vec::new(),
            room: None,
            times: 0,
            keep_all: false,
            approvals: self.approvals.clone(),
            shapes: false,
            mutate: None,
            debug: None,
            verified: Verified::of(&self.spec, self.fixtures.as_ref()),
        }
    }
}

/// Returns the last line that the worker printed.
pub(super) fn last_line(folder: &Folder) -> String {
    let output =
        mlx_parity_core::files::regular::read_text(&folder.output(), mlx_parity_core::files::regular::TEXT)
            .unwrap_or_default();
    let last = output.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("the worker ended without a message").to_owned()
}
