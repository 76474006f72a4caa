//! One spec of a suite: run at most once, however many of its trials ask.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::stats;
use crate::Class;
use crate::golden::ChecksumMemory;
use crate::report::error_chain;
use crate::run::{
    Ending, Exit, Folder, FolderError, Going, Job, Obstacle, Out, STATS, Story, account, launch,
    look_at_fixtures, stats_ending, stats_text,
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
    /// The key of this run, and whether other processes take part in it.
    pub(super) key: String,
    pub(super) shared: bool,
    /// The run, once the first spec has started it.
    pub(super) going: OnceLock<Result<Going, String>>,
}

impl Home {
    fn run_folder(&self) -> Result<&Path, String> {
        let going = self.going.get_or_init(|| self.out.start(&self.key).map_err(|error| error_chain(&error)));
        going.as_ref().map(|going| going.folder.as_path()).map_err(Clone::clone)
    }
}

/// A spec with the settings of this run.
#[derive(Debug)]
pub(super) struct Case {
    home: Arc<Home>,
    pub(super) spec: Spec,
    pub(super) level: u8,
    /// What is wrong with the spec itself that only the suite can know: its port is not registered.
    pub(super) unusable: Option<String>,
    /// The checkpoints that were asked for, when those are not all.
    wanted: OnceLock<Vec<String>>,
    endings: OnceLock<Result<Vec<Ending>, String>>,
    stats: OnceLock<Ending>,
}

impl Case {
    pub(super) fn new(home: Arc<Home>, spec: Spec, level: u8, unusable: Option<String>) -> Self {
        Self {
            home,
            spec,
            level,
            unusable,
            wanted: OnceLock::new(),
            endings: OnceLock::new(),
            stats: OnceLock::new(),
        }
    }

    /// Lets the port be stopped once these checkpoints were met.
    pub(super) fn stop_after(&self, checkpoints: Vec<String>) {
        let _ = self.wanted.set(checkpoints);
    }

    /// How the trial of that name ended; the first caller runs the spec, the others wait for it.
    pub(super) fn ending(&self, name: &str) -> Result<&Ending, String> {
        let endings = self.endings().as_ref().map_err(Clone::clone)?;
        if name == STATS {
            return self.stats();
        }
        endings
            .iter()
            .find(|ending| ending.name == name)
            .ok_or_else(|| format!("the accounts of `{}` have no `{name}`; please report this", self.spec.id))
    }

    /// How all trials ended, if any of them was asked for.
    pub(super) fn ended(&self) -> Option<Result<Vec<Ending>, String>> {
        let mut endings = self.endings.get()?.clone();
        if let (Ok(endings), Some(stats)) = (&mut endings, self.stats.get()) {
            // An earlier attempt at the same run may have left its own.
            endings.retain(|ending| ending.name != STATS);
            endings.push(stats.clone());
        }
        Some(endings)
    }

    /// Compares the statistics of the whole run with those that were accepted.
    fn stats(&self) -> Result<&Ending, String> {
        let Home { root, snapshots, .. } = &*self.home;
        let folder = Folder::at(self.home.run_folder()?.join(&self.spec.id));
        let story = Story::read(&folder).map_err(|error| error_chain(&error))?;
        Ok(self.stats.get_or_init(|| {
            let text = match &story {
                Some(story) => stats_text(&self.spec, story),
                None => Err("the run left nothing behind".to_owned()),
            };
            let compared = match text {
                Ok(text) => stats::compare(&folder, root, snapshots, &self.spec.id, &text),
                Err(why) => stats::cannot(&folder, &why),
            };
            stats_ending(&compared)
        }))
    }

    fn endings(&self) -> &Result<Vec<Ending>, String> {
        self.endings.get_or_init(|| {
            let folder = self.home.run_folder()?.join(&self.spec.id);
            let story = self.story(folder).map_err(|error| error_chain(&error))?;
            Ok(account(&self.spec, self.level, &story))
        })
    }

    /// Runs the spec, or waits for the process that does, and reads what it left.
    fn story(&self, folder: PathBuf) -> Result<Story, FolderError> {
        if !self.home.shared {
            // Somebody gave this run the name of an earlier one: what that one found is not ours.
            let _ = std::fs::remove_dir_all(&folder);
        }
        let folder = Folder::create(folder)?;
        let _held = folder.lock()?;
        // A retry of nextest is a new attempt at the same run; everything else that was started is not repeated.
        let retry = std::env::var("NEXTEST_ATTEMPT").is_ok_and(|attempt| attempt != "1");
        if let Some(story) = Story::read(&folder)?.filter(|story| !(retry && story.crashed())) {
            return Ok(story);
        }
        let exit = if self.home.shared && !retry && folder.file("started").exists() {
            Exit::Abandoned
        } else {
            folder.write_json("started", &std::process::id())?;
            self.run(&folder)?
        };
        folder.write_json("exit.json", &exit)?;
        Story::read(&folder)?.ok_or_else(|| FolderError::Read {
            path: folder.file("exit.json"),
            source: std::io::ErrorKind::NotFound.into(),
        })
    }

    fn run(&self, folder: &Folder) -> Result<Exit, FolderError> {
        let obstacles = self.obstacles();
        folder.write_json("obstacles.json", &obstacles)?;
        if !obstacles.is_empty() {
            return Ok(Exit::NotStarted("see obstacles.json".into()));
        }
        let job = Job {
            spec: self.spec.id.clone(),
            spec_root: self.home.spec_root.clone(),
            fixture_root: self.home.fixture_root.clone(),
            folder: folder.clone(),
            level: self.level,
            until: self.wanted.get().cloned().filter(|_| !self.home.shared),
        };
        Ok(launch(&job, self.spec.timeout, &self.home.out.device()))
    }

    /// What makes running pointless: an unusable spec, or fixtures that cannot be trusted.
    fn obstacles(&self) -> Vec<Obstacle> {
        if let Some(text) = &self.unusable {
            return vec![Obstacle { class: Class::Spec, text: text.clone() }];
        }
        let Home { root, fixture_root, out, .. } = &*self.home;
        let mut memory = ChecksumMemory::load(out.checksums());
        let (_, obstacles) = look_at_fixtures(&self.spec, root, fixture_root, &mut memory);
        if let Err(error) = memory.save() {
            eprintln!("what was verified could not be remembered: {error}");
        }
        obstacles
    }
}
