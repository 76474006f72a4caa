//! The content of one spec's run folder, read once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::spec_file::{SpecFile, SpecFileError};
use crate::record::Record;
use crate::run_folder::{ADAPTERS_FILE, AdapterRun, Obstacle};
use crate::run_folder::{Audit, EXIT, End, Exit, Folder, FolderError, LOCAL, Line, SPEC_FILE, STARTED};
use crate::run_folder::{Compared, STATS_FILE};
use crate::run_folder::{ENVIRONMENT, Environment};
use crate::run_folder::{JOB, Job, RESOURCES, Resources};
use crate::run_folder::{PEEKS, Peek};
use crate::spec::{Devices, Inject, Spec};
use crate::text::error_chain;

/// The file with the times of warm runs.
pub const TIMES: &str = "times.json";
/// The file with the names of goldens, in the order in which the reference computed them.
pub const ORDER: &str = "order.json";
/// Milliseconds from the previous tap to each checkpoint: the median of all warm runs.
pub type Times = BTreeMap<String, f64>;

/// Everything in one spec's run folder.
#[derive(Debug)]
pub struct RunData {
    /// The folder that was read.
    pub folder: Folder,
    /// The folder as messages show it, which can differ from where it was read.
    shown: PathBuf,
    /// The spec that was run.
    spec: Option<SpecFile>,
    /// The job of the worker; absent when it could not be written.
    job: Option<Job>,
    /// Problems that kept the spec from running.
    pub obstacles: Vec<Obstacle>,
    /// How the worker ended.
    pub(super) exit: Exit,
    /// The lines of `records.jsonl`.
    pub lines: Vec<Line>,
    times: Times,
    environment: Option<Environment>,
    resources: Option<Resources>,
    /// What adapters change in the port.
    adapters: Option<AdapterRun>,
    /// The result of comparing the statistics, once they were compared.
    pub stats: Option<Compared>,
    /// The tensors that `PARITY_PEEK` named, in the order of the run.
    pub peeks: Vec<Peek>,
    /// The second run of a red spec, with every golden injected.
    local: Option<Box<Self>>,
    /// Why the second run cannot be read.
    local_problem: Option<String>,
    /// The position of each golden in the reference, by name.
    order: HashMap<String, usize>,
    /// Whether the worker's output was recorded.
    has_log: bool,
}

impl RunData {
    /// Reads the folder of a run that ended or was killed; `None` when it never started or still runs.
    ///
    /// # Errors
    /// When a file is damaged or cannot be read.
    pub fn read(folder: &Folder) -> Result<Option<Self>, FolderError> {
        let exit = match folder.read_json(EXIT)? {
            Some(exit) => exit,
            None if folder.file(STARTED).exists() && !folder.is_locked() => Exit::Abandoned,
            None => return Ok(None),
        };
        Self::with(folder, exit).map(Some)
    }

    /// Reads the folder of a run in progress; `None` when it never started.
    ///
    /// # Errors
    /// When a file is damaged or cannot be read.
    pub fn so_far(folder: &Folder) -> Result<Option<Self>, FolderError> {
        match folder.file(STARTED).exists() {
            true => Self::with(folder, Exit::Running).map(Some),
            false => Ok(None),
        }
    }

    fn with(folder: &Folder, exit: Exit) -> Result<Self, FolderError> {
        let job: Option<Job> = folder.read_json(JOB)?;
        // A person stepped through this run and could change its tensors, so it proves nothing.
        if job.as_ref().is_some_and(|job| job.debug.is_some()) {
            return Err(FolderError::Debug { path: folder.file("") });
        }
        let order = read_order(folder)?;
        // The first run does not depend on the second. A damaged second run is reported as such.
        let (local, local_problem) = match Self::local(folder, &order) {
            Ok(local) => (local, None),
            Err(error) => (None, Some(error_chain(&error))),
        };
        Ok(Self {
            folder: folder.clone(),
            shown: folder.file(""),
            spec: folder.read_json(SPEC_FILE)?,
            job,
            obstacles: folder.read_json("obstacles.json")?.unwrap_or_default(),
            exit,
            lines: folder.lines()?,
            times: folder.read_json(TIMES)?.unwrap_or_default(),
            environment: folder.read_json(ENVIRONMENT)?,
            resources: folder.read_json(RESOURCES)?,
            adapters: folder.read_json(ADAPTERS_FILE)?,
            stats: folder.read_json(STATS_FILE)?,
            peeks: folder.read_json_lines(PEEKS)?,
            local,
            local_problem,
            order,
            has_log: folder.output().is_file(),
        })
    }

