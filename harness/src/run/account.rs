//! What a run's folder says about every declared checkpoint: each ends as passed, failed or not gated, none is lost.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::folder::Folder;
use super::job::Inject;
use super::locate::{Finding, locate};
use super::obstacle::Obstacle;
use super::stats::{Compared, STATS, has_stats};
use super::story::{Story, undeclared};
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
    pub(crate) record: Option<Arc<Record>>,
    /// Where the actual was kept, if it was.
    pub(crate) actual: Option<PathBuf>,
    /// Where pictures of it were kept, if there are any; the three kinds stand in braces.
    pub(crate) pictures: Option<PathBuf>,
    /// How long the stage takes once everything is warm, if the run was to be timed.
    pub(crate) warm_millis: Option<f64>,
    /// Whether the audit of the weights failed, so that values mean little.
    pub(crate) audit_failed: bool,
}

impl Ending {
    fn without_record(name: &str, verdict: Verdict) -> Self {
        Self {
            name: name.to_owned(),
            verdict,
            record: None,
            actual: None,
            pictures: None,
            warm_millis: None,
            audit_failed: false,
        }
    }
}

/// What there is to tell of a spec that ran.
#[derive(Debug)]
pub(crate) struct Account {
    /// Checkpoints in the order in which the run met them, then the other trials.
    pub(crate) endings: Vec<Ending>,
    pub(crate) story: Story,
    /// What the run with every golden injected says, if this one was red and followed by one.
    pub(crate) local: Option<Box<Self>>,
    /// Where each trial is in `endings`.
    index: HashMap<String, usize>,
    /// What the runs come to, once somebody asked: every failing trial does.
    found: OnceLock<Option<Finding>>,
}

impl Account {
    /// How the trial of that name ended.
    pub(crate) fn ending(&self, name: &str) -> Option<&Ending> {
        self.index.get(name).map(|&at| &self.endings[at])
    }

    /// Puts what came of the statistics in the place of what an earlier attempt may have left.
    pub(crate) fn set_stats(&mut self, compared: &Compared) {
        self.endings.retain(|ending| ending.name != STATS);
        self.endings.push(stats_ending(compared));
        self.index = index(&self.endings);
    }

    /// The first faulty stage of the port, if this run can tell.
    pub(crate) fn finding(&self, spec: &Spec) -> Option<&Finding> {
        self.found.get_or_init(|| self.find(spec)).as_ref()
    }

    fn find(&self, spec: &Spec) -> Option<Finding> {
        if !self.story.changed().is_empty() {
            return None;
        }
        match &self.local {
            // What only the second run did not get over says nothing of the port.
            Some(local) => Some(locate(spec, local, Some(self))).filter(|found| match found {
                Finding::Culprit(culprit) => culprit.class != Class::Crash || self.story.crashed(),
                _ => true,
            }),
            None if self.story.inject() == Inject::All => Some(locate(spec, self, None)),
            // What is red before any value is has only right values before it.
            None => Some(locate(spec, self, None)).filter(|found| match found {
                Finding::Culprit(culprit) => culprit.class < Class::Shape,
                _ => false,
            }),
        }
    }

    /// The run whose stages worked on golden inputs: the second one, or this one.
    pub(crate) fn on_golden_inputs(&self) -> &Self {
        self.local.as_deref().unwrap_or(self)
    }

