//! Judges a run folder against its spec: every declared checkpoint gets an outcome, and none is lost.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::localisation::Localisation;
use super::order::in_execution_order;
use super::run_data::{RunData, undeclared};
use super::spec_file::SpecFileError;
use super::stats::STATS;
use super::trial::{MEMORY, TrialOutcome, TrialResult, WEIGHTS};
use crate::files::size;
use crate::gate::Class;
use crate::record::{Record, Status};
use crate::run_folder::Compared;
use crate::run_folder::{FIXTURE, Folder, SPEC};
use crate::spec::{Checkpoint, MemoryGate, Spec};
use crate::text::suggest::did_you_mean;
use crate::text::times;

/// The results of one spec: its run folder, judged against the spec.
#[derive(Debug)]
pub struct Account {
    /// Checkpoints in the order in which the run reached them, then the other trials.
    pub trials: Vec<TrialResult>,
    /// The spec that ran, read from the run folder.
    pub spec: Arc<Spec>,
    /// The content of the run folder.
    pub data: RunData,
    /// The second run of a red spec, with every golden injected.
    pub local: Option<Box<Self>>,
    /// Whether each trial is printed by a process of its own, so that none can leave its text to another.
    pub is_apart: bool,
    /// The position of each trial in `trials`, by name.
    index: HashMap<String, usize>,
    /// The first faulty stage, computed on first use: every failing trial reports it.
    pub(super) found: OnceLock<Option<Localisation>>,
}

impl Account {
    /// Returns the trial with this name.
    pub fn trial(&self, name: &str) -> Option<&TrialResult> {
        self.index.get(name).map(|&at| &self.trials[at])
    }

    /// Sets the outcome of the trial [`STATS`], and replaces that of an earlier attempt.
    pub fn set_stats(&mut self, compared: &Compared) {
        self.trials.retain(|trial| trial.name != STATS);
        self.trials.push(stats_result(compared));
        self.data.stats = Some(compared.clone());
        self.index = index(&self.trials);
    }

    /// Returns the run whose stages received golden inputs: the second run, or this one if there was no second.
    pub fn on_golden_inputs(&self) -> &Self {
        self.local.as_deref().unwrap_or(self)
    }

    /// Marks the trials that the run was asked for; `takes` gets a trial's full name, `<spec>::<checkpoint>`.
    pub fn select(&mut self, takes: impl Fn(&str) -> bool) {
        for trial in &mut self.trials {
            trial.selected = takes(&format!("{}::{}", self.spec.id, trial.name));
        }
    }

    /// Returns the trials that the run was asked for, in the order of [`Account::trials`].
    pub fn selected(&self) -> impl Iterator<Item = &TrialResult> {
        self.trials.iter().filter(|trial| trial.selected)
    }

    /// Returns whether any selected trial failed or is pending.
    pub fn is_red(&self) -> bool {
        self.selected().any(TrialResult::is_red)
    }

    /// Returns whether any trial but [`STATS`] failed or is pending, selected or not: the port cannot be trusted.
    pub fn is_wrong(&self) -> bool {
        self.trials.iter().any(|trial| trial.name != STATS && trial.is_red())
    }

    /// Names the trial that reports how the port failed, in one line; `None` if the port finished.
    pub fn cut_short(&self) -> Option<String> {
        self.first_crash().map(|first| cut_short(&self.spec, &first.name))
    }

    /// The trial that reports how the port failed.
    fn first_crash(&self) -> Option<&TrialResult> {
        let is_crash =
            |trial: &&TrialResult| matches!(trial.outcome, TrialOutcome::Failed { class: Class::Crash, .. });
        self.trials.iter().find(is_crash)
    }

    /// Returns the line of a trial. Where it leads to the trial that reports how the port failed, and that trial is not
    /// printed beside this one, the line says itself how the port failed.
    pub(crate) fn whole_line(&self, line: &str) -> String {
        match (self.first_crash(), self.data.crash()) {
            (Some(first), Some(crash)) if self.is_apart || !first.selected => {
                line.replace(&cut_short(&self.spec, &first.name), &crash)
            }
            _ => line.to_owned(),
        }
    }

