//! Which parts judged each trial.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::part::{RunPart, last_lines};
use crate::preflight::DISCOVERY;
use crate::results::run::SMOKE;
use crate::run_folder::{MergeFinding, TrialLine, TrialStatus};

/// The outcomes of each trial, with the position of the part that judged it.
pub(super) struct Judged<'a> {
    lines: HashMap<&'a str, Vec<(usize, &'a TrialLine)>>,
}

/// A spec that any part planned.
#[derive(Default)]
pub(super) struct Planned<'a> {
    /// The names of its trials, without the spec.
    pub(super) trials: Vec<&'a str>,
    /// The parts that could not run it, each with the reason.
    pub(super) unmet: Vec<(usize, &'a str)>,
    /// How many parts planned it.
    pub(super) plans: usize,
}

impl<'a> Judged<'a> {
    pub(super) fn of(parts: &'a [RunPart]) -> Self {
        let mut lines: HashMap<&str, Vec<(usize, &TrialLine)>> = HashMap::new();
        for (at, part) in parts.iter().enumerate() {
            for line in part.usable().flat_map(last_lines) {
                let known = lines.entry(&line.trial).or_default();
                match known.last_mut() {
                    // Two suites of one run judged it. A failure counts.
                    Some((part, first)) if *part == at => {
                        if line.status == TrialStatus::Failed {
                            *first = line;
                        }
                    }
                    _ => known.push((at, line)),
                }
            }
        }
        Self { lines }
    }

    /// Returns the outcomes of the trial `trial` of `spec`, one per part that judged it.
    pub(super) fn outcomes(&self, spec: &str, trial: &str) -> &[(usize, &'a TrialLine)] {
        self.lines.get(format!("{spec}::{trial}").as_str()).map_or(&[], Vec::as_slice)
    }

    /// Returns how many trials the part at this position judged.
    pub(super) fn count(&self, part: usize) -> usize {
        self.lines.values().filter(|outcomes| outcomes.iter().any(|&(at, _)| at == part)).count()
    }

    /// Returns the finding for the trials that belong to no spec. Several parts may judge them: each looks at its own machine.
    pub(super) fn whole_run(&self, parts: &[RunPart]) -> Option<MergeFinding> {
        // With a broken spec file there is no trial `parity::discovery`.
        let is_broken = parts.iter().flat_map(RunPart::plans).any(|plan| !plan.broken.is_empty());
        let names = [SMOKE, DISCOVERY];
        let missing: Vec<String> = names
            .into_iter()
            .filter(|name| !self.lines.contains_key(name))
            .filter(|name| !is_broken || *name != DISCOVERY)
            .map(str::to_owned)
            .collect();
        let hole =
            || MergeFinding::Hole { spec: None, of: names.len(), trials: missing.clone(), unmet: Vec::new() };
        (!missing.is_empty()).then(hole)
    }
}

/// Returns every spec that a part planned, sorted by id.
pub(super) fn planned(parts: &[RunPart]) -> BTreeMap<&str, Planned<'_>> {
    let mut found: BTreeMap<&str, Planned<'_>> = BTreeMap::new();
    let mut seen: BTreeSet<(usize, &str)> = BTreeSet::new();
    for (at, part) in parts.iter().enumerate() {
        for spec in part.usable().flat_map(|suite| &suite.plan.specs) {
            let planned = found.entry(&spec.id).or_default();
            let mut known: BTreeSet<&str> = planned.trials.iter().copied().collect();
            planned.trials.extend(spec.trials.iter().map(String::as_str).filter(|name| known.insert(name)));
            // Several suites of one run can plan the same spec.
            if seen.insert((at, &spec.id)) {
                planned.plans += 1;
                planned.unmet.extend(spec.unmet.as_deref().map(|reason| (at, reason)));
            }
        }
    }
    found
}