    /// Whether any trial failed, or is pending: what is not known is not green.
    pub(crate) fn is_red(&self) -> bool {
        let is_red = |ending: &Ending| matches!(ending.verdict, Verdict::Failed { .. } | Verdict::Pending(_));
        self.endings.iter().any(is_red)
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
    /// Not known: the run still goes on, or was interrupted before it came to this. It is neither green nor the port's
    /// fault; the text says which, and after which tap.
    Pending(String),
}

/// The names of all trials of `spec` at that level, those beside the checkpoints last.
pub(crate) fn trial_names(spec: &Spec, level: u8) -> Vec<String> {
    let checkpoints = spec.checkpoints.iter().filter(|checkpoint| checkpoint.level <= level);
    let mut names: Vec<String> = checkpoints.map(|checkpoint| checkpoint.name.clone()).collect();
    names.extend(spec.needs_fixtures().then(|| FIXTURE.to_owned()));
    names.extend(spec.weights.is_some().then(|| WEIGHTS.to_owned()));
    names.extend(has_stats().then(|| STATS.to_owned()));
    names
}

/// How every trial of `spec` ended, checkpoints up to the level of the run.
///
/// A checkpoint that was not met stands behind the last one met that the reference comes to before it: a spec declares its
/// loops one after another, so `blocks.1.norm` is often declared before `blocks.0.out`. Where that order is not known it
/// stands behind the one that is declared before it, and after a crash behind all that were met as often as declared. A run
/// that was stopped, because nobody asked for more, tells only of the checkpoints that it met.
pub(crate) fn account(spec: &Spec, mut story: Story) -> Account {
    let local = story.take_local().map(|story| Box::new(account(spec, story)));
    let endings = endings(spec, &story);
    let index = index(&endings);
    Account { endings, story, local, index, found: OnceLock::new() }
}

fn index(endings: &[Ending]) -> HashMap<String, usize> {
    endings.iter().enumerate().map(|(at, ending)| (ending.name.clone(), at)).collect()
}

fn endings(spec: &Spec, story: &Story) -> Vec<Ending> {
    let level = story.level().unwrap_or(spec.level);
    let mut met: HashMap<&str, Vec<&Arc<Record>>> = HashMap::new();
    for record in story.shared_records() {
        met.entry(&record.checkpoint).or_default().push(record);
    }
    let (crash, pending, changed) = (story.crash(), story.pending(), story.changed().first());
    let stopped = story.end().is_some_and(|end| end.stopped);
    let audit_failed = story.audit().is_some_and(|audit| !audit.is_clean());
    let mut blamed = None;
    let (mut latest, mut lost) = (Place::START, 0);
    let undeclared: Vec<&str> = story.lines.iter().filter_map(undeclared).collect();
    let mut placed: Vec<(Place, Ending)> = Vec::new();
    for checkpoint in spec.checkpoints.iter().filter(|checkpoint| checkpoint.level <= level) {
        let records = met.get(checkpoint.name.as_str()).map_or(&[][..], Vec::as_slice);
        latest = records.first().map_or(latest, |record| Place::met(record.sequence));
        let missed = records.len() < checkpoint.hits as usize;
        let place = match (missed && story.crashed(), records) {
            (true, _) => Place::END,
            (false, []) => Place::of_unmet(story, &checkpoint.name).unwrap_or(latest),
            (false, _) => latest,
        };
        if records.is_empty() && stopped {
            continue;
        }
        let is_red = records.iter().any(|record| record.verdict.status == Status::Fail);
        let verdict = match (&story.obstacles[..], records, &crash) {
            ([obstacle, ..], ..) => {
                failed(obstacle.class, format!("not run; `{}::{}` says why", spec.id, teller(obstacle)))
            }
            _ if changed.is_some() => untrusted(story),
            _ if pending.is_some() && missed && !is_red => {
                Verdict::Pending(format!("not reached: {}", pending.as_deref().unwrap_or_default()))
            }
            ([], [], Some(crash)) => match blamed {
                Some(first) => {
                    failed(Class::Crash, format!("not reached: {crash}; more at `{}::{first}`", spec.id))
                }
                None => {
                    blamed = Some(&checkpoint.name);
                    Verdict::Failed { class: Class::Crash, line: crash.clone(), more: story.last_words() }
                }
            },
            ([], [], None) => {
                lost += 1;
                failed(Class::Unreached, unreached(&checkpoint.name, &undeclared, lost <= OFFERED))
            }
            ([], records, _) => judged(checkpoint, records, stopped || pending.is_some(), crash.as_deref()),
        };
        let deciding =
            records.iter().find(|record| record.verdict.status == Status::Fail).or(records.first());
        // Only a failure's actual is kept, and looking for a file is slow where there are many.
        let failing = deciding.filter(|record| record.verdict.status == Status::Fail);
        let actual = failing.map(|record| story.folder.actual(&record.checkpoint, record.hit));
        let ending = Ending {
            name: checkpoint.name.clone(),
            verdict,
            record: deciding.map(|record| Arc::clone(record)),
            actual: actual.filter(|path| path.is_file()),
            pictures: failing.and_then(|record| pictures(&story.folder, record)),
            warm_millis: story.warm_millis(&checkpoint.name),
            audit_failed,
        };
        placed.push((place, ending));
    }
    placed.sort_by_key(|(place, _)| *place);
    let mut endings: Vec<Ending> = placed.into_iter().map(|(_, ending)| ending).collect();
    if let Some(obstacle) = story.obstacles.first().filter(|obstacle| teller(obstacle) == SPEC) {
        let verdict = failed(obstacle.class, obstacle.text.clone());
        endings.push(Ending::without_record(SPEC, verdict));
    }
    if stopped {
        return endings;
    }
    // Where every checkpoint was met before the port failed, the first of these tells of it.
    let mut more = story.last_words().filter(|_| blamed.is_none());
    if spec.needs_fixtures() {
        let verdict = unless_cut_short(fixture(story), story, &mut more);
        endings.push(Ending::without_record(FIXTURE, verdict));
    }
    if spec.weights.is_some() {
        let verdict = unless_cut_short(weights(story), story, &mut more);
        endings.push(Ending::without_record(WEIGHTS, verdict));
    }
    endings.extend(story.stats.as_ref().map(stats_ending));
    endings
}

/// Where an ending stands among the others: behind which record, and among those behind the same one in the order of the
/// reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// One more than the sequence of the record, 0 before all.
    record: u64,
    unmet: Option<usize>,
}

