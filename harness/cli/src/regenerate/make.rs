//! Runs a reference script in a workplace, and checks the set that it made.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use walkdir::WalkDir;

use super::error::RegenerateError;
use super::exporter_report::ExporterReport;
use super::external_files::{ExternalFiles, LIST, with_weights};
use super::plan::PlannedSet;
use super::same_bytes::same_bytes;
use super::script_call::{ScriptCall, duration};
use super::workplace::{Workplace, committed};
use crate::Project;
use crate::references::Runner;
use crate::script;
use crate::steps::Steps;
use mlx_parity_core::compare::compare;
use mlx_parity_core::files::regular;
use mlx_parity_core::gate::Rule;
use mlx_parity_core::golden::{ChecksumMemory, FixtureSet, SecondReference};
use mlx_parity_core::preflight::reference_block;
use mlx_parity_core::text::error_chain;

/// A set that a script made aside.
pub(super) struct MadeSet {
    pub(super) set: FixtureSet,
    pub(super) folder: PathBuf,
    pub(super) report: ExporterReport,
    /// How far the second reference agrees, if the spec names one and it was run.
    pub(super) second: Option<SecondReference>,
}

/// One call of a script that makes a set.
pub(super) struct Task<'t> {
    /// The script, from the project's root.
    pub(super) script: &'t str,
    /// What identifies the reference, as the script is told.
    pub(super) block: Value,
    /// The folder of the workplace that receives the set.
    pub(super) turn: &'t str,
    /// What the exporter's lint expects.
    pub(super) expected: Value,
    /// The set whose inputs and weights are reused.
    pub(super) reuse: Option<PathBuf>,
    /// Whether to measure the spread over kernel choices too.
    pub(super) spread: bool,
}

/// What the scripts of one command have in common.
pub(super) struct Maker<'a> {
    pub(super) project: &'a Project,
    pub(super) workplace: &'a Workplace,
    pub(super) steps: &'a Steps,
    pub(super) new_inputs: bool,
    /// Whether to measure the spread over kernel choices too.
    pub(super) spread: bool,
}

impl Maker<'_> {
    /// Runs the script twice, each time in a process of its own; both sets must have the same bytes.
    pub(super) fn twice(&self, set: &PlannedSet, runner: &Runner) -> Result<MadeSet, RegenerateError> {
        let first = self.once(set, runner, "first")?;
        let second = self.once(set, runner, "second")?;
        match difference(&first, &second) {
            None => {
                // Only one of them is needed from here on.
                let _ = fs::remove_dir_all(&second.folder);
                Ok(first)
            }
            Some(difference) => {
                Err(RegenerateError::NotRepeatable { script: set.reference.script.clone(), difference })
            }
        }
    }

    /// Runs the script once, and checks that the set is intact and belongs to its spec.
    pub(super) fn once(
        &self,
        set: &PlannedSet,
        runner: &Runner,
        turn: &str,
    ) -> Result<MadeSet, RegenerateError> {
        let label = format!("run {}, {turn} time, {} at most", set.folder, duration(set.reference.timeout));
        let block = reference_block(set.reference, self.project.root()).map_err(RegenerateError::Second)?;
        let committed_set = self.project.fixture_root().join(set.folder);
        let reuses = !self.new_inputs && committed(&self.project.fixture_root(), set.folder).is_some();
        let task = Task {
            script: &set.reference.script,
            block,
            turn,
            expected: set.expected(),
            reuse: reuses.then_some(committed_set),
            spread: self.spread,
        };
        self.steps.step(&label, || self.run(set, runner, &task))
    }

    /// Runs a script, and checks that the set that it made is intact and belongs to its spec.
    pub(super) fn run(
        &self,
        set: &PlannedSet,
        runner: &Runner,
        task: &Task,
    ) -> Result<MadeSet, RegenerateError> {
        let name = task.script;
        let script = self.project.root().join(name);
        // If the script were a pipe, Python would wait for it forever.
        regular::open(&script).map_err(|source| RegenerateError::read(&script, source))?;
        let root = self.workplace.path(task.turn);
        let folder = root.join(set.folder);
        let parent = folder.parent().unwrap_or(&root);
        fs::create_dir_all(parent).map_err(|source| RegenerateError::write(parent, source))?;
        let expected = self.workplace.path("expected.json");
        fs::write(&expected, task.expected.to_string())
            .map_err(|source| RegenerateError::write(&expected, source))?;
        let report = self.workplace.path("report.json");
        let _ = fs::remove_file(&report);

        let external = match set.external()? {
            Some(external) => {
                Some(ExternalFiles::of(self.project, set.folder, external, self.workplace.path(LIST))?)
            }
            None => None,
        };
        let in_use = self.workplace.path(script::IN_USE);
        let call = ScriptCall {
            project: self.project,
            runner,
            script: name,
            reference: &task.block,
            env: &set.reference.env,
        };
        let mut command =
            call.command(&in_use, None).map_err(|source| RegenerateError::write(&in_use, source))?;
        command
            .arg(&folder)
            .env("PARITY_EXPECT", &expected)
            .env("PARITY_REPORT", &report)
            .env("PARITY_ROOT", &root);
        if let Some(external) = &external {
            external.tell(&mut command);
        }
        if task.spread {
            command.env("PARITY_SPREAD", "1");
        }
        match &task.reuse {
            Some(reuse) => drop(command.env("PARITY_REUSE", reuse)),
            None if self.new_inputs => drop(command.env("PARITY_NEW_INPUTS", "1")),
            None => {}
        }
        let ended =
            script::run(&mut command, set.reference.timeout).map_err(|error| call.not_started(&error))?;
        let report = ExporterReport::read(&report);
        match ended.code {
            Some(0) => {}
            None => {
                let after = duration(set.reference.timeout);
                return Err(RegenerateError::TimedOut { script: name.to_owned(), after });
            }
            Some(3) if report.has_unaccepted() => {
                return Err(RegenerateError::Unaccepted {
                    script: name.to_owned(),
                    findings: report.unaccepted(),
                });
            }
            Some(code) => return Err(call.failed(&ended, code)),
        }
        let unusable = |problem: String| RegenerateError::Unusable { script: name.to_owned(), problem };
        if report.has_unaccepted() {
            // A script can write its set in spite of findings; the lint decides.
            return Err(RegenerateError::Unaccepted {
                script: name.to_owned(),
                findings: report.unaccepted(),
            });
        }
        let made = FixtureSet::open(&root, set.folder).map_err(|error| unusable(error_chain(&error)))?;
        // The script may have changed its environment, or imported from elsewhere; the lock decides.
        runner.check_lock()?;
        let used = made.manifest().provenance.get("packages").and_then(|packages| packages.as_object());
        let used = used.into_iter().flatten();
        runner.check_used(used.filter_map(|(name, version)| Some((name.as_str(), version.as_str()?))))?;
        let bytes = regular::read(&script, regular::TEXT).unwrap_or_default();
        made.check_fresh(&task.block, &bytes).map_err(|error| unusable(error_chain(&error)))?;
        // With the external weights, the names in recipes are checked, too.
        let whole = FixtureSet::open(&root, set.folder);
        let whole = whole.and_then(|whole| match set.external() {
            Ok(Some(external)) => with_weights(whole, external),
            _ => Ok(whole),
        });
        let whole = whole.map_err(|error| unusable(error_chain(&error)))?;
        if let Some(error) = whole.verify(&mut ChecksumMemory::default()).first() {
            return Err(unusable(error_chain(error)));
        }
        if let Some(problem) = external.and_then(|external| external.problem(&made)) {
            return Err(unusable(problem));
        }
        Ok(MadeSet { set: made, folder, report, second: None })
    }
}

