//! What a run's folder says about every declared checkpoint: each ends as passed, failed or not gated, none is lost.

use std::collections::HashMap;
use std::path::PathBuf;

use super::folder::{Audit, End, Exit, Folder, FolderError, Line};
use super::obstacle::Obstacle;
use super::stats::{Compared, STATS, has_stats};
use crate::Class;
use crate::near::did_you_mean;
use crate::record::{Record, Status};
use crate::spec::{Checkpoint, Spec};

/// The trials that a spec has beside its checkpoints; [`SPEC`] only when something is wrong with the spec itself.
pub(crate) const SPEC: &str = "spec";
pub(crate) const FIXTURE: &str = "fixture";
pub(crate) const WEIGHTS: &str = "weights";

/// How one trial of a spec ended.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    /// The checkpoint's name, or [`FIXTURE`], [`WEIGHTS`], [`STATS`] or [`SPEC`].
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    /// The record that decided, if the checkpoint was met.
    pub(crate) record: Option<Record>,
    /// Where the actual was kept, if it was.
    pub(crate) actual: Option<PathBuf>,
    /// Whether the audit of the weights failed, so that values mean little.
    pub(crate) audit_failed: bool,
}

impl Ending {
    fn without_record(name: &str, verdict: Verdict) -> Self {
        Self { name: name.to_owned(), verdict, record: None, actual: None, audit_failed: false }
    }
}

/// The verdict on a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// Measured and shown, by the spec's own word not judged; the class is that of a failure that does not count.
    NotGated(Option<Class>),
    Failed {
        class: Class,
        /// What happened, in one line.
        line: String,
        /// More to read, shown for one trial of a run only.
        more: Option<String>,
    },
}

/// Everything that a run left behind, read once.
#[derive(Debug)]
pub(crate) struct Story {
    folder: Folder,
    obstacles: Vec<Obstacle>,
    exit: Exit,
    lines: Vec<Line>,
    output: String,
    /// What came of the comparison of its statistics, once that was made.
    stats: Option<Compared>,
}

impl Story {
    /// Reads the folder of a run that has ended; `None` if it has not.
    pub(crate) fn read(folder: &Folder) -> Result<Option<Self>, FolderError> {
        let Some(exit) = folder.read_json("exit.json")? else { return Ok(None) };
        let obstacles = folder.read_json("obstacles.json")?.unwrap_or_default();
        let output = std::fs::read(folder.output()).unwrap_or_default();
        let output = String::from_utf8_lossy(&output).into_owned();
        let stats = folder.read_json("stats.json")?;
        Ok(Some(Self { folder: folder.clone(), obstacles, exit, lines: folder.lines()?, output, stats }))
    }

    /// The records of the checkpoints that were met, in the order of the run.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.lines.iter().filter_map(|line| match line {
            Line::Checkpoint(record) => Some(&**record),
            _ => None,
        })
    }

    /// Whether the worker did not get to its end.
    pub(crate) fn crashed(&self) -> bool {
        self.crash().is_some()
    }

    /// Why the run does not tell of the whole port, in one line; nothing if it does.
    pub(crate) fn incomplete(&self, spec: &Spec) -> Option<String> {
        if let Some(obstacle) = self.obstacles.first() {
            return Some(format!("not run; `{}::{}` says why", spec.id, teller(obstacle)));
        }
        if self.end().is_some_and(|end| end.stopped) {
            return Some("the port was stopped, since nobody had asked for the whole of it".to_owned());
        }
        self.crash()
    }

    /// What became of the weights, if the port came back.
    pub(crate) fn audit(&self) -> Option<&Audit> {
        self.end().and_then(|end| end.weights.as_ref())
    }

    fn end(&self) -> Option<&End> {
        self.lines.iter().rev().find_map(|line| match line {
            Line::End(end) => Some(&**end),
            _ => None,
        })
    }

    /// Why the port did not get to its end, in one line; nothing if it did, or was stopped on purpose.
    fn crash(&self) -> Option<String> {
        let last = self.records().last().map_or_else(
            || "before any checkpoint".to_owned(),
            |record| format!("after checkpoint `{}`", record.checkpoint),
        );
        if let Some(end) = self.end() {
            return end.error.as_ref().map(|error| format!("the port failed {last}: {error}"));
        }
        Some(match &self.exit {
            Exit::Done => format!("the port ended its process {last}, with success"),
            Exit::Code(code) => format!("the worker ended {last}, with exit code {code}"),
            Exit::Signal(signal) => format!("the worker was killed by {} {last}", signal_name(*signal)),
            Exit::TimedOut(seconds) => format!("the worker timed out after {seconds} s, {last}"),
            Exit::NotStarted(problem) => format!("the worker could not be started: {problem}"),
            Exit::Abandoned => format!("the process that ran this spec was killed {last}"),
        })
    }
}

