//! The suites of a merged run: one plan, and one outcome per judged trial.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::MergedSuite;
use super::part::{RunPart, last_lines};
use crate::gate::Class;
use crate::results::run::SuiteData;
use crate::run_folder::{FORMAT, Plan, PlannedSpec, Selection, SuiteEnd, TrialLine, TrialStatus};

/// Returns the suites of all parts, each once. `classes` has the class of each failed trial.
pub(super) fn merged(parts: &[RunPart], classes: &HashMap<String, Class>, shown: &Path) -> Vec<MergedSuite> {
    let mut by_name: BTreeMap<&str, Vec<(&RunPart, &SuiteData)>> = BTreeMap::new();
    for part in parts {
        for (name, suite) in &part.suites {
            by_name.entry(name).or_default().push((part, suite));
        }
    }
    by_name.into_iter().filter_map(|(name, suites)| suite(name, &suites, classes, shown)).collect()
}

fn suite(
    name: &str,
    suites: &[(&RunPart, &SuiteData)],
    classes: &HashMap<String, Class>,
    shown: &Path,
) -> Option<MergedSuite> {
    let usable: Vec<(&RunPart, &SuiteData)> =
        suites.iter().copied().filter(|(_, suite)| suite.plan.refused.is_none()).collect();
    // If every part refused to run, the reason is that of the first.
    let used = if usable.is_empty() { suites } else { &usable };
    let plan = &used.first()?.1.plan;
    let mut plan = Plan {
        format: FORMAT,
        started: used.iter().map(|(_, suite)| suite.plan.started.clone()).min().unwrap_or_default(),
        folder: shown.to_owned(),
        specs: specs(used),
        broken: Vec::new(),
        // Other processes ran other trials, and all of them count.
        selections: vec![Selection { shared: true, ..Selection::default() }],
        ..plan.clone()
    };
    if let Some(checkout) = &mut plan.checkout {
        let all = used.iter().filter_map(|(_, suite)| suite.plan.checkout.as_ref());
        checkout.dirty = all.into_iter().any(|checkout| checkout.dirty);
    }
    for broken in used.iter().flat_map(|(_, suite)| &suite.plan.broken) {
        if !plan.broken.contains(broken) {
            plan.broken.push(broken.clone());
        }
    }
    let trials = outcomes(used, classes);
    let end = end(used, &trials, &plan);
    let smoke = used.iter().map(|(part, _)| part.folder.join("suites").join(name).join("smoke"));
    let smoke = smoke.into_iter().find(|folder| folder.is_dir());
    Some(MergedSuite { name: name.to_owned(), data: SuiteData { plan, trials, end: Some(end) }, smoke })
}

/// Returns every planned spec once. A spec that any part could run is not ignored.
fn specs(suites: &[(&RunPart, &SuiteData)]) -> Vec<PlannedSpec> {
    let mut specs: BTreeMap<&str, PlannedSpec> = BTreeMap::new();
    for spec in suites.iter().flat_map(|(_, suite)| &suite.plan.specs) {
        let Some(known) = specs.get_mut(spec.id.as_str()) else {
            specs.insert(&spec.id, spec.clone());
            continue;
        };
        let more: Vec<String> =
            spec.trials.iter().filter(|name| !known.trials.contains(name)).cloned().collect();
        known.trials.extend(more);
        known.unmet = match (known.unmet.take(), &spec.unmet) {
            (Some(first), Some(reason)) if first.contains(reason.as_str()) => Some(first),
            (Some(first), Some(reason)) => Some(format!("{first}; elsewhere it {reason}")),
            _ => None,
        };
    }
    specs.into_values().collect()
}

/// Returns one outcome per judged trial, with its class. If several parts judged it, a failure counts.
fn outcomes(suites: &[(&RunPart, &SuiteData)], classes: &HashMap<String, Class>) -> Vec<TrialLine> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut lines: Vec<&TrialLine> = Vec::new();
    for line in suites.iter().flat_map(|(_, suite)| last_lines(suite)) {
        match places.get(line.trial.as_str()) {
            None => {
                places.insert(&line.trial, lines.len());
                lines.push(line);
            }
            Some(&at) if line.status == TrialStatus::Failed && lines[at].status != TrialStatus::Failed => {
                lines[at] = line;
            }
            Some(_) => {}
        }
    }
    let with_class = |line: &TrialLine| {
        let class = line.class.or_else(|| classes.get(&line.trial).copied());
        TrialLine {
            class: class.filter(|_| line.status == TrialStatus::Failed).or(line.class),
            ..line.clone()
        }
    };
    lines.into_iter().map(with_class).collect()
}

/// Returns the end of the merged suite. What is wrong with the ends of its parts is a finding.
fn end(suites: &[(&RunPart, &SuiteData)], trials: &[TrialLine], plan: &Plan) -> SuiteEnd {
    let ended = suites.iter().filter_map(|(_, suite)| Some(suite.end.as_ref()?.ended.clone())).max();
    let failed = trials.iter().filter(|line| line.status == TrialStatus::Failed).count();
    let ignored = plan.specs.iter().filter(|spec| spec.unmet.is_some()).map(|spec| spec.trials.len()).sum();
    let size = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    SuiteEnd {
        ended: ended.unwrap_or_else(|| plan.started.clone()),
        passed: size(trials.len() - failed),
        failed: size(failed),
        ignored: size(ignored),
        filtered: 0,
        problem: None,
    }
}