/// The first difference between two sets that should be the same; none if all bytes are equal.
fn difference(first: &MadeSet, second: &MadeSet) -> Option<String> {
    let files = |made: &MadeSet| -> BTreeSet<PathBuf> {
        let walk = WalkDir::new(&made.folder).into_iter().filter_map(Result::ok);
        let files = walk.filter(|entry| !entry.file_type().is_dir());
        files.filter_map(|entry| entry.path().strip_prefix(&made.folder).map(Path::to_owned).ok()).collect()
    };
    let (ours, theirs) = (files(first), files(second));
    let same = |file: &PathBuf| same_bytes(&first.folder.join(file), &second.folder.join(file));
    let other: Vec<&PathBuf> = ours
        .symmetric_difference(&theirs)
        .chain(ours.intersection(&theirs).filter(|file| !same(file)))
        .collect();
    let file = other.first()?;
    Some(
        tensor_difference(&first.set, &second.set)
            .unwrap_or_else(|| format!("no tensor differs, but the file `{}` does", file.display())),
    )
}

/// The first tensor in which two runs differ, and by how much.
fn tensor_difference(first: &FixtureSet, second: &FixtureSet) -> Option<String> {
    let others = &second.manifest().tensors;
    for entry in &first.manifest().tensors {
        let what = format!("{} `{}`", entry.role.name(), entry.name);
        let Some(other) = others.iter().find(|other| (other.role, &other.name) == (entry.role, &entry.name))
        else {
            return Some(format!("only one run has the {what}"));
        };
        if (entry.dtype, &entry.shape) != (other.dtype, &other.shape) {
            return Some(format!(
                "{what} is {} {:?} in the first run, {} {:?} in the second",
                entry.dtype, entry.shape, other.dtype, other.shape
            ));
        }
        if entry.sha256 != other.sha256 {
            let far = match (first.read(entry), second.read(other)) {
                (Ok(one), Ok(two)) => compare(&one.view(), &two.view(), &Rule::default()).metrics,
                _ => None,
            };
            let far = far.and_then(|metrics| metrics.difference).map(|difference| {
                format!(
                    " by up to {:.3e}, in {:.1} % of its elements",
                    difference.max_abs,
                    100.0 * (1.0 - difference.exact_fraction)
                )
            });
            return Some(format!("{what} differs{}", far.unwrap_or_default()));
        }
        if entry != other {
            return Some(format!("{what} has the same elements, but a different floor, file or place"));
        }
    }
    let extra = others.iter().find(|other| {
        !first.manifest().tensors.iter().any(|entry| (entry.role, &entry.name) == (other.role, &other.name))
    })?;
    Some(format!("only one run has the {} `{}`", extra.role.name(), extra.name))
}
