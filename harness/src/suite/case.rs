//! One spec of a suite, which runs at most once for all its trials.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::context::Context;
use super::snapshot;
use serde::{Deserialize, Serialize};

use crate::worker::launch;
use mlx_parity_core::approval::Approvals;
use mlx_parity_core::gate::Class;
use mlx_parity_core::golden::{ChecksumMemory, FixtureSet, Trust};
use mlx_parity_core::preflight::look_at_fixtures;
use mlx_parity_core::results::{Account, RunData, SpecFile, TrialResult, account, stats_text};
use mlx_parity_core::run_folder::{
    Compared, EXIT, Exit, Folder, FolderError, JOB, Job, Obstacle, SPEC_FILE, STARTED, SnapshotTask, Verified,
};
use mlx_parity_core::runs::attempt;
use mlx_parity_core::settings::Keep;
use mlx_parity_core::spec::Inject;
use mlx_parity_core::spec::Spec;
use mlx_parity_core::text::error_chain;

/// The process that runs a spec.
#[derive(Debug, Serialize, Deserialize)]
struct Started {
    process: u32,
    /// Number of the nextest attempt, from 1.
    attempt: u32,
}

/// A spec with the settings of this run.
#[derive(Debug)]
pub(super) struct Case {
    context: Arc<Context>,
    pub(super) spec: Arc<Spec>,
    pub(super) level: u8,
    inject: Inject,
    /// For a twin: the run that it is compared with.
    pub(super) other: Option<Arc<Self>>,
    /// Checkpoints that twins are compared with.
    keep: Vec<String>,
    /// Why this suite cannot run the spec: its port is not registered, or no checkpoint is checked at this level.
    pub(super) unusable: Option<String>,
    /// The selected checkpoints; unset if the port must run to its end.
    wanted: OnceLock<Vec<String>>,
    /// The selected trials; unset if all are.
    selected: OnceLock<BTreeSet<String>>,
    /// Whether the trial `stats` is selected.
    wants_stats: AtomicBool,
    account: OnceLock<Result<Arc<Account>, String>>,
}

impl Case {
    pub(super) fn new(
        context: Arc<Context>,
        spec: Arc<Spec>,
        level: u8,
        inject: Inject,
        other: Option<Arc<Self>>,
        keep: Vec<String>,
        unusable: Option<String>,
    ) -> Self {
        Self {
            context,
            spec,
            level,
            inject,
            other,
            keep,
            unusable,
            wanted: OnceLock::new(),
            selected: OnceLock::new(),
            wants_stats: AtomicBool::new(false),
            account: OnceLock::new(),
        }
    }

    /// Compares the port's statistics with the snapshot after the run.
    pub(super) fn want_stats(&self) {
        self.wants_stats.store(true, Ordering::Relaxed);
    }

    /// Sets the trials that are shown and counted.
    pub(super) fn select(&self, trials: BTreeSet<String>) {
        let _ = self.selected.set(trials);
    }

    /// Allows the worker to stop the port once it has reached these checkpoints.
    pub(super) fn stop_after(&self, checkpoints: Vec<String>) {
        let _ = self.wanted.set(checkpoints);
    }

    /// Returns the spec's account and the result of the trial `name`. The first call runs the spec; other calls wait
    /// for that run.
    pub(super) fn trial(&self, name: &str) -> Result<(&Account, &TrialResult), String> {
        let account = self.ended().map_err(Clone::clone)?;
        account
            .trial(name)
            .map(|trial| (&**account, trial))
            .ok_or_else(|| format!("`{}` has no result for trial `{name}`; please report this", self.spec.id))
    }

    /// Returns the spec's account. The first call runs the spec.
    fn ended(&self) -> Result<&Arc<Account>, &String> {
        let account = self.account.get_or_init(|| {
            let run = self.context.run_folder()?;
            let data = self.data(run.join(&self.spec.id)).map_err(|error| error_chain(&error))?;
            // Another process may have run the spec before its file changed.
            if data.spec_digest().is_some_and(|digest| digest != self.spec.digest()) {
                let path = self.spec.path.display();
                return Err(format!("`{path}` changed during the test; rerun"));
            }
            let data = data.shown_at(self.context.shown(run).join(&self.spec.id));
            let mut account = account(&self.spec, data);
            account.is_apart = self.context.is_shared();
            if self.wants_stats.load(Ordering::Relaxed) {
                let compared = self.compare_stats(&account);
                account.set_stats(&compared);
            }
            // Other processes of a nextest run show and count the other trials.
            if let Some(selected) = self.selected.get().filter(|_| !self.context.is_shared()) {
                let prefix = format!("{}::", self.spec.id);
                account.select(|full| full.strip_prefix(&prefix).is_some_and(|name| selected.contains(name)));
            }
            Ok(Arc::new(account))
        });
        account.as_ref()
    }

    /// Returns the run folder of the run that this twin is compared with, after that run. A run that did not finish is an
    /// obstacle.
    fn other_folder(&self) -> Result<Option<Folder>, Obstacle> {
        let Some(other) = &self.other else { return Ok(None) };
        let unfinished = |why: &str| Obstacle {
            class: Class::Missing,
            text: format!("`{}`, which it is compared with, has no results: {why}", other.spec.id),
        };
        let account = other.ended().map_err(|why| unfinished(why))?;
        match account.data.incomplete(&other.spec) {
            Some(why) => Err(unfinished(&why)),
            None => Ok(Some(account.data.folder().clone())),
        }
    }

