//! One spec of a suite: run at most once, however many of its trials ask.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::stats;
use serde::{Deserialize, Serialize};

use crate::Class;
use crate::golden::{ChecksumMemory, FixtureSet, Trust};
use crate::report::error_chain;
use crate::run::{
    Account, Compared, EXIT, Ending, Exit, Folder, FolderError, Going, Inject, JOB, Job, Obstacle, Out,
    RunName, STARTED, Story, Verified, account, attempt, launch, look_at_fixtures, stats_text,
};
use crate::spec::Spec;

/// What all cases of a suite share.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) root: PathBuf,
    pub(super) spec_root: PathBuf,
    pub(super) fixture_root: PathBuf,
    pub(super) snapshots: PathBuf,
    pub(super) out: Out,
    /// What this run is called, and whether other processes run other trials of the same specs.
    pub(super) name: RunName,
    pub(super) shared: bool,
    /// The run, once the first spec has started it.
    pub(super) going: OnceLock<Result<Going, String>>,
    /// How often ports run again to be timed.
    pub(super) times: u32,
}

impl Home {
    /// The run's folder, which the first caller makes.
    fn run_folder(&self) -> Result<&Path, String> {
        let going = self.going.get_or_init(|| {
            let going = self.out.start(&self.name).map_err(|error| error_chain(&error))?;
            going.note.iter().for_each(|note| eprintln!("parity: {note}"));
            Ok(going)
        });
        going.as_ref().map(|going| going.folder.as_path()).map_err(Clone::clone)
    }

    /// The run's folder, if any spec has started the run.
    pub(super) fn started(&self) -> Option<&Path> {
        self.going.get()?.as_ref().ok().map(|going| going.folder.as_path())
    }
}

/// Who runs a spec.
#[derive(Debug, Serialize, Deserialize)]
struct Started {
    process: u32,
    /// Which attempt of nextest's, from 1.
    attempt: u32,
}

/// A spec with the settings of this run.
#[derive(Debug)]
pub(super) struct Case {
    home: Arc<Home>,
    pub(super) spec: Arc<Spec>,
    pub(super) level: u8,
    inject: Inject,
    /// What is wrong with the spec itself that only the suite can know: its port is not registered.
    pub(super) unusable: Option<String>,
    /// The checkpoints that were asked for, when those are not all.
    wanted: OnceLock<Vec<String>>,
    /// Whether the trial of the port's statistics was asked for.
    wants_stats: AtomicBool,
    account: OnceLock<Result<Arc<Account>, String>>,
}

impl Case {
    pub(super) fn new(
        home: Arc<Home>,
        spec: Arc<Spec>,
        level: u8,
        inject: Inject,
        unusable: Option<String>,
    ) -> Self {
        let (wanted, wants_stats, account) = (OnceLock::new(), AtomicBool::new(false), OnceLock::new());
        Self { home, spec, level, inject, unusable, wanted, wants_stats, account }
    }

    /// Has the port's statistics compared when the spec is run.
    pub(super) fn want_stats(&self) {
        self.wants_stats.store(true, Ordering::Relaxed);
    }

    /// Lets the port be stopped once these checkpoints were met.
    pub(super) fn stop_after(&self, checkpoints: Vec<String>) {
        let _ = self.wanted.set(checkpoints);
    }

    /// How the trial of that name ended, in the account of its spec; the first caller runs the spec, the others wait for it.
    pub(super) fn ending(&self, name: &str) -> Result<(&Account, &Ending), String> {
        let account = self.account.get_or_init(|| {
            let folder = self.home.run_folder()?.join(&self.spec.id);
            let story = self.story(folder).map_err(|error| error_chain(&error))?;
            // Another process may have run the spec for this one, as it was then.
            if story.spec_digest().is_some_and(|digest| digest != self.spec.digest()) {
                let path = self.spec.path.display();
                return Err(format!("`{path}` changed while it was being tested; run again"));
            }
            let mut account = account(&self.spec, story);
            if self.wants_stats.load(Ordering::Relaxed) {
                let compared = self.compare_stats(&account.story);
                account.set_stats(&compared);
            }
            Ok(Arc::new(account))
        });
        let account = account.as_ref().map_err(Clone::clone)?;
        account
            .ending(name)
            .map(|ending| (&**account, ending))
            .ok_or_else(|| format!("the accounts of `{}` have no `{name}`; please report this", self.spec.id))
    }

