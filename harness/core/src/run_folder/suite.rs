//! The plan and the end of one suite: `suites/<target>/` in the run folder.
//!
//! A run can have several suites, one per test target. Under nextest a suite is many processes, one per trial: the first
//! of them writes the plan, and each appends the result of its own trial.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folder::{FORMAT, Folder, FolderError};
use crate::gate::Class;
use crate::settings::Settings;
use crate::spec::Inject;

/// The folder of all suites in a run folder.
const SUITES: &str = "suites";
const PLAN: &str = "plan.json";
const END: &str = "end.json";
const TRIALS: &str = "outcomes.jsonl";

/// The plan of a suite, written before its first trial runs. A report reads it instead of the specs and the environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The format version, [`FORMAT`].
    pub format: u32,
    /// The version of mlx-parity that wrote the plan.
    pub mlx_parity: String,
    /// The test target of the suite.
    pub target: String,
    /// When the suite started, in UTC.
    pub started: String,
    /// The run folder as messages show it: relative to the project's root if it lies below.
    pub folder: PathBuf,
    /// The commit that was checked out, if the project is in a git repository.
    #[serde(default)]
    pub checkout: Option<Checkout>,
    /// The settings of the suite.
    pub settings: Settings,
    /// Which trials were selected: one entry per process that ran this suite with another selection.
    pub selections: Vec<Selection>,
    /// Every readable spec, sorted by id.
    pub specs: Vec<PlannedSpec>,
    /// Spec files that could not be used.
    pub broken: Vec<BrokenSpec>,
    /// Why the suite runs no trial: a wrong setting, or a root that belongs to another checkout.
    pub refused: Option<String>,
}

/// The state of a git checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// The commit, as a full hash.
    pub revision: String,
    /// Whether tracked files differed from the commit.
    pub dirty: bool,
}

/// Prints `revision 1a2b3c4d5e6f, with changes`.
impl fmt::Display for Checkout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: String = self.revision.chars().take(12).collect();
        write!(f, "revision {short}{}", if self.dirty { ", with changes" } else { "" })
    }
}

/// The selected trials of a suite, by the rules of libtest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Part of the name of each selected trial, or with `exact` the whole name.
    pub filter: Option<String>,
    /// Whether the filter is a whole name.
    pub exact: bool,
    /// Trials with any of these in their names are not selected.
    pub skip: Vec<String>,
    /// Whether other processes run the other trials, as under nextest. The filter is then that of one process, not of the
    /// run.
    pub shared: bool,
}

impl Plan {
    /// Returns whether the run was asked for this trial.
    pub fn takes(&self, trial: &str) -> bool {
        self.selections.iter().any(|selection| selection.takes(trial))
    }

    /// Returns whether each trial has a process of its own, as under nextest.
    pub fn is_shared(&self) -> bool {
        self.selections.iter().any(|selection| selection.shared)
    }
}

impl Selection {
    /// Returns whether the trial is selected.
    pub fn takes(&self, trial: &str) -> bool {
        if self.shared {
            return true;
        }
        let matches = |pattern: &String| if self.exact { trial == pattern } else { trial.contains(pattern) };
        self.filter.as_ref().is_none_or(matches) && !self.skip.iter().any(matches)
    }

    /// Returns whether every trial is selected, as far as this process knows.
    pub fn is_whole(&self) -> bool {
        self.shared || (self.filter.is_none() && self.skip.is_empty())
    }
}

/// A spec in the plan of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedSpec {
    /// The spec's id.
    pub id: String,
    /// The digest of the expanded spec.
    pub digest: String,
    /// The names of its trials at the run's level.
    pub trials: Vec<String>,
    /// Which goldens are injected.
    pub inject: Inject,
    /// The requirement that this machine does not meet, if any.
    pub unmet: Option<String>,
}

/// A file that cannot be used as a spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenSpec {
    /// The id that the spec would have.
    pub id: String,
    /// All problems of the file, with line numbers.
    pub text: String,
}