    /// Returns the spec's account, or `None` if no trial has run the spec.
    pub(super) fn account(&self) -> Option<&Result<Arc<Account>, String>> {
        self.account.get()
    }

    /// Compares the statistics of the whole run with the accepted snapshot.
    fn compare_stats(&self, account: &Account) -> Compared {
        let Context { root, snapshots, .. } = &*self.context;
        let folder = account.data.folder();
        let text = match stats_text(&self.spec, &account.data) {
            Ok(text) => text,
            Err(why) => return snapshot::cannot_compare(folder, &account.cut_short().unwrap_or(why)),
        };
        let task = SnapshotTask {
            name: self.spec.id.clone(),
            text,
            snapshots: snapshots.clone(),
            is_red: account.is_wrong(),
        };
        snapshot::compare(folder, root, &task)
    }

    /// Runs the spec, or waits for the process that runs it, and reads the run folder.
    fn data(&self, folder: PathBuf) -> Result<RunData, FolderError> {
        // The other run comes first: it has a lock of its own.
        let other = self.other_folder();
        let folder = Folder::create(folder)?;
        let _held = folder.lock()?;
        let mut retry = false;
        if self.context.is_shared() {
            // A nextest retry runs a crashed spec once more, in the first process that gets the lock. No other run is
            // repeated.
            let before: Option<Started> = folder.read_json(STARTED)?;
            retry = before.is_some_and(|before| before.attempt < attempt());
            if let Some(data) = RunData::read(&folder)?.filter(|data| !(retry && data.crashed())) {
                return Ok(data);
            }
        }
        let exit = if self.context.is_shared() && !retry && folder.file(STARTED).exists() {
            Exit::Abandoned
        } else {
            let job = Job {
                spec: self.spec.id.clone(),
                spec_root: self.context.spec_root.clone(),
                fixture_root: self.context.fixture_root.clone(),
                folder: folder.clone(),
                level: self.level,
                // A tap that a person wants to look at may come after the last selected checkpoint.
                until: self
                    .wanted
                    .get()
                    .cloned()
                    .filter(|_| !self.context.is_shared() && self.context.settings.peek.is_empty()),
                inject: self.inject.clone(),
                devices: self.context.settings.devices,
                peek: self.context.settings.peek.clone(),
                times: self.context.settings.times,
                keep_all: self.context.settings.keep == Keep::All,
                keep: self.keep.clone(),
                other: other.as_ref().ok().cloned().flatten(),
                approvals: Vec::new(),
                shapes: false,
                mutate: None,
                room: None,
                keep_room: None,
                debug: None,
                verified: Verified::of(&self.spec, None),
            };
            // An earlier attempt, or an earlier run with the same name, may have left files.
            folder.clear()?;
            folder.write_json(STARTED, &Started { process: std::process::id(), attempt: attempt() })?;
            folder.write_json(SPEC_FILE, &SpecFile::of(&self.spec))?;
            folder.write_json(JOB, &job)?;
            self.run(job, other.err())?
        };
        folder.write_json(EXIT, &exit)?;
        RunData::read(&folder)?.ok_or_else(|| FolderError::Read {
            path: folder.file(EXIT),
            source: std::io::ErrorKind::NotFound.into(),
        })
    }

    fn run(&self, mut job: Job, obstacle: Option<Obstacle>) -> Result<Exit, FolderError> {
        let (fixtures, mut obstacles) = self.fixtures();
        obstacles.extend(obstacle);
        let approvals = Approvals::read(&Approvals::path(&self.context.spec_root, &self.spec.id));
        match approvals {
            Ok(approvals) if self.inject == Inject::Declared => job.approvals = approvals.pictures,
            Ok(_) => {}
            Err(error) => obstacles.push(Obstacle { class: Class::Spec, text: error_chain(&error) }),
        }
        job.folder.write_json("obstacles.json", &obstacles)?;
        if !obstacles.is_empty() {
            return Ok(Exit::NotStarted("see obstacles.json".into()));
        }
        // The worker reads the files again, and must find the contents that were verified here.
        job.verified = Verified::of(&self.spec, fixtures.as_ref());
        job.room = Some(self.context.room());
        job.keep_room = Some(self.context.keep_room());
        job.folder.write_json(JOB, &job)?;
        Ok(launch(&job, self.spec.timeout, &self.context.out.device()))
    }

    /// Returns the fixtures and every reason not to run: an unusable spec, or fixtures that cannot be trusted.
    fn fixtures(&self) -> (Option<FixtureSet>, Vec<Obstacle>) {
        if let Some(text) = &self.unusable {
            return (None, vec![Obstacle { class: Class::Spec, text: text.clone() }]);
        }
        let Context { root, fixture_root, out, .. } = &*self.context;
        let mut memory = ChecksumMemory::load(out.checksums(), Trust::here());
        let looked = look_at_fixtures(&self.spec, root, fixture_root, &mut memory);
        if let Err(error) = memory.save() {
            eprintln!("cannot save the verified checksums: {error}");
        }
        looked
    }
}