    /// Returns how many checkpoints of the spec's own level a lower `PARITY_LEVEL` left out.
    pub fn left_out(&self) -> usize {
        let level = self.data.level().unwrap_or(self.spec.level);
        let out = |checkpoint: &&Checkpoint| checkpoint.level > level && checkpoint.level <= self.spec.level;
        self.spec.checkpoints.iter().filter(out).count()
    }
}

impl Account {
    /// Judges a run folder against the spec inside it.
    ///
    /// # Errors
    /// When the run folder has no spec, or the digest of its spec differs from the recorded one.
    pub fn of(mut data: RunData) -> Result<Self, SpecFileError> {
        let spec = data.take_spec()?;
        Ok(account(&spec, data))
    }
}

/// Returns the outcome of every trial of `spec`, with checkpoints up to the level of the run.
///
/// Checkpoints are sorted by the order of the run. A checkpoint that the port did not reach is placed as follows:
///
/// - The reference reached it: after the last reached checkpoint that precedes it in the reference. The order of
///   declaration would be wrong here: a spec declares its loops one after another, so `blocks.1.norm` is often declared
///   before `blocks.0.out`.
/// - The order of the reference is unknown: after the checkpoint declared before it, with the rounds of loops one after the
///   other.
/// - The port crashed: at the end, in the same order.
///
/// A run that was stopped early, because no later checkpoint was selected, lists only the checkpoints that it reached.
pub fn account(spec: &Arc<Spec>, mut data: RunData) -> Account {
    let mut local = data.take_local().map(|data| Box::new(account(spec, data)));
    let trials = trials(spec, &data);
    // Golden inputs give another picture, which nobody has seen. A stage whose picture is approved is not faulty.
    for trial in local.iter_mut().flat_map(|local| &mut local.trials).filter(|trial| trial.is_failed()) {
        let own = trials.iter().find(|own| own.name == trial.name);
        if let Some(approved @ TrialOutcome::Approved(_)) = own.map(|own| &own.outcome) {
            trial.outcome = approved.clone();
        }
    }
    let index = index(&trials);
    Account { spec: Arc::clone(spec), trials, data, local, is_apart: false, index, found: OnceLock::new() }
}

fn index(trials: &[TrialResult]) -> HashMap<String, usize> {
    trials.iter().enumerate().map(|(at, trial)| (trial.name.clone(), at)).collect()
}

