//! Everything that the run of one spec left behind, read once.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use super::account::teller;
use super::environment::{ENVIRONMENT, Environment};
use super::folder::{Audit, EXIT, End, Exit, Folder, FolderError, LOCAL, Line, STARTED};
use super::job::{Inject, JOB, Job};
use super::obstacle::Obstacle;
use super::stats::Compared;
use crate::record::Record;
use crate::report::error_chain;
use crate::spec::Spec;

/// So much of the end of what a worker printed is looked at.
const LAST_WORDS: u64 = 64 << 10;
/// The file with the times of warm runs.
pub(super) const TIMES: &str = "times.json";
/// The file with the names of goldens in the order in which the reference made them.
pub(super) const ORDER: &str = "order.json";
/// Milliseconds from the tap before to each checkpoint, the median of all warm runs.
pub(super) type Times = BTreeMap<String, f64>;

/// Everything that a run left behind.
#[derive(Debug)]
pub(crate) struct Story {
    pub(super) folder: Folder,
    /// What was asked for; absent when the process that ran the spec could not even write that.
    job: Option<Job>,
    pub(super) obstacles: Vec<Obstacle>,
    exit: Exit,
    pub(super) lines: Vec<Line>,
    times: Times,
    environment: Option<Environment>,
    /// What came of the comparison of its statistics, once that was made.
    pub(super) stats: Option<Compared>,
    /// The run with every golden injected that a red one was followed by.
    local: Option<Box<Self>>,
    /// Why that cannot be read, if it cannot.
    local_problem: Option<String>,
    /// Where the reference comes to each golden, by name.
    order: HashMap<String, usize>,
}

impl Story {
    /// Reads the folder of a run that has ended, or whose process was killed; `None` when it was never started or still
    /// goes on.
    pub(crate) fn read(folder: &Folder) -> Result<Option<Self>, FolderError> {
        let exit = match folder.read_json(EXIT)? {
            Some(exit) => exit,
            None if folder.file(STARTED).exists() && !folder.is_locked() => Exit::Abandoned,
            None => return Ok(None),
        };
        Self::with(folder, exit).map(Some)
    }

    /// Reads what a run that still goes on has left so far; `None` when it was never started.
    pub(crate) fn so_far(folder: &Folder) -> Result<Option<Self>, FolderError> {
        match folder.file(STARTED).exists() {
            true => Self::with(folder, Exit::Running).map(Some),
            false => Ok(None),
        }
    }

    fn with(folder: &Folder, exit: Exit) -> Result<Self, FolderError> {
        let order = read_order(folder)?;
        // Nothing of the first run hangs on the second, but that it is damaged is told.
        let (local, local_problem) = match Self::local(folder, &order) {
            Ok(local) => (local, None),
            Err(error) => (None, Some(error_chain(&error))),
        };
        Ok(Self {
            folder: folder.clone(),
            job: folder.read_json(JOB)?,
            obstacles: folder.read_json("obstacles.json")?.unwrap_or_default(),
            exit,
            lines: folder.lines()?,
            times: folder.read_json(TIMES)?.unwrap_or_default(),
            environment: folder.read_json(ENVIRONMENT)?,
            stats: folder.read_json("stats.json")?,
            local,
            local_problem,
            order,
        })
    }

    /// Reads what the second run left inside the folder of the first, if there was one that came back.
    fn local(within: &Folder, order: &HashMap<String, usize>) -> Result<Option<Box<Self>>, FolderError> {
        let folder = Folder::at(within.file(LOCAL));
        let Some(job) = folder.read_json(JOB)? else { return Ok(None) };
        let story = Self {
            lines: folder.lines()?,
            folder,
            job: Some(job),
            obstacles: Vec::new(),
            exit: Exit::Done,
            times: Times::default(),
            environment: None,
            stats: None,
            local: None,
            local_problem: None,
            order: order.clone(),
        };
        Ok(story.end().is_some().then(|| Box::new(story)))
    }

    /// Takes out the run with every golden injected, if this one was followed by one.
    pub(super) fn take_local(&mut self) -> Option<Self> {
        self.local.take().map(|local| *local)
    }