/// How one trial ended, as the suite reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialLine {
    /// The trial's full name, `<spec>::<checkpoint>`.
    pub trial: String,
    /// The status.
    pub status: TrialStatus,
    /// The class of its failure, if one is known.
    pub class: Option<Class>,
    /// Why it failed. For a trial of a spec, the folder of the spec has this text instead.
    pub text: Option<String>,
}

impl TrialLine {
    /// Appends lines in a single write: other processes of the suite append to the same file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(lines: &[Self], file: &mut File) -> io::Result<()> {
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        file.write_all(&text)
    }
}

/// The status of a trial, as reported to libtest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialStatus {
    /// It passed.
    Passed,
    /// It was measured, and the spec declares it as not gated.
    NotGated,
    /// Its values are off, and a person approved its picture by eye.
    Approved,
    /// It passed, and its snapshot waits to be accepted.
    New,
    /// It failed.
    Failed,
}

/// How a suite ended. A killed suite has no such file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteEnd {
    /// When the suite ended, in UTC.
    pub ended: String,
    /// How many trials passed, with those that are not gated, those approved by eye and those with a new snapshot.
    pub passed: u64,
    /// How many trials failed.
    pub failed: u64,
    /// How many trials were ignored.
    pub ignored: u64,
    /// How many trials were not selected.
    pub filtered: u64,
    /// Set when the counts of the suite and of libtest differ, which is a bug in mlx-parity.
    pub problem: Option<String>,
}

/// The files of one suite in a run folder.
#[derive(Debug, Clone)]
pub struct SuiteFolder(Folder);