fn trials(spec: &Spec, data: &RunData) -> Vec<TrialResult> {
    let level = data.level().unwrap_or(spec.level);
    let mut met: HashMap<&str, Vec<&Arc<Record>>> = HashMap::new();
    for record in data.shared_records() {
        met.entry(&record.checkpoint).or_default().push(record);
    }
    let (crash, pending, changed) = (data.crash(), data.pending(), data.changed().first());
    let stopped = data.end().is_some_and(|end| end.stopped);
    let audit_failed = data.audit().is_some_and(|audit| !audit.is_clean());
    let mut blamed = None;
    let (mut latest, mut lost) = (Place::START, 0);
    let undeclared: Vec<&str> = data.lines.iter().filter_map(undeclared).collect();
    let mut placed: Vec<(Place, TrialResult)> = Vec::new();
    for checkpoint in in_execution_order(spec, level, data) {
        let records = met.get(checkpoint.name.as_str()).map_or(&[][..], Vec::as_slice);
        latest = records.first().map_or(latest, |record| Place::met(record.sequence));
        let missed = records.len() < checkpoint.hits as usize;
        let place = match (missed && data.crashed(), records) {
            (true, _) => Place::END,
            (false, []) => Place::of_unmet(data, &checkpoint.name).unwrap_or(latest),
            (false, _) => latest,
        };
        if records.is_empty() && stopped {
            continue;
        }
        let is_red = records.iter().any(|record| record.verdict.status == Status::Fail);
        let outcome = match (&data.obstacles[..], records, &crash) {
            ([obstacle, ..], ..) => {
                failed(obstacle.class, format!("not run; see `{}::{}`", spec.id, obstacle.trial()))
            }
            _ if changed.is_some() => untrusted(data),
            _ if pending.is_some() && missed && !is_red => {
                TrialOutcome::Pending(format!("not reached: {}", pending.as_deref().unwrap_or_default()))
            }
            ([], [], Some(crash)) => match blamed {
                Some(first) => failed(Class::Crash, format!("not reached: {}", cut_short(spec, first))),
                None => {
                    blamed = Some(&checkpoint.name);
                    TrialOutcome::Failed {
                        class: Class::Crash,
                        line: crash.clone(),
                        more: data.crash_notes(),
                    }
                }
            },
            ([], [], None) => {
                lost += 1;
                failed(Class::Unreached, unreached(&checkpoint.name, &undeclared, lost <= OFFERED))
            }
            ([], records, _) => judged(checkpoint, records, stopped || pending.is_some(), crash.as_deref()),
        };
        let deciding = first_with(records, Status::Fail)
            .or_else(|| first_with(records, Status::Approved))
            .or(records.first());
        // Only failures keep their actual, and checking for a file per checkpoint is slow in a large spec.
        let failing = deciding.filter(|record| record.verdict.status == Status::Fail);
        let drawn =
            deciding.filter(|record| matches!(record.verdict.status, Status::Fail | Status::Approved));
        let actual = failing.map(|record| data.folder.actual(&record.checkpoint, record.hit));
        let trial = TrialResult {
            name: checkpoint.name.clone(),
            outcome,
            record: deciding.map(|record| Arc::clone(record)),
            actual: actual.filter(|path| path.is_file()).map(|path| data.shown(&path)),
            pictures: drawn.and_then(|record| pictures(&data.folder, record)).map(|path| data.shown(&path)),
            warm_millis: data.warm_millis(&checkpoint.name),
            audit_failed,
            selected: true,
        };
        placed.push((place, trial));
    }
    placed.sort_by_key(|(place, _)| *place);
    let mut trials: Vec<TrialResult> = placed.into_iter().map(|(_, trial)| trial).collect();
    if let Some(obstacle) = data.obstacles.first().filter(|obstacle| obstacle.trial() == SPEC) {
        let verdict = failed(obstacle.class, obstacle.text.clone());
        trials.push(TrialResult::without_record(SPEC, verdict));
    }
    if stopped {
        return trials;
    }
    // If the port reached every checkpoint before it failed, the first trial below reports how.
    let mut first = blamed.map(ToOwned::to_owned);
    let mut whole = |name: &str, outcome: TrialOutcome| {
        let verdict = unless_cut_short(spec, name, outcome, data, &mut first);
        trials.push(TrialResult::without_record(name, verdict));
    };
    if spec.needs_fixtures() {
        whole(FIXTURE, fixture(data));
    }
    if spec.weights.is_some() {
        whole(WEIGHTS, weights(data));
    }
    if let Some(limit) = spec.memory {
        whole(MEMORY, memory(limit, data));
    }
    trials.extend(data.stats.as_ref().map(stats_result));
    trials
}

/// The sort key of a trial: the record before it, then the order of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// One more than the sequence of the record before the trial; 0 at the start.
    record: u64,
    /// For a checkpoint that was not reached, its position in the reference.
    unmet: Option<usize>,
}

impl Place {
    const START: Self = Self { record: 0, unmet: None };
    const END: Self = Self { record: u64::MAX, unmet: None };

    fn met(sequence: u64) -> Self {
        Self { record: after(sequence), unmet: None }
    }

    /// After the last reached checkpoint that precedes this one in the reference; `None` if that order is unknown.
    fn of_unmet(data: &RunData, checkpoint: &str) -> Option<Self> {
        let own = data.order(checkpoint)?;
        let before = data.records().filter(|record| {
            record.hit == 0 && data.order(&record.checkpoint).is_some_and(|place| place < own)
        });
        let record = before.map(|record| after(record.sequence)).max().unwrap_or(0);
        Some(Self { record, unmet: Some(own) })
    }
}

/// One more than `sequence`, which a damaged record may give as the largest number.
fn after(sequence: u64) -> u64 {
    sequence.saturating_add(1)
}