impl Place {
    const START: Self = Self { record: 0, unmet: None };
    const END: Self = Self { record: u64::MAX, unmet: None };

    fn met(sequence: u64) -> Self {
        Self { record: sequence + 1, unmet: None }
    }

    /// Behind the last checkpoint that was met and that the reference comes to before this one, if that is known.
    fn of_unmet(story: &Story, checkpoint: &str) -> Option<Self> {
        let own = story.order(checkpoint)?;
        let before = story.records().filter(|record| {
            record.hit == 0 && story.order(&record.checkpoint).is_some_and(|place| place < own)
        });
        let record = before.map(|record| record.sequence + 1).max().unwrap_or(0);
        Some(Self { record, unmet: Some(own) })
    }
}

/// Where the pictures of a hit were kept, if it has any.
fn pictures(folder: &Folder, record: &Record) -> Option<PathBuf> {
    let path = |kind| folder.picture(&record.checkpoint, record.hit, kind);
    (record.image.is_some() && path("diff").is_file()).then(|| path("{golden,actual,diff}"))
}

/// How the trial [`STATS`] ended, which is made after all others.
fn stats_ending(compared: &Compared) -> Ending {
    let verdict = match compared.clone() {
        Compared::Kept => Verdict::Passed,
        Compared::Failed { line, more } => Verdict::Failed { class: Class::Stats, line, more },
    };
    Ending::without_record(STATS, verdict)
}

/// The verdict on everything in a run whose spec or fixtures changed meanwhile.
fn untrusted(story: &Story) -> Verdict {
    match story.changed() {
        [] => Verdict::Passed,
        [changed] => failed(changed.class, changed.text.clone()),
        [changed, others @ ..] => {
            let more: Vec<&str> = others.iter().map(|other| other.text.as_str()).collect();
            Verdict::Failed { class: changed.class, line: changed.text.clone(), more: Some(more.join("\n")) }
        }
    }
}

/// The trial that tells of an obstacle.
pub(super) fn teller(obstacle: &Obstacle) -> &'static str {
    if obstacle.class == Class::Spec { SPEC } else { FIXTURE }
}

fn failed(class: Class, line: String) -> Verdict {
    Verdict::Failed { class, line, more: None }
}

/// The verdict on a checkpoint that was met at least once.
fn judged(checkpoint: &Checkpoint, records: &[&Arc<Record>], stopped: bool, crash: Option<&str>) -> Verdict {
    let verdict =
        &records.iter().find(|record| record.verdict.status != Status::Pass).unwrap_or(&records[0]).verdict;
    let wanted = checkpoint.hits as usize;
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

/// Names that are near are offered for so many checkpoints: looking for them takes a while where a scope was renamed.
const OFFERED: usize = 20;

fn unreached(name: &str, undeclared: &[&str], offers: bool) -> String {
    let near = if offers { did_you_mean(name, undeclared.iter().copied()) } else { String::new() };
    let seen = match undeclared.len() {
        0 => "every tap that the port met is declared".to_owned(),
        1 => format!("the port met one tap that is not declared, `{}`", undeclared[0]),
        count => format!("the port met {count} taps that are not declared, `{}` first", undeclared[0]),
    };
    format!("the port finished without meeting this tap{near}; {seen}")
}

/// What passed although the port did not come to its end was not looked at to its end.
fn unless_cut_short(verdict: Verdict, story: &Story, more: &mut Option<String>) -> Verdict {
    let said = |why: String| format!("not looked at to the end: {why}");
    match (verdict, story.crash().map(said), story.pending().map(said)) {
        (Verdict::Passed, Some(line), _) => Verdict::Failed { class: Class::Crash, line, more: more.take() },
        (Verdict::Passed, None, Some(line)) => Verdict::Pending(line),
        (verdict, ..) => verdict,
    }
}

fn fixture(story: &Story) -> Verdict {
    if story.obstacles.first().is_some_and(|obstacle| teller(obstacle) == SPEC) {
        return failed(Class::Spec, "not looked at".to_owned());
    }
    let mut problems: Vec<(Class, String)> =
        story.obstacles.iter().map(|obstacle| (obstacle.class, obstacle.text.clone())).collect();
    problems.extend(story.changed().iter().map(|changed| (changed.class, changed.text.clone())));
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

fn weights(story: &Story) -> Verdict {
    if let [obstacle, ..] = &story.obstacles[..] {
        return failed(obstacle.class, "not run".to_owned());
    }
    if !story.changed().is_empty() {
        return untrusted(story);
    }
    // A worker that did not live to make an audit has crashed, which is told instead.
    let Some(audit) = story.audit().filter(|audit| !audit.is_clean()) else { return Verdict::Passed };
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