/// The names of all trials of `spec` at that level, those beside the checkpoints last.
pub(crate) fn trial_names(spec: &Spec, level: u8) -> Vec<String> {
    let checkpoints = spec.checkpoints.iter().filter(|checkpoint| checkpoint.level <= level);
    let mut names: Vec<String> = checkpoints.map(|checkpoint| checkpoint.name.clone()).collect();
    names.extend(spec.needs_fixtures().then(|| FIXTURE.to_owned()));
    names.extend(spec.weights.is_some().then(|| WEIGHTS.to_owned()));
    names.extend(has_stats(spec, level).then(|| STATS.to_owned()));
    names
}

/// How every trial of `spec` ended, checkpoints up to `level` in their declared order, then the others.
///
/// A run that was stopped, because nobody asked for more, tells only of the checkpoints that it met.
pub(crate) fn account(spec: &Spec, level: u8, story: &Story) -> Vec<Ending> {
    let mut met: HashMap<&str, Vec<&Record>> = HashMap::new();
    for record in story.records() {
        met.entry(&record.checkpoint).or_default().push(record);
    }
    let crash = story.crash();
    let stopped = story.end().is_some_and(|end| end.stopped);
    let audit_failed = story.audit().is_some_and(|audit| !audit.is_clean());
    let mut blamed: Option<String> = None;
    let mut endings: Vec<Ending> = Vec::new();
    for checkpoint in spec.checkpoints.iter().filter(|checkpoint| checkpoint.level <= level) {
        let records = met.get(checkpoint.name.as_str()).map_or(&[][..], Vec::as_slice);
        if records.is_empty() && stopped {
            continue;
        }
        let verdict = match (&story.obstacles[..], records, &crash) {
            ([obstacle, ..], ..) => {
                failed(obstacle.class, format!("not run; `{}::{}` says why", spec.id, teller(obstacle)))
            }
            ([], [], Some(crash)) => match &blamed {
                Some(first) => failed(Class::Crash, format!("not reached; `{}::{first}` says why", spec.id)),
                None => {
                    blamed = Some(checkpoint.name.clone());
                    Verdict::Failed { class: Class::Crash, line: crash.clone(), more: tail(&story.output) }
                }
            },
            ([], [], None) => failed(Class::Unreached, unreached(&checkpoint.name, story)),
            ([], records, _) => judged(checkpoint, records, story, crash.as_deref()),
        };
        let deciding =
            records.iter().find(|record| record.verdict.status == Status::Fail).or(records.first());
        let actual = deciding.map(|record| story.folder.actual(&record.checkpoint, record.hit));
        endings.push(Ending {
            name: checkpoint.name.clone(),
            verdict,
            record: deciding.map(|record| (*record).clone()),
            actual: actual.filter(|path| path.is_file()),
            audit_failed,
        });
    }
    if let Some(obstacle) = story.obstacles.first().filter(|obstacle| teller(obstacle) == SPEC) {
        let verdict = failed(obstacle.class, obstacle.text.clone());
        endings.push(Ending::without_record(SPEC, verdict));
    }
    if stopped {
        return endings;
    }
    if spec.needs_fixtures() {
        endings.push(Ending::without_record(FIXTURE, fixture(story)));
    }
    if spec.weights.is_some() {
        endings.push(Ending::without_record(WEIGHTS, weights(story, crash)));
    }
    endings.extend(story.stats.as_ref().map(stats_ending));
    endings
}

/// How the trial [`STATS`] ended, which is made after all others.
pub(crate) fn stats_ending(compared: &Compared) -> Ending {
    let verdict = match compared.clone() {
        Compared::Kept => Verdict::Passed,
        Compared::Failed { line, more } => Verdict::Failed { class: Class::Stats, line, more },
    };
    Ending::without_record(STATS, verdict)
}