/// The path of the pictures of a hit, if they exist.
fn pictures(folder: &Folder, record: &Record) -> Option<PathBuf> {
    let path = |kind| folder.picture(&record.checkpoint, record.hit, kind);
    (record.image.is_some() && path("diff").is_file()).then(|| path("{golden,actual,diff}"))
}

/// The outcome of the trial [`MEMORY`]: MLX's peak against the spec's limit.
fn memory(limit: MemoryGate, data: &RunData) -> TrialOutcome {
    let Some(used) = data.resources() else {
        // A worker that was killed wrote none, and the crash is the reason to report.
        if data.crashed() {
            return TrialOutcome::Passed;
        }
        return failed(Class::Memory, "the run recorded no memory".to_owned());
    };
    let (peak, most) = (size::words(used.peak_bytes), size::words(limit.peak_bytes));
    if used.peak_bytes <= limit.peak_bytes {
        return TrialOutcome::Passed;
    }
    let stages =
        data.records().filter_map(|record| Some((record.memory?.stage_peak_bytes, &record.checkpoint)));
    let highest = stages.max_by_key(|(bytes, _)| *bytes);
    let stage = highest.map(|(bytes, name)| format!("; the stage of `{name}` needs {}", size::words(bytes)));
    failed(
        Class::Memory,
        format!("peak memory is {peak}, at most {most} are allowed{}", stage.unwrap_or_default()),
    )
}

/// The trial [`STATS`], which ends after all others.
fn stats_result(compared: &Compared) -> TrialResult {
    let verdict = match compared.clone() {
        Compared::Kept => TrialOutcome::Passed,
        Compared::New { line } => TrialOutcome::New(line),
        Compared::Changed { line, more } | Compared::Failed { line, more } => {
            TrialOutcome::Failed { class: Class::Stats, line, more }
        }
    };
    TrialResult::without_record(STATS, verdict)
}

/// The outcome of every trial in a run whose spec or fixtures changed during the run.
fn untrusted(data: &RunData) -> TrialOutcome {
    match data.changed() {
        [] => TrialOutcome::Passed,
        [changed] => failed(changed.class, changed.text.clone()),
        [changed, others @ ..] => {
            let more: Vec<&str> = others.iter().map(|other| other.text.as_str()).collect();
            TrialOutcome::Failed {
                class: changed.class,
                line: changed.text.clone(),
                more: Some(more.join("\n")),
            }
        }
    }
}

fn failed(class: Class, line: String) -> TrialOutcome {
    TrialOutcome::Failed { class, line, more: None }
}

/// The first record with this status.
fn first_with<'r>(records: &'r [&'r Arc<Record>], status: Status) -> Option<&'r &'r Arc<Record>> {
    records.iter().find(|record| record.verdict.status == status)
}

/// The outcome of a checkpoint that the port reached at least once.
fn judged(
    checkpoint: &Checkpoint,
    records: &[&Arc<Record>],
    stopped: bool,
    crash: Option<&str>,
) -> TrialOutcome {
    let record = first_with(records, Status::Fail)
        .or_else(|| records.iter().find(|record| record.verdict.status != Status::Pass))
        .unwrap_or(&records[0]);
    let verdict = &record.verdict;
    let wanted = checkpoint.hits as usize;
    if records.len() > wanted || (records.len() < wanted && !stopped) {
        let because = crash.map(|crash| format!(": {crash}")).unwrap_or_default();
        let class = if crash.is_some() && records.len() < wanted { Class::Crash } else { Class::Hits };
        return failed(
            class,
            format!("reached {}, but the spec declares {wanted}{because}", times(records.len())),
        );
    }
    match verdict.status {
        Status::Pass => TrialOutcome::Passed,
        Status::Ungated => TrialOutcome::NotGated(verdict.class),
        Status::Approved => match &record.by_eye {
            Some(by_eye) if by_eye.stale.is_none() => TrialOutcome::Approved(by_eye.clone()),
            // Only a damaged run folder has such a record.
            _ => failed(verdict.class.unwrap_or(Class::Value), verdict.detail.clone()),
        },
        Status::Fail => failed(verdict.class.unwrap_or(Class::Value), verdict.detail.clone()),
    }
}