    /// Why what the second run left cannot be read, if it cannot.
    pub(crate) fn local_problem(&self) -> Option<&str> {
        self.local_problem.as_deref()
    }

    /// Where the reference comes to the golden of that checkpoint, if that is known.
    pub(super) fn order(&self, checkpoint: &str) -> Option<usize> {
        self.order.get(checkpoint).copied()
    }

    /// Where it was left.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// What the worker ran in, if it came to that.
    pub(crate) fn environment(&self) -> Option<&Environment> {
        self.environment.as_ref()
    }

    /// Up to which level checkpoints were looked at, if that is known.
    pub(crate) fn level(&self) -> Option<u8> {
        self.job.as_ref().map(|job| job.level)
    }

    /// What was injected.
    pub(crate) fn inject(&self) -> Inject {
        self.job.as_ref().map(|job| job.inject.clone()).unwrap_or_default()
    }

    /// How long a stage takes once everything is warm, if the run was to be timed: the median, in milliseconds.
    pub(crate) fn warm_millis(&self, checkpoint: &str) -> Option<f64> {
        self.times.get(checkpoint).copied()
    }

    /// The records of the checkpoints that were met, in the order of the run.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.shared_records().map(|record| &**record)
    }

    /// The same, to be kept.
    pub(super) fn shared_records(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.lines.iter().filter_map(|line| match line {
            Line::Checkpoint(record) => Some(record),
            _ => None,
        })
    }

    /// Whether the worker did not get to its end.
    pub(crate) fn crashed(&self) -> bool {
        self.crash().or_else(|| self.pending()).is_some()
    }

    /// What was verified before the run and changed while it went on: nothing that it found can be trusted.
    pub(crate) fn changed(&self) -> &[Obstacle] {
        self.end().map_or(&[], |end| &end.changed)
    }

    /// The digest of the spec that was run, if it is known.
    pub(crate) fn spec_digest(&self) -> Option<&str> {
        self.job.as_ref().map(|job| job.verified.spec.as_str())
    }

    /// Whether the port was stopped on purpose, since nobody had asked for more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.end().is_some_and(|end| end.stopped)
    }

    /// Why the run does not tell of the whole port, in one line; nothing if it does.
    pub(crate) fn incomplete(&self, spec: &Spec) -> Option<String> {
        if let Some(obstacle) = self.obstacles.first() {
            return Some(format!("not run; `{}::{}` says why", spec.id, teller(obstacle)));
        }
        if self.is_stopped() {
            return Some("the port was stopped, since nobody had asked for the whole of it".to_owned());
        }
        if let Some(changed) = self.changed().first() {
            return Some(changed.text.clone());
        }
        self.crash().or_else(|| self.pending())
    }

    /// What became of the weights, if the port came back.
    pub(crate) fn audit(&self) -> Option<&Audit> {
        self.end().and_then(|end| end.weights.as_ref())
    }

    /// Whether the port drew from MLX's global random state.
    pub(crate) fn drew(&self) -> bool {
        self.end().is_some_and(|end| end.random.is_some())
    }

    pub(super) fn end(&self) -> Option<&End> {
        self.lines.iter().rev().find_map(|line| match line {
            Line::End(end) => Some(&**end),
            _ => None,
        })
    }

    /// The last checkpoint that was met.
    fn last(&self) -> String {
        self.records().last().map_or_else(
            || "before any checkpoint".to_owned(),
            |record| format!("after checkpoint `{}`", record.checkpoint),
        )
    }

    /// Why it is not known yet, or will never be, how the port would have ended: the run goes on, or whoever ran it was
    /// killed. Neither says anything about the port.
    pub(crate) fn pending(&self) -> Option<String> {
        match self.exit {
            _ if self.end().is_some() => None,
            Exit::Running => Some(format!("the spec is still running, {}", self.last())),
            Exit::Abandoned => Some(format!(
                "the run was interrupted {}: the process that ran this spec was killed",
                self.last()
            )),
            _ => None,
        }
    }

    /// Why the port did not get to its end, in one line; nothing if it did, was stopped on purpose, or is
    /// [`pending`](Self::pending).
    pub(super) fn crash(&self) -> Option<String> {
        let last = self.last();
        if let Some(end) = self.end() {
            return end.error.as_ref().map(|error| format!("the port failed {last}: {error}"));
        }
        Some(match &self.exit {
            Exit::Abandoned | Exit::Running => return None,
            Exit::Done => format!("the port ended its process {last}, with success"),
            Exit::Code(code) => format!("the worker ended {last}, with exit code {code}"),
            Exit::Signal(signal) => format!("the worker was killed by {} {last}", signal_name(*signal)),
            Exit::TimedOut(seconds) => format!("the worker timed out after {seconds} s, {last}"),
            Exit::NotStarted(problem) => format!("the worker could not be started: {problem}"),
        })
    }

    /// What happened to the worker although its port had come back: nothing that a verdict hangs on, but worth a line.
    pub(crate) fn late_death(&self) -> Option<String> {
        self.end()?;
        let how = match &self.exit {
            Exit::Code(code) => format!("ended with exit code {code}"),
            Exit::Signal(signal) => format!("was killed by {}", signal_name(*signal)),
            Exit::TimedOut(seconds) => format!("timed out after {seconds} s"),
            Exit::Done | Exit::NotStarted(_) | Exit::Abandoned | Exit::Running => return None,
        };
        Some(format!("the worker {how} after the port had come back"))
    }

    /// A tap that was met in another order than the reference comes to it, and the one that it came after.
    pub(crate) fn out_of_order(&self) -> Option<(&str, &str)> {
        self.lines.iter().find_map(|line| match line {
            Line::OutOfOrder { name, after } => Some((name.as_str(), after.as_str())),
            _ => None,
        })
    }

    /// Taps that were first met after the record `after` and before the record `before`, and that the run did not look
    /// at; from the start, to the end, where there is none.
    pub(crate) fn passed_between(&self, after: Option<u64>, before: Option<u64>) -> Vec<&str> {
        let place = |sequence: u64| {
            let is = |line: &Line| matches!(line, Line::Checkpoint(record) if record.sequence == sequence);
            self.lines.iter().position(is)
        };
        let start = after.and_then(place).map_or(0, |start| start + 1);
        let end = before.and_then(place).unwrap_or(self.lines.len());
        self.lines.get(start..end).unwrap_or_default().iter().filter_map(undeclared).collect()
    }

    /// The last lines that the worker printed, which hold what a panic or MLX itself said.
    pub(super) fn last_words(&self) -> Option<String> {
        let mut file = crate::regular::open(&self.folder.output()).ok()?;
        let start = file.metadata().ok()?.len().saturating_sub(LAST_WORDS);
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = Vec::new();
        file.take(LAST_WORDS).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(20)..];
        (!shown.is_empty()).then(|| format!("the worker's last words:\n{}", shown.join("\n")))
    }
}

/// The place of each golden in the order of the reference; nothing where the worker did not come to write it.
fn read_order(folder: &Folder) -> Result<HashMap<String, usize>, FolderError> {
    let names: Vec<String> = folder.read_json(ORDER)?.unwrap_or_default();
    Ok(names.into_iter().enumerate().map(|(place, name)| (name, place)).collect())
}

/// The name of a tap that is not declared.
pub(super) fn undeclared(line: &Line) -> Option<&str> {
    match line {
        Line::Undeclared { name } => Some(name),
        _ => None,
    }
}

/// The names of the signals that end a port in practice.
fn signal_name(signal: i32) -> String {
    match signal {
        4 => "SIGILL".into(),
        6 => "SIGABRT".into(),
        7 if cfg!(target_os = "linux") => "SIGBUS".into(),
        10 if cfg!(target_os = "macos") => "SIGBUS".into(),
        8 => "SIGFPE".into(),
        9 => "SIGKILL (out of memory, perhaps)".into(),
        11 => "SIGSEGV".into(),
        15 => "SIGTERM".into(),
        other => format!("signal {other}"),
    }
}