/// The trial that tells of an obstacle.
fn teller(obstacle: &Obstacle) -> &'static str {
    if obstacle.class == Class::Spec { SPEC } else { FIXTURE }
}

fn failed(class: Class, line: String) -> Verdict {
    Verdict::Failed { class, line, more: None }
}

/// The verdict on a checkpoint that was met at least once.
fn judged(checkpoint: &Checkpoint, records: &[&Record], story: &Story, crash: Option<&str>) -> Verdict {
    let verdict =
        &records.iter().find(|record| record.verdict.status != Status::Pass).unwrap_or(&records[0]).verdict;
    let wanted = checkpoint.hits as usize;
    let stopped = story.end().is_some_and(|end| end.stopped);
    if records.len() > wanted || (records.len() < wanted && !stopped) {
        let because = crash.map(|crash| format!(": {crash}")).unwrap_or_default();
        let class = if crash.is_some() && records.len() < wanted { Class::Crash } else { Class::Hits };
        return failed(class, format!("met {}, but {wanted} declared{because}", times(records.len())));
    }
    match verdict.status {
        Status::Pass => Verdict::Passed,
        Status::Ungated => Verdict::NotGated(verdict.class),
        Status::Fail => failed(verdict.class.unwrap_or(Class::Value), verdict.detail.clone()),
    }
}

pub(super) fn times(count: usize) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

fn unreached(name: &str, story: &Story) -> String {
    let undeclared: Vec<&str> = story
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Undeclared { name } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let near = did_you_mean(name, undeclared.iter().copied());
    let seen = match undeclared.len() {
        0 => "every tap that the port met is declared".to_owned(),
        1 => format!("the port met one tap that is not declared, `{}`", undeclared[0]),
        count => format!("the port met {count} taps that are not declared, `{}` first", undeclared[0]),
    };
    format!("the port finished without meeting this tap{near}; {seen}")
}

fn fixture(story: &Story) -> Verdict {
    if story.obstacles.first().is_some_and(|obstacle| teller(obstacle) == SPEC) {
        return failed(Class::Spec, "not looked at".to_owned());
    }
    let mut problems: Vec<(Class, String)> =
        story.obstacles.iter().map(|obstacle| (obstacle.class, obstacle.text.clone())).collect();
    if let Some(end) = story.end() {
        if !end.unused_inputs.is_empty() {
            let inputs = end.unused_inputs.join(", ");
            let text = format!("the spec declares inputs that the port never asked for: {inputs}");
            problems.push((Class::Unused, text));
        }
        problems.extend(end.random.as_ref().map(|drew| (Class::Random, drew.to_string())));
    }
    match &problems[..] {
        [] => Verdict::Passed,
        [(class, text)] => failed(*class, text.clone()),
        [(class, _), ..] => {
            let texts: Vec<&str> = problems.iter().map(|(_, text)| text.as_str()).collect();
            let line = format!("{} problems with the fixtures", texts.len());
            Verdict::Failed { class: *class, line, more: Some(texts.join("\n")) }
        }
    }
}

fn weights(story: &Story, crash: Option<String>) -> Verdict {
    let audit = match (&story.obstacles[..], story.audit()) {
        ([obstacle, ..], _) => return failed(obstacle.class, "not run".to_owned()),
        ([], None) => {
            return failed(Class::Crash, crash.unwrap_or_else(|| "no audit was made".to_owned()));
        }
        ([], Some(audit)) => audit,
    };
    if audit.is_clean() {
        return Verdict::Passed;
    }
    let mut line = format!("{} weights taken", audit.taken.len());
    let mut more = Vec::new();
    for (position, (what, counted, found)) in audit.faults().into_iter().enumerate() {
        // The three that any port can have are always counted, the others where there are any.
        if position < 3 || !found.is_empty() {
            line.push_str(&format!(", {} {counted}", found.len()));
        }
        more.extend(found.iter().map(|text| format!("{what:<8} {text}")));
    }
    Verdict::Failed { class: Class::Weights, line, more: Some(more.join("\n")) }
}

/// The last lines that the worker printed, which hold what a panic or MLX itself said.
fn tail(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().collect();
    let shown = &lines[lines.len().saturating_sub(20)..];
    (!shown.is_empty()).then(|| format!("the worker's last words:\n{}", shown.join("\n")))
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