/// How many unreached checkpoints get a suggestion; the search is slow when a renamed scope loses many.
const OFFERED: usize = 20;

fn unreached(name: &str, undeclared: &[&str], offers: bool) -> String {
    let near = if offers { did_you_mean(name, undeclared.iter().copied()) } else { String::new() };
    let seen = match undeclared.len() {
        0 => "the spec declares every tap that the port reached".to_owned(),
        1 => format!("the port reached one undeclared tap, `{}`", undeclared[0]),
        count => format!("the port reached {count} undeclared taps, `{}` first", undeclared[0]),
    };
    format!("the port finished without reaching this tap{near}; {seen}")
}

/// Turns a pass into a failure or pending if the port did not finish: the check was incomplete. `first` is the trial that
/// reports how the port failed; if there is none yet, this one does.
fn unless_cut_short(
    spec: &Spec,
    name: &str,
    outcome: TrialOutcome,
    data: &RunData,
    first: &mut Option<String>,
) -> TrialOutcome {
    if outcome != TrialOutcome::Passed {
        return outcome;
    }
    let partial = |why: String| format!("not fully checked: {why}");
    match (data.crash(), data.pending()) {
        (Some(crash), _) => match first {
            Some(first) => failed(Class::Crash, partial(cut_short(spec, first))),
            None => {
                *first = Some(name.to_owned());
                TrialOutcome::Failed { class: Class::Crash, line: partial(crash), more: data.crash_notes() }
            }
        },
        (None, Some(pending)) => TrialOutcome::Pending(partial(pending)),
        (None, None) => outcome,
    }
}

/// Names the trial that reports how the port failed.
fn cut_short(spec: &Spec, first: &str) -> String {
    format!("the port did not finish; see `{}::{first}`", spec.id)
}

fn fixture(data: &RunData) -> TrialOutcome {
    if data.obstacles.first().is_some_and(|obstacle| obstacle.trial() == SPEC) {
        return failed(Class::Spec, "not checked".to_owned());
    }
    let mut problems: Vec<(Class, String)> =
        data.obstacles.iter().map(|obstacle| (obstacle.class, obstacle.text.clone())).collect();
    problems.extend(data.changed().iter().map(|changed| (changed.class, changed.text.clone())));
    if let Some(end) = data.end() {
        if !end.unused_inputs.is_empty() {
            let inputs = end.unused_inputs.join(", ");
            let text = format!("the spec declares inputs that the port never asked for: {inputs}");
            problems.push((Class::Unused, text));
        }
        problems.extend(end.random.as_ref().map(|drew| (Class::Random, drew.to_string())));
    }
    match &problems[..] {
        [] => TrialOutcome::Passed,
        [(class, text)] => failed(*class, text.clone()),
        [(class, _), ..] => {
            let texts: Vec<&str> = problems.iter().map(|(_, text)| text.as_str()).collect();
            let line = format!("{} problems with the fixtures", texts.len());
            TrialOutcome::Failed { class: *class, line, more: Some(texts.join("\n")) }
        }
    }
}

fn weights(data: &RunData) -> TrialOutcome {
    if let [obstacle, ..] = &data.obstacles[..] {
        return failed(obstacle.class, "not run".to_owned());
    }
    if !data.changed().is_empty() {
        return untrusted(data);
    }
    // Without an audit the worker has crashed, and the crash is reported instead.
    let Some(audit) = data.audit().filter(|audit| !audit.is_clean()) else { return TrialOutcome::Passed };
    let mut line = format!("{} weights taken", audit.taken.len());
    let mut more = Vec::new();
    for (position, (what, counted, found)) in audit.faults().into_iter().enumerate() {
        // Counts of the first three kinds are always shown, of the others only above zero.
        if position < 3 || !found.is_empty() {
            line.push_str(&format!(", {} {counted}", found.len()));
        }
        more.extend(found.iter().map(|text| format!("{what:<8} {text}")));
    }
    TrialOutcome::Failed { class: Class::Weights, line, more: Some(more.join("\n")) }
}
