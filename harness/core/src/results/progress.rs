//! How far a run has come, while it goes on. The run folder is the only source, except for the holder of the device.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::run::SuiteData;
use super::stats::STATS;
use super::trial::{ADAPTERS, WEIGHTS};
use crate::files::regular;
use crate::record::Status;
use crate::run_folder::{EXIT, FIXTURE, Folder, FolderError, LOCAL, SPEC, STARTED};
use crate::runs::DeviceHolder;

/// How far one run has come.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunProgress {
    /// Whether a suite has written its plan. Before that, Cargo builds, or the suite lists its trials.
    pub planned: bool,
    /// When the first suite started, in UTC.
    pub started: Option<String>,
    /// Whether every suite has ended. Under nextest no process knows, so it stays false.
    pub ended: bool,
    /// The selected specs, sorted by id.
    pub specs: Vec<SpecProgress>,
}

/// How far one spec has come.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpecProgress {
    /// The spec's id.
    pub spec: String,
    /// What the spec is doing.
    #[serde(flatten)]
    pub state: SpecState,
    /// Selected checkpoints that the port has reached in this pass.
    pub done: usize,
    /// Selected checkpoints at the run's level.
    pub declared: usize,
    /// Checkpoints that have failed so far. One that was not reached has not failed.
    pub failed: usize,
    /// The checkpoint that the port reached last.
    pub last: Option<String>,
    /// The process that runs the spec.
    pub process: Option<u32>,
    /// How long the spec has been running or waiting for the device, or how long it took.
    #[serde(rename = "elapsed_seconds", serialize_with = "seconds")]
    pub elapsed: Option<Duration>,
}

/// What a spec is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SpecState {
    /// It has not started.
    Waiting,
    /// It waits for the device, which only one worker uses at a time.
    WaitingForDevice {
        /// Who holds the device, if that is known.
        holder: Option<DeviceHolder>,
    },
    /// Its port runs.
    Running,
    /// Its port has returned and runs again, to be timed.
    Timing,
    /// Its port runs a second time, with every golden injected.
    SecondPass,
    /// It has ended.
    Done,
    /// Its process was killed.
    Interrupted,
    /// This machine does not meet its requirements.
    Ignored,
}

impl SpecState {
    /// Returns whether the port runs now.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running | Self::Timing | Self::SecondPass)
    }

    /// Returns whether nothing more will happen.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Done | Self::Interrupted | Self::Ignored)
    }
}

impl RunProgress {
    /// Returns how many of the specs are over, running, and waiting.
    pub fn counts(&self) -> [usize; 3] {
        let count = |is: fn(&SpecState) -> bool| self.specs.iter().filter(|spec| is(&spec.state)).count();
        let (over, running) = (count(SpecState::is_over), count(SpecState::is_running));
        [over, running, self.specs.len() - over - running]
    }

    /// Returns how many checkpoints were reached, and how many are declared. A spec that is over counts whole: the report
    /// says which of its checkpoints were never reached.
    pub fn checkpoints(&self) -> (usize, usize) {
        let reached = |spec: &SpecProgress| match spec.state {
            SpecState::SecondPass | SpecState::Timing => spec.declared,
            _ => spec.done,
        };
        let specs = || self.specs.iter().filter(|spec| spec.state != SpecState::Ignored);
        (specs().map(reached).sum(), specs().map(|spec| spec.declared).sum())
    }
}

/// Reads a run folder again and again, and parses only the records that are new.
#[derive(Debug)]
pub struct RunWatch {
    folder: PathBuf,
    passes: HashMap<PathBuf, Pass>,
}

