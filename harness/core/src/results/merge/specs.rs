//! The specs of a merged run: whose folder stands for each, and where the parts disagree.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::MergedSpec;
use super::judged::{Judged, Planned, planned};
use super::part::RunPart;
use crate::gate::Class;
use crate::results::account::Account;
use crate::results::run_data::RunData;
use crate::results::stats::STATS;
use crate::results::trial::{MEMORY, TrialOutcome};
use crate::run_folder::{Disagreement, Folder, MergeFinding, MergedPart, PeakMemory, TrialLine, TrialStatus};

/// What the specs of all parts show.
pub(super) struct LookedAt {
    pub(super) merged: Vec<MergedSpec>,
    pub(super) parts: Vec<MergedPart>,
    pub(super) findings: Vec<MergeFinding>,
    /// The class of each failed trial, by its full name.
    pub(super) classes: HashMap<String, Class>,
}

/// How one spec ended in one part.
#[derive(Default)]
struct Seen {
    /// Whether its files could be read.
    readable: bool,
    /// Whether the port was stopped early.
    stopped: bool,
    red: bool,
    /// The outcome of each trial: how it ended, in words, and the class of a failure.
    ended: HashMap<String, (String, Option<Class>)>,
    /// The checkpoints in the order of the run.
    order: Vec<String>,
}

/// Looks at the specs of all parts, one after another.
pub(super) fn look(parts: &[RunPart], judged: &Judged<'_>) -> LookedAt {
    let described = |(at, part): (usize, &RunPart)| MergedPart {
        trials: judged.count(at),
        name: part.name.clone(),
        started: part.plans().map(|plan| plan.started.clone()).min().unwrap_or_default(),
        checkout: part.plans().find_map(|plan| plan.checkout.clone()),
        selected: part.selected(),
        ..MergedPart::default()
    };
    let mut looked = LookedAt {
        merged: Vec::new(),
        parts: parts.iter().enumerate().map(described).collect(),
        findings: judged.whole_run(parts).into_iter().collect(),
        classes: HashMap::new(),
    };
    for (id, planned) in planned(parts) {
        let seen: Vec<Option<Seen>> = parts
            .iter()
            .zip(&mut looked.parts)
            .map(|(part, described)| see(&Folder::at(part.folder.join(id)), id, described))
            .collect();
        looked.spec(parts, id, &planned, judged, &seen);
    }
    looked
}

impl LookedAt {
    fn spec(
        &mut self,
        parts: &[RunPart],
        id: &str,
        planned: &Planned<'_>,
        judged: &Judged<'_>,
        seen: &[Option<Seen>],
    ) {
        let name = |at: usize| parts[at].name.clone();
        let of = planned.trials.len();
        let mut counts = vec![0_usize; parts.len()];
        let mut unjudged = Vec::new();
        // Trials that the same parts judged, and those of them that ended differently.
        let mut twice: Vec<(Vec<usize>, Vec<String>, Vec<Disagreement>)> = Vec::new();
        for &trial in &planned.trials {
            let outcomes = judged.outcomes(id, trial);
            outcomes.iter().for_each(|&(at, _)| counts[at] += 1);
            let class = |at: usize| seen[at].as_ref()?.ended.get(trial)?.1;
            for &(at, _) in outcomes.iter().filter(|(_, line)| line.status == TrialStatus::Failed) {
                if let Some(class) = class(at) {
                    self.classes.entry(format!("{id}::{trial}")).or_insert(class);
                }
            }
            match outcomes {
                [] => unjudged.push(trial.to_owned()),
                [_] => {}
                several => {
                    let runs: Vec<usize> = several.iter().map(|&(at, _)| at).collect();
                    let ended = several.iter().map(|&(at, line)| (name(at), line_words(line, class(at))));
                    let differ = disagreement(trial, ended.collect());
                    match twice.iter_mut().find(|(known, ..)| *known == runs) {
                        Some((_, trials, differing)) => {
                            trials.push(trial.to_owned());
                            differing.extend(differ);
                        }
                        None => twice.push((runs, vec![trial.to_owned()], differ.into_iter().collect())),
                    }
                }
            }
        }
        for (part, _) in self.parts.iter_mut().zip(&counts).filter(|(_, count)| **count > 0) {
            part.specs += 1;
        }
        let is_ignored = unjudged.len() == of && planned.unmet.len() == planned.plans;
        if !unjudged.is_empty() && !is_ignored {
            let unmet = planned.unmet.iter().map(|&(at, reason)| (name(at), reason.to_owned())).collect();
            self.findings.push(MergeFinding::Hole { spec: Some(id.to_owned()), trials: unjudged, of, unmet });
        }
        let mut told: BTreeSet<String> = BTreeSet::new();
        for (runs, trials, differ) in twice {
            told.extend(differ.iter().map(|differ| differ.trial.clone()));
            let runs = runs.into_iter().map(name).collect();
            self.findings.push(MergeFinding::Duplicate { spec: id.to_owned(), runs, trials, of, differ });
        }
        let trials: Vec<Disagreement> =
            disagreements(parts, seen).into_iter().filter(|differ| !told.contains(&differ.trial)).collect();
        if !trials.is_empty() {
            self.findings.push(MergeFinding::Disagree { spec: id.to_owned(), trials });
        }
        self.merged.extend(chosen(id, &counts, seen, judged));
    }
}