impl SuiteFolder {
    /// Creates the folder of the trial `parity::smoke`.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn smoke(&self) -> Result<Folder, FolderError> {
        Folder::create(self.0.file("smoke"))
    }

    /// Creates the folder of the suite `target` in the run folder `run`, if it does not exist.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn create(run: &Path, target: &str) -> Result<Self, FolderError> {
        Folder::create(run.join(SUITES).join(target)).map(Self)
    }

    /// Returns the folders of all suites of a run, sorted by name.
    pub fn all(run: &Path) -> Vec<Self> {
        let entries = fs::read_dir(run.join(SUITES)).into_iter().flatten().filter_map(Result::ok);
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        paths.sort();
        paths.into_iter().map(|path| Self(Folder::at(path))).collect()
    }

    /// Returns the name of the suite: that of its folder.
    pub fn name(&self) -> String {
        self.0.file("").file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Writes the plan. If another process of this suite has written it, adds this process's selection to that plan, and the
    /// suite counts as running again.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn plan(&self, plan: impl FnOnce() -> Plan, selection: &Selection) -> Result<(), FolderError> {
        let _held = self.0.lock()?;
        let Some(mut known) = self.read_plan()? else { return self.0.write_json(PLAN, &plan()) };
        let _ = fs::remove_file(self.0.file(END));
        if selection.shared || known.selections.contains(selection) {
            return Ok(());
        }
        known.selections.push(selection.clone());
        self.0.write_json(PLAN, &known)
    }

    /// Changes the folder that messages show, after the run folder was renamed.
    ///
    /// # Errors
    /// When the plan is damaged or cannot be written.
    pub fn move_to(&self, folder: PathBuf) -> Result<(), FolderError> {
        let _held = self.0.lock()?;
        match self.read_plan()? {
            Some(plan) => self.0.write_json(PLAN, &Plan { folder, ..plan }),
            None => Ok(()),
        }
    }

    /// Opens the file of outcomes for [`TrialLine::append`].
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn outcomes(&self) -> Result<File, FolderError> {
        let path = self.0.file(TRIALS);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map_err(|source| FolderError::Write { path, source })
    }

    /// Writes how the suite ended.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn end(&self, end: &SuiteEnd) -> Result<(), FolderError> {
        self.0.write_json(END, end)
    }

    /// Reads the plan; `None` when the suite was killed before it wrote one.
    ///
    /// # Errors
    /// When the file is damaged or has another format version.
    pub fn read_plan(&self) -> Result<Option<Plan>, FolderError> {
        let plan: Option<Plan> = self.0.read_json(PLAN)?;
        match plan {
            Some(plan) if plan.format != FORMAT => {
                Err(FolderError::Format { path: self.0.file(PLAN), found: plan.format })
            }
            plan => Ok(plan),
        }
    }

    /// Reads how the suite ended; `None` when it has not ended.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn read_end(&self) -> Result<Option<SuiteEnd>, FolderError> {
        self.0.read_json(END)
    }

    /// Reads the results of its trials, in the order in which they ended. An incomplete last line is skipped.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn read_trials(&self) -> Result<Vec<TrialLine>, FolderError> {
        self.0.read_json_lines(TRIALS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_takes_what_libtest_takes() {
        let selection = |filter: Option<&str>, exact, skip: &[&str]| Selection {
            filter: filter.map(str::to_owned),
            exact,
            skip: skip.iter().map(|&skip| skip.to_owned()).collect(),
            shared: false,
        };
        assert!(selection(None, false, &[]).takes("a/b::c"));
        assert!(selection(Some("b::"), false, &[]).takes("a/b::c"));
        assert!(!selection(Some("b::"), true, &[]).takes("a/b::c"));
        assert!(!selection(None, false, &["::c"]).takes("a/b::c"));
        assert!(selection(None, false, &[]).is_whole() && !selection(None, false, &["x"]).is_whole());
        let shared = Selection { shared: true, ..selection(Some("a/b::c"), true, &[]) };
        assert!(shared.takes("other") && shared.is_whole());
    }

    #[test]
    fn processes_of_one_suite_share_its_plan_and_append() {
        let home = tempfile::tempdir().unwrap();
        let suite = SuiteFolder::create(home.path(), "parity").unwrap();
        assert_eq!((suite.read_plan().unwrap(), suite.read_end().unwrap()), (None, None));
        let plan = |target: &str| Plan {
            format: FORMAT,
            mlx_parity: "1".into(),
            target: target.into(),
            started: "now".into(),
            folder: "target/parity/runs/a".into(),
            checkout: None,
            settings: Settings::default(),
            selections: vec![Selection::default()],
            specs: Vec::new(),
            broken: Vec::new(),
            refused: None,
        };
        let other = Selection { filter: Some("a/b::".into()), ..Selection::default() };
        suite.plan(|| plan("first"), &Selection::default()).unwrap();
        suite.plan(|| plan("second"), &Selection::default()).unwrap();
        suite.plan(|| plan("third"), &other).unwrap();
        let read = suite.read_plan().unwrap().unwrap();
        assert_eq!((read.target.as_str(), read.selections), ("first", vec![Selection::default(), other]));
        let line = |trial: &str| TrialLine {
            trial: trial.into(),
            status: TrialStatus::Passed,
            class: None,
            text: None,
        };
        TrialLine::append(&[line("a")], &mut suite.outcomes().unwrap()).unwrap();
        let mut file = suite.outcomes().unwrap();
        TrialLine::append(&[line("b")], &mut file).unwrap();
        file.write_all(b"{\"trial\":\"cut").unwrap();
        assert_eq!(suite.read_trials().unwrap(), [line("a"), line("b")]);
        assert_eq!(SuiteFolder::all(home.path()).len(), 1);
    }

    #[test]
    fn a_plan_of_another_version_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let suite = SuiteFolder::create(home.path(), "parity").unwrap();
        let text = r#"{"format":99,"mlx_parity":"9","target":"t","started":"","folder":"f","settings":{"require":"all",
            "level":null,"inject":"declared","times":0,"fixtures":null,"out":null,"run":null,"python":null,
            "sizes":{"warn":1,"stop":2}},"selections":[{"filter":null,"exact":false,"skip":[],"shared":false}],
            "specs":[],"broken":[],"refused":null}"#;
        fs::write(suite.0.file(PLAN), text).unwrap();
        assert!(suite.read_plan().unwrap_err().to_string().contains("format 99, expected 1"));
    }
}
