//! One of the runs that are merged.

use std::path::{Component, Path, PathBuf};

use thiserror::Error;

use crate::results::run::SuiteData;
use crate::run_folder::{FolderError, MERGED, MergeFinding, Plan, SuiteFolder, TrialLine};

/// A run that can be merged.
#[derive(Debug)]
pub struct RunPart {
    /// The name of the run, as findings show it.
    pub name: String,
    /// The run folder.
    pub folder: PathBuf,
    /// Whether a process still works in the folder.
    pub running: bool,
    /// The suites that wrote a plan, with the names of their folders.
    pub(super) suites: Vec<(String, SuiteData)>,
}

/// Why a run cannot be merged.
#[derive(Debug, Error)]
pub enum PartError {
    /// The run is itself merged.
    #[error("it is a merged run")]
    Merged,
    /// No suite wrote a plan.
    #[error(
        "it has no folder `suites` with a plan: it was killed before its first test, or is not a run folder"
    )]
    NoSuites,
    /// The run names a file outside its folder.
    #[error("its plan has the spec `{id}`, whose folder would not be inside the run folder")]
    Outside {
        /// The id of the spec.
        id: String,
    },
    /// A file is damaged or has another format.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl RunPart {
    /// Reads the suites of a run.
    ///
    /// # Errors
    /// When the folder holds no run, a merged run, or damaged files.
    pub fn read(name: &str, folder: PathBuf, running: bool) -> Result<Self, PartError> {
        if folder.join(MERGED).symlink_metadata().is_ok() {
            return Err(PartError::Merged);
        }
        // The suites come in the same order: both are sorted by name.
        let mut names = Vec::new();
        for suite in SuiteFolder::all(&folder) {
            names.extend(suite.read_plan()?.map(|_| suite.name()));
        }
        let suites: Vec<(String, SuiteData)> = names.into_iter().zip(SuiteData::read_all(&folder)?).collect();
        if suites.is_empty() {
            return Err(PartError::NoSuites);
        }
        let part = Self { name: name.to_owned(), folder, running, suites };
        // A run can come from anywhere, and its specs become folders of the merged run.
        let outside = part.plans().flat_map(|plan| &plan.specs).find(|spec| !is_inside(&spec.id));
        if let Some(spec) = outside {
            return Err(PartError::Outside { id: spec.id.clone() });
        }
        Ok(part)
    }

    /// Returns whether this is the same run as another, also if one of them was zipped or renamed.
    pub fn is_same(&self, other: &Self) -> bool {
        let same_place =
            |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
        let same_suite = |((name, one), (other_name, two)): (&(String, SuiteData), &(String, SuiteData))| {
            // The start has milliseconds. Two jobs that start at once judge different trials.
            let plan = Plan { folder: one.plan.folder.clone(), ..two.plan.clone() };
            name == other_name && one.plan == plan && one.trials == two.trials
        };
        let has_outcomes = self.suites.iter().any(|(_, suite)| !suite.trials.is_empty());
        same_place(&self.folder, &other.folder)
            || (has_outcomes
                && self.suites.len() == other.suites.len()
                && self.suites.iter().zip(&other.suites).all(same_suite))
    }

    /// Returns what is wrong with this run alone.
    pub(super) fn own_findings(&self) -> Vec<MergeFinding> {
        let run = || self.name.clone();
        let mut findings = Vec::new();
        if self.running {
            findings.push(MergeFinding::Running { run: run() });
        }
        for (_, SuiteData { plan, end, .. }) in &self.suites {
            match (&plan.refused, end) {
                (Some(why), _) => findings.push(MergeFinding::Suite { run: run(), why: why.clone() }),
                // Under nextest, no process knows whether it is the last.
                (None, None) if !plan.is_shared() && !self.running => {
                    findings.push(MergeFinding::Unended { run: run(), target: plan.target.clone() });
                }
                (None, None) => {}
                (None, Some(end)) => {
                    let why = end.problem.clone();
                    findings.extend(why.map(|why| MergeFinding::Suite { run: run(), why }));
                }
            }
        }
        let mut usable = self.usable().peekable();
        if usable.peek().is_some() && usable.all(|suite| suite.trials.is_empty()) {
            findings.push(MergeFinding::Empty { run: run(), selected: self.selected() });
        }
        findings
    }

    /// The plans of the suites.
    pub(super) fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.suites.iter().map(|(_, suite)| &suite.plan)
    }

    /// The suites whose trials mean anything: a refused suite ran none.
    pub(super) fn usable(&self) -> impl Iterator<Item = &SuiteData> {
        self.suites.iter().map(|(_, suite)| suite).filter(|suite| suite.plan.refused.is_none())
    }

    /// The selected trials in a few words.
    pub(super) fn selected(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        for selection in self.plans().flat_map(|plan| &plan.selections) {
            let mut text = match (&selection.filter, selection.shared) {
                (_, true) => "nextest".to_owned(),
                (None, false) => "every trial".to_owned(),
                (Some(filter), false) if selection.exact => format!("only `{filter}`"),
                (Some(filter), false) => format!("filter `{filter}`"),
            };
            if !selection.skip.is_empty() && !selection.shared {
                text += &format!(" without `{}`", selection.skip.join("`, `"));
            }
            if !words.contains(&text) {
                words.push(text);
            }
        }
        words.join(", ")
    }
}

/// Returns the last outcome of each trial of a suite: a retry of nextest replaces the outcome of the attempt before.
pub(super) fn last_lines(suite: &SuiteData) -> Vec<&TrialLine> {
    let mut places = std::collections::HashMap::new();
    let mut lines: Vec<&TrialLine> = Vec::new();
    for line in &suite.trials {
        match places.get(line.trial.as_str()) {
            Some(&at) => lines[at] = line,
            None => {
                places.insert(line.trial.as_str(), lines.len());
                lines.push(line);
            }
        }
    }
    lines
}

/// Whether the folder of this spec is inside the run folder, and not one of the folders of suites.
fn is_inside(id: &str) -> bool {
    let mut parts = Path::new(id).components();
    !id.contains(['\\', '\0'])
        && parts.clone().next() != Some(Component::Normal("suites".as_ref()))
        && parts.clone().next().is_some()
        && parts
            .all(|part| matches!(part, Component::Normal(name) if !name.to_string_lossy().starts_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_has_a_folder_inside_the_run() {
        assert!(is_inside("a/b") && is_inside("a") && is_inside("a/b+on-cpu"));
        for id in ["", "/a", "../a", "a/../../b", "./a", "suites/a", ".aside", "a\\b"] {
            assert!(!is_inside(id), "{id}");
        }
    }
}