    /// Reads the second run inside the folder of the first; `None` unless its port returned.
    fn local(within: &Folder, order: &HashMap<String, usize>) -> Result<Option<Box<Self>>, FolderError> {
        let folder = Folder::at(within.file(LOCAL));
        let Some(job) = folder.read_json(JOB)? else { return Ok(None) };
        let data = Self {
            lines: folder.lines()?,
            shown: folder.file(""),
            spec: None,
            folder,
            job: Some(job),
            obstacles: Vec::new(),
            exit: Exit::Done,
            times: Times::default(),
            environment: None,
            resources: None,
            adapters: None,
            stats: None,
            peeks: Vec::new(),
            local: None,
            local_problem: None,
            order: order.clone(),
            // Both passes print to the log of the first.
            has_log: false,
        };
        Ok(data.end().is_some().then(|| Box::new(data)))
    }

    /// Takes the second run, with every golden injected, out of this one.
    pub(crate) fn take_local(&mut self) -> Option<Self> {
        self.local.take().map(|local| *local)
    }

    /// Returns why the second run cannot be read, if it cannot.
    pub fn local_problem(&self) -> Option<&str> {
        self.local_problem.as_deref()
    }

    /// Returns the position of the checkpoint in the reference, if it is known.
    pub(crate) fn order(&self, checkpoint: &str) -> Option<usize> {
        self.order.get(checkpoint).copied()
    }

    /// Sets the folder that messages show instead of the one that was read.
    pub fn shown_at(mut self, folder: PathBuf) -> Self {
        if let Some(local) = &mut self.local {
            local.shown = folder.join(LOCAL);
        }
        self.shown = folder;
        self
    }