    /// What came of the spec, if any of its trials was asked for.
    pub(super) fn account(&self) -> Option<&Result<Arc<Account>, String>> {
        self.account.get()
    }

    /// Compares the statistics of the whole run with those that were accepted.
    fn compare_stats(&self, story: &Story) -> Compared {
        let Home { root, snapshots, .. } = &*self.home;
        let folder = story.folder();
        match stats_text(&self.spec, story) {
            Ok(text) => stats::compare(folder, root, snapshots, &self.spec.id, &text),
            Err(why) => stats::cannot(folder, &why),
        }
    }

    /// Runs the spec, or waits for the process that does, and reads what it left.
    fn story(&self, folder: PathBuf) -> Result<Story, FolderError> {
        let folder = Folder::create(folder)?;
        let _held = folder.lock()?;
        let mut retry = false;
        if self.home.shared {
            // A retry of nextest is a new attempt at the same run, made by the first process that comes to it;
            // everything else that was started is not repeated.
            let before: Option<Started> = folder.read_json(STARTED)?;
            retry = before.is_some_and(|before| before.attempt < attempt());
            if let Some(story) = Story::read(&folder)?.filter(|story| !(retry && story.crashed())) {
                return Ok(story);
            }
        }
        let exit = if self.home.shared && !retry && folder.file(STARTED).exists() {
            Exit::Abandoned
        } else {
            let job = Job {
                spec: self.spec.id.clone(),
                spec_root: self.home.spec_root.clone(),
                fixture_root: self.home.fixture_root.clone(),
                folder: folder.clone(),
                level: self.level,
                until: self.wanted.get().cloned().filter(|_| !self.home.shared),
                inject: self.inject.clone(),
                times: self.home.times,
                mutate: None,
                verified: Verified::of(&self.spec, None),
            };
            // What an earlier attempt left, or an earlier run of the same name, is not ours.
            folder.clear()?;
            folder.write_json(STARTED, &Started { process: std::process::id(), attempt: attempt() })?;
            folder.write_json(JOB, &job)?;
            self.run(job)?
        };
        folder.write_json(EXIT, &exit)?;
        Story::read(&folder)?.ok_or_else(|| FolderError::Read {
            path: folder.file(EXIT),
            source: std::io::ErrorKind::NotFound.into(),
        })
    }

    fn run(&self, mut job: Job) -> Result<Exit, FolderError> {
        let (fixtures, obstacles) = self.fixtures();
        job.folder.write_json("obstacles.json", &obstacles)?;
        if !obstacles.is_empty() {
            return Ok(Exit::NotStarted("see obstacles.json".into()));
        }
        // The worker reads all of it once more, later, and must find what was looked at here.
        job.verified = Verified::of(&self.spec, fixtures.as_ref());
        job.folder.write_json(JOB, &job)?;
        Ok(launch(&job, self.spec.timeout, &self.home.out.device()))
    }

    /// The fixtures, and what makes running pointless: an unusable spec, or fixtures that cannot be trusted.
    fn fixtures(&self) -> (Option<FixtureSet>, Vec<Obstacle>) {
        if let Some(text) = &self.unusable {
            return (None, vec![Obstacle { class: Class::Spec, text: text.clone() }]);
        }
        let Home { root, fixture_root, out, .. } = &*self.home;
        let mut memory = ChecksumMemory::load(out.checksums(), Trust::here());
        let looked = look_at_fixtures(&self.spec, root, fixture_root, &mut memory);
        if let Err(error) = memory.save() {
            eprintln!("what was verified could not be remembered: {error}");
        }
        looked
    }
}