impl RunWatch {
    /// Returns a watch over the run in `folder`. Nothing is read yet.
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), passes: HashMap::new() }
    }

    /// Returns how far the run has come. `holder` is who holds the device now.
    ///
    /// # Errors
    /// When the plan of a suite is damaged or has another format version.
    pub fn look(&mut self, holder: Option<&DeviceHolder>) -> Result<RunProgress, FolderError> {
        let suites = SuiteData::read_all(&self.folder)?;
        let mut specs: Vec<SpecProgress> = Vec::new();
        for SuiteData { plan, .. } in suites.iter().filter(|suite| suite.plan.refused.is_none()) {
            for planned in &plan.specs {
                let takes = |name: &&String| plan.takes(&format!("{}::{name}", planned.id));
                let selected: Vec<&String> = planned.trials.iter().filter(takes).collect();
                if selected.is_empty() || specs.iter().any(|known| known.spec == planned.id) {
                    continue;
                }
                let checkpoints: HashSet<&str> = selected
                    .iter()
                    .map(|name| name.as_str())
                    .filter(|name| !RESERVED.contains(name))
                    .collect();
                specs.push(match &planned.unmet {
                    Some(_) => SpecProgress::new(&planned.id, SpecState::Ignored, checkpoints.len()),
                    None => self.spec(&planned.id, &checkpoints, holder),
                });
            }
        }
        specs.sort_by(|a, b| a.spec.cmp(&b.spec));
        Ok(RunProgress {
            planned: !suites.is_empty(),
            started: suites.iter().map(|suite| suite.plan.started.clone()).min(),
            ended: !suites.is_empty() && suites.iter().all(|suite| suite.end.is_some()),
            specs,
        })
    }

    fn spec(&mut self, id: &str, checkpoints: &HashSet<&str>, holder: Option<&DeviceHolder>) -> SpecProgress {
        let folder = Folder::at(self.folder.join(id));
        let Ok(started) = modified(&folder.file(STARTED)) else {
            return SpecProgress::new(id, SpecState::Waiting, checkpoints.len());
        };
        let process: Option<Owner> = folder.read_json(STARTED).ok().flatten();
        let ended = modified(&folder.file(EXIT)).ok();
        let local = Folder::at(folder.file(LOCAL));
        // The lock is held until the outcome is written.
        let state = match () {
            () if ended.is_some() => SpecState::Done,
            () if !folder.is_locked() => SpecState::Interrupted,
            // The worker's output is opened right after the device was locked.
            () if !folder.output().exists() => SpecState::WaitingForDevice { holder: holder.cloned() },
            () if local.file("").is_dir() => SpecState::SecondPass,
            () if self.pass(&folder).returned => SpecState::Timing,
            () => SpecState::Running,
        };
        let first = self.pass(&folder).progress(checkpoints);
        let (done, last) = match state {
            SpecState::SecondPass => {
                let Reached { done, last, .. } = self.pass(&local).progress(checkpoints);
                (done, last)
            }
            _ => (first.done, first.last.clone()),
        };
        let elapsed = ended.unwrap_or_else(SystemTime::now).duration_since(started).ok();
        let (process, failed) = (process.map(|owner| owner.process), first.failed);
        SpecProgress {
            done,
            failed,
            last,
            process,
            elapsed,
            ..SpecProgress::new(id, state, checkpoints.len())
        }
    }

    /// The records of one pass, with those that were written since the last look.
    fn pass(&mut self, folder: &Folder) -> &Pass {
        let path = folder.records();
        let pass = self.passes.entry(path.clone()).or_default();
        // A record that cannot be read yet is read at the next look. Reports say what is damaged.
        let _ = pass.read(&path);
        pass
    }
}

impl SpecProgress {
    fn new(spec: &str, state: SpecState, declared: usize) -> Self {
        let (last, process, elapsed) = (None, None, None);
        Self { spec: spec.to_owned(), state, done: 0, declared, failed: 0, last, process, elapsed }
    }
}

/// Trials that are not checkpoints.
const RESERVED: [&str; 5] = [FIXTURE, WEIGHTS, ADAPTERS, STATS, SPEC];

/// The part of the file [`STARTED`] that is read here.
#[derive(Debug, Deserialize)]
struct Owner {
    process: u32,
}

/// The records of one pass of a port that have been read.
#[derive(Debug, Default)]
struct Pass {
    /// How many bytes have been read.
    length: u64,
    /// Each checkpoint, and whether a hit of it failed.
    reached: HashMap<String, bool>,
    last: Option<String>,
    /// Whether the port has returned.
    returned: bool,
}

/// The selected checkpoints of a pass.
struct Reached {
    done: usize,
    failed: usize,
    last: Option<String>,
}

/// The part of a line of `records.jsonl` that is read here.
#[derive(Debug, Deserialize)]
struct LineStart {
    kind: String,
    checkpoint: Option<String>,
    verdict: Option<VerdictStart>,
}

#[derive(Debug, Deserialize)]
struct VerdictStart {
    status: Status,
}

impl Pass {
    /// Reads the lines that were added. A repeated attempt starts the file again.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        let mut file = regular::open(path)?;
        if file.metadata()?.len() < self.length {
            *self = Self::default();
        }
        file.seek(SeekFrom::Start(self.length))?;
        let mut file = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = file.read_until(b'\n', &mut line)?;
            if read == 0 || line.last() != Some(&b'\n') {
                return Ok(());
            }
            self.length += read as u64;
            if let Ok(line) = serde_json::from_slice(&line) {
                self.add(line);
            }
        }
    }

    fn add(&mut self, line: LineStart) {
        match (line.kind.as_str(), line.checkpoint) {
            ("checkpoint", Some(name)) => {
                let failed = line.verdict.is_some_and(|verdict| verdict.status == Status::Fail);
                *self.reached.entry(name.clone()).or_default() |= failed;
                self.last = Some(name);
            }
            ("end", _) => self.returned = true,
            _ => {}
        }
    }

    fn progress(&self, selected: &HashSet<&str>) -> Reached {
        let reached = || self.reached.iter().filter(|(name, _)| selected.contains(name.as_str()));
        let failed = reached().filter(|(_, failed)| **failed).count();
        Reached { done: reached().count(), failed, last: self.last.clone() }
    }
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

fn seconds<S: serde::Serializer>(elapsed: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    elapsed.map(|elapsed| elapsed.as_secs_f64()).serialize(to)
}

#[cfg(test)]
mod tests;