    /// Returns the path of a file in the folder as messages show it.
    pub(crate) fn shown(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.folder.file("")).map_or_else(|_| path.to_owned(), |file| self.shown.join(file))
    }

    /// Returns the path of the file with everything that the worker and the port printed, as messages show it.
    pub(crate) fn log(&self) -> Option<PathBuf> {
        self.has_log.then(|| self.shown(&self.folder.output()))
    }

    /// Takes the spec that was run.
    ///
    /// # Errors
    /// When the folder has no spec, or the digest of its spec differs from the recorded one.
    pub(crate) fn take_spec(&mut self) -> Result<Arc<Spec>, SpecFileError> {
        let path = self.shown.join(SPEC_FILE);
        match self.spec.take() {
            None => Err(SpecFileError::Missing { path }),
            Some(file) if file.spec.digest() != file.digest => Err(SpecFileError::Changed { path }),
            Some(file) => Ok(file.spec),
        }
    }

    /// Returns the folder that was read.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns the environment of the worker, if it was recorded.
    pub fn environment(&self) -> Option<&Environment> {
        self.environment.as_ref()
    }

    /// Returns the resources that the port used, if it returned.
    pub fn resources(&self) -> Option<&Resources> {
        self.resources.as_ref()
    }

    /// Returns what the adapters change in the port, if it was measured.
    pub fn adapters(&self) -> Option<&AdapterRun> {
        self.adapters.as_ref()
    }

    /// Returns the audit of the adapters, if the port returned and has adapters.
    pub fn adapter_audit(&self) -> Option<&Audit> {
        self.end().and_then(|end| end.adapters.as_ref())
    }

    /// Returns the level up to which checkpoints were checked, if it is known.
    pub fn level(&self) -> Option<u8> {
        self.job.as_ref().map(|job| job.level)
    }

    /// Returns the patterns of `PARITY_PEEK`.
    pub fn peek(&self) -> &[String] {
        self.job.as_ref().map_or(&[], |job| &job.peek)
    }

    /// Returns the names of the taps that the port reached, declared or not, each once.
    pub fn taps(&self) -> BTreeSet<&str> {
        self.lines
            .iter()
            .filter_map(|line| match line {
                Line::Checkpoint(record) => Some(record.checkpoint.as_str()),
                line => undeclared(line),
            })
            .collect()
    }

    /// Returns which goldens were injected.
    pub fn inject(&self) -> Inject {
        self.job.as_ref().map(|job| job.inject.clone()).unwrap_or_default()
    }

    /// Returns where specs ran that name no device.
    pub fn devices(&self) -> Devices {
        self.job.as_ref().map(|job| job.devices).unwrap_or_default()
    }

    /// Returns the median time of a stage in warm runs, in milliseconds, if the run was timed.
    pub fn warm_millis(&self, checkpoint: &str) -> Option<f64> {
        self.times.get(checkpoint).copied()
    }

    /// Returns the records of the reached checkpoints, in the order of the run.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.shared_records().map(|record| &**record)
    }

    /// Returns the same records with shared ownership.
    pub(crate) fn shared_records(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.lines.iter().filter_map(|line| match line {
            Line::Checkpoint(record) => Some(record),
            _ => None,
        })
    }

    /// Returns whether the worker did not finish.
    pub fn crashed(&self) -> bool {
        self.crash().or_else(|| self.pending()).is_some()
    }

    /// Returns the verified files that changed during the run. Results of such a run cannot be trusted.
    pub fn changed(&self) -> &[Obstacle] {
        self.end().map_or(&[], |end| &end.changed)
    }

    /// Returns the digest of the spec that was run, if it is known.
    pub fn spec_digest(&self) -> Option<&str> {
        self.job.as_ref().map(|job| job.verified.spec.as_str())
    }

    /// Returns whether the port was stopped early because no later checkpoint was selected.
    pub fn is_stopped(&self) -> bool {
        self.end().is_some_and(|end| end.stopped)
    }

    /// Returns why the run does not cover the whole port, in one line; `None` if it does.
    pub fn incomplete(&self, spec: &Spec) -> Option<String> {
        if let Some(obstacle) = self.obstacles.first() {
            return Some(format!("not run; see `{}::{}`", spec.id, obstacle.trial()));
        }
        if self.is_stopped() {
            return Some("the port was stopped early: no later checkpoint was selected".to_owned());
        }
        if let Some(changed) = self.changed().first() {
            return Some(changed.text.clone());
        }
        self.crash().or_else(|| self.pending())
    }

    /// Returns the weight audit, if the port returned and has weights.
    pub fn audit(&self) -> Option<&Audit> {
        self.end().and_then(|end| end.weights.as_ref())
    }

    /// Returns whether the port drew from MLX's global random state.
    pub(crate) fn drew(&self) -> bool {
        self.end().is_some_and(|end| end.random.is_some())
    }

    /// Returns the last line of `records.jsonl`, if the port returned.
    pub fn end(&self) -> Option<&End> {
        self.lines.iter().rev().find_map(|line| match line {
            Line::End(end) => Some(&**end),
            _ => None,
        })
    }

    /// Returns the taps that the run reached and did not check, in the order in which they were first reached.
    pub fn undeclared_taps(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(undeclared)
    }

    /// Returns the first tap reached in another order than in the reference, and the later one that preceded it.
    pub(crate) fn out_of_order(&self) -> Option<(&str, &str)> {
        self.lines.iter().find_map(|line| match line {
            Line::OutOfOrder { name, after } => Some((name.as_str(), after.as_str())),
            _ => None,
        })
    }

    /// Returns the unchecked taps first reached between the records `after` and `before`; `None` means the start or the
    /// end of the run.
    pub(crate) fn passed_between(&self, after: Option<u64>, before: Option<u64>) -> Vec<&str> {
        let place = |sequence: u64| {
            let is = |line: &Line| matches!(line, Line::Checkpoint(record) if record.sequence == sequence);
            self.lines.iter().position(is)
        };
        let start = after.and_then(place).map_or(0, |start| start + 1);
        let end = before.and_then(place).unwrap_or(self.lines.len());
        self.lines.get(start..end).unwrap_or_default().iter().filter_map(undeclared).collect()
    }
}

/// Reads the position of each golden in the reference; empty when the worker did not write the file.
fn read_order(folder: &Folder) -> Result<HashMap<String, usize>, FolderError> {
    let names: Vec<String> = folder.read_json(ORDER)?.unwrap_or_default();
    Ok(names.into_iter().enumerate().map(|(place, name)| (name, place)).collect())
}

/// The name of an undeclared tap, if the line reports one.
pub(super) fn undeclared(line: &Line) -> Option<&str> {
    match line {
        Line::Undeclared { name } => Some(name),
        _ => None,
    }
}