/// Returns whose folder stands for the spec: that of a part that judged trials of it, if possible one that is readable, whose
/// port ran to its end, that is red, and that judged the most trials.
fn chosen(id: &str, counts: &[usize], seen: &[Option<Seen>], judged: &Judged<'_>) -> Option<MergedSpec> {
    let candidates = seen.iter().enumerate().filter_map(|(at, seen)| Some((at, seen.as_ref()?)));
    let (part, _) = candidates
        .filter(|(at, _)| counts[*at] > 0)
        .max_by_key(|(at, seen)| (seen.readable, !seen.stopped, seen.red, counts[*at], Reverse(*at)))?;
    let stats = judged.outcomes(id, STATS).iter().map(|&(at, _)| at).find(|at| seen[*at].is_some());
    Some(MergedSpec { id: id.to_owned(), part, stats: stats.filter(|at| *at != part) })
}

/// Reads one spec of one part, and adds its machine to the description of the part; `None` if the spec did not start there.
fn see(folder: &Folder, id: &str, part: &mut MergedPart) -> Option<Seen> {
    let read = RunData::read(folder).and_then(|data| match data {
        Some(data) => Ok(Some(data)),
        None => RunData::so_far(folder),
    });
    let data = match read {
        Ok(data) => data?,
        Err(_) => return Some(Seen::default()),
    };
    if let Some(environment) = data.environment() {
        let line = environment.to_string();
        if !part.environments.contains(&line) {
            part.environments.push(line);
        }
    }
    if let Some(used) = data.resources()
        && part.peak.as_ref().is_none_or(|known| known.bytes < used.peak_bytes)
    {
        part.peak =
            Some(PeakMemory { bytes: used.peak_bytes, spec: id.to_owned(), machine: used.machine_bytes });
    }
    let Ok(account) = Account::of(data) else { return Some(Seen::default()) };
    let mut seen = Seen {
        readable: true,
        stopped: account.data.is_stopped(),
        red: account.is_wrong(),
        ..Seen::default()
    };
    for trial in &account.trials {
        if let Some(ended) = outcome_words(&trial.outcome) {
            seen.order.push(trial.name.clone());
            seen.ended.insert(trial.name.clone(), ended);
        }
    }
    Some(seen)
}

/// Returns the trials that ended differently in the parts that ran the spec. Statistics and memory belong to one machine.
fn disagreements(parts: &[RunPart], seen: &[Option<Seen>]) -> Vec<Disagreement> {
    let ran: Vec<(usize, &Seen)> =
        seen.iter().enumerate().filter_map(|(at, seen)| Some((at, seen.as_ref()?))).collect();
    let mut names: Vec<&String> = Vec::new();
    let mut known: BTreeSet<&String> = BTreeSet::new();
    for name in ran.iter().flat_map(|(_, seen)| &seen.order) {
        if name != STATS && name != MEMORY && known.insert(name) {
            names.push(name);
        }
    }
    let of = |name: &String| {
        let ended = ran
            .iter()
            .filter_map(|(at, seen)| Some((parts[*at].name.clone(), seen.ended.get(name)?.0.clone())));
        disagreement(name, ended.collect())
    };
    names.into_iter().filter_map(of).collect()
}

fn disagreement(trial: &str, ended: Vec<(String, String)>) -> Option<Disagreement> {
    let (_, first) = ended.first()?;
    let differs = ended.iter().any(|(_, how)| how != first);
    differs.then(|| Disagreement { trial: trial.to_owned(), ended })
}

/// How a trial ended, by its recorded outcome; the class comes from the spec's folder.
fn line_words(line: &TrialLine, class: Option<Class>) -> String {
    match line.status {
        TrialStatus::Passed => "passed".to_owned(),
        TrialStatus::NotGated => "not gated".to_owned(),
        TrialStatus::Approved => "approved by eye".to_owned(),
        TrialStatus::New => "new".to_owned(),
        TrialStatus::Failed => failed(line.class.or(class)),
    }
}

/// How a trial ended, by the records; `None` if that is not known.
fn outcome_words(outcome: &TrialOutcome) -> Option<(String, Option<Class>)> {
    Some(match outcome {
        TrialOutcome::Passed => ("passed".to_owned(), None),
        TrialOutcome::NotGated(None) => ("not gated".to_owned(), None),
        TrialOutcome::NotGated(Some(class)) => (format!("not gated ({class})"), None),
        TrialOutcome::Approved(_) => ("approved by eye".to_owned(), None),
        TrialOutcome::New(_) => ("new".to_owned(), None),
        TrialOutcome::Failed { class, .. } => (failed(Some(*class)), Some(*class)),
        TrialOutcome::Pending(_) => return None,
    })
}

fn failed(class: Option<Class>) -> String {
    class.map_or_else(|| "failed".to_owned(), |class| format!("failed ({class})"))
}
