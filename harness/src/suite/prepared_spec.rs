//! One spec that is ready to run outside the tests, for `mutate`, `shapes` and debug sessions.

use std::path::Path;

use super::Suite;
use crate::worker::launch;
use mlx_parity_core::approval::{Approval, Approvals};
use mlx_parity_core::golden::{ChecksumMemory, FixtureSet, Trust};
use mlx_parity_core::preflight::look_at_fixtures;
use mlx_parity_core::run_folder::{Exit, Folder, JOB, Job, Line, Verified};
use mlx_parity_core::runs::{Out, claim};
use mlx_parity_core::settings::Settings;
use mlx_parity_core::spec::{Host, Inject, Spec, Specs};
use mlx_parity_core::text::error_chain;

/// A spec whose port is registered and whose fixtures were verified.
pub(super) struct PreparedSpec {
    pub(super) spec: Spec,
    pub(super) out: Out,
    pub(super) folder: Folder,
    /// For a twin: the folder of the run that it is compared with.
    other: Option<Folder>,
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
        let spec =
            Specs::load_one_on(settings.devices, &suite.spec_root, id).map_err(|error| error.to_string())?;
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
        let other = match &spec.twin {
            Some(twin) => Some(Self::other_run(suite, &spec, &twin.of, within)?),
            None => None,
        };
        let message = |error: mlx_parity_core::run_folder::FolderError| error_chain(&error);
        claim(within).map_err(message)?;
        let folder = Folder::create(within.join(id)).map_err(message)?;
        let held = folder.lock().map_err(message)?;
        folder.clear().map_err(message)?;
        Ok(Self { spec, out, folder, other, fixtures, approvals, settings, _held: held })
    }

    /// Runs the spec `id` in its folder below `within`, and keeps the tensors that the twin is compared with.
    ///
    /// # Errors
    /// Why the run did not finish, in words.
    fn other_run(suite: &Suite, twin: &Spec, id: &str, within: &Path) -> Result<Folder, String> {
        let prepared = Self::in_folder(suite, id, within)?;
        let keep = Spec::kept_for(twin).cloned().collect();
        let (job, folder) = (Job { keep, ..prepared.job(suite) }, prepared.folder.clone());
        let message = |error: mlx_parity_core::run_folder::FolderError| error_chain(&error);
        folder.write_json(JOB, &job).map_err(message)?;
        let exit = launch(&job, prepared.spec.timeout, &prepared.out.device());
        let lines = folder.lines().map_err(message)?;
        let end = lines.iter().rev().find_map(|line| match line {
            Line::End(end) => Some(end),
            _ => None,
        });
        match end.map(|end| end.error.clone()) {
            Some(None) if exit == Exit::Done => Ok(folder),
            Some(Some(error)) => Err(format!("`{id}`, which it is compared with, failed: {error}")),
            _ => Err(format!("`{id}`, which it is compared with, failed: {}", last_line(&folder))),
        }
    }

    /// Returns how many bytes `PARITY_SIZE_LIMIT` leaves for the tensors of this run.
    pub(super) fn room(&self, suite: &Suite) -> u64 {
        self.settings.sizes.stop.saturating_sub(self.out.taken(&suite.fixture_root))
    }

    /// Returns a job for the spec, which neither mutates nor looks at shapes only.
    pub(super) fn job(&self, suite: &Suite) -> Job {
        Job {
            spec: self.spec.id.clone(),
            devices: self.settings.devices,
            spec_root: suite.spec_root.clone(),
            fixture_root: suite.fixture_root.clone(),
            folder: self.folder.clone(),
            level: self.settings.level_of(&self.spec),
            until: None,
            inject: Inject::Declared,
            peek: Vec::new(),
            room: None,
            keep_room: None,
            times: 0,
            keep_all: false,
            keep: Vec::new(),
            other: self.other.clone(),
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
