//! Running a reference script in a workplace, and whether what it made can be trusted.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use walkdir::WalkDir;

use super::error::RegenerateError;
use super::findings::Report;
use super::folder::{Workplace, committed};
use super::plan::Set;
use super::variables::{passed, withheld};
use crate::cli::Project;
use crate::cli::python::last_lines;
use crate::cli::references::Runner;
use crate::cli::script;
use crate::cli::steps::Steps;
use crate::compare::{Rule, compare};
use crate::golden::{ChecksumMemory, FixtureSet, canonical_json};
use crate::regular;
use crate::report::error_chain;

/// A set that a script made aside.
pub(super) struct Made {
    pub(super) set: FixtureSet,
    pub(super) folder: PathBuf,
    pub(super) report: Report,
}

/// What the scripts of one command have in common.
pub(super) struct Maker<'a> {
    pub(super) project: &'a Project,
    pub(super) workplace: &'a Workplace,
    pub(super) steps: &'a Steps,
    pub(super) new_inputs: bool,
    /// Whether the spread over kernel choices is measured, too.
    pub(super) spread: bool,
}

/// Libraries whose sums depend on how many threads they take.
const ONE_THREAD: [&str; 4] =
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"];

impl Maker<'_> {
    /// Runs the script twice, each time in a process of its own; both sets must have the same bytes.
    pub(super) fn twice(&self, set: &Set, runner: &Runner) -> Result<Made, RegenerateError> {
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

    /// Runs the script once, and checks that what it made is sound and belongs to its spec.
    pub(super) fn once(&self, set: &Set, runner: &Runner, turn: &str) -> Result<Made, RegenerateError> {
        let label = format!("run {}, {turn} time, {} at most", set.folder, duration(set.reference.timeout));
        self.steps.step(&label, || self.run(set, runner, turn))
    }

    fn run(&self, set: &Set, runner: &Runner, turn: &str) -> Result<Made, RegenerateError> {
        let name = &set.reference.script;
        let script = self.project.root().join(name);
        // A pipe as a script would have its Python wait for it.
        regular::open(&script).map_err(|source| RegenerateError::read(&script, source))?;
        let root = self.workplace.path(turn);
        let folder = root.join(set.folder);
        let parent = folder.parent().unwrap_or(&root);
        fs::create_dir_all(parent).map_err(|source| RegenerateError::write(parent, source))?;
        let expected = self.workplace.path("expected.json");
        fs::write(&expected, set.expected().to_string())
            .map_err(|source| RegenerateError::write(&expected, source))?;
        let report = self.workplace.path("report.json");
        let _ = fs::remove_file(&report);

        let in_use = self.workplace.path(script::IN_USE);
        let mut command = script::command(runner.program(), &in_use)
            .map_err(|source| RegenerateError::write(&in_use, source))?;
        command.arg(&script).arg(&folder).current_dir(self.project.root());
        let passed = passed(std::env::vars_os(), runner.is_locked(), &set.reference.env);
        command.env_clear().envs(passed.iter().map(|(name, value)| (name, value)));
        runner.dress(&mut command);
        command
            .env("PARITY_REFERENCE", canonical_json(&set.reference.to_json()))
            .env("PARITY_EXPECT", &expected)
            .env("PARITY_REPORT", &report)
            .env("PARITY_ROOT", &root);
        for name in ONE_THREAD {
            command.env(name, "1");
        }
        if self.spread {
            command.env("PARITY_SPREAD", "1");
        }
        let fixture_root = self.project.fixture_root();
        if self.new_inputs {
            command.env("PARITY_NEW_INPUTS", "1");
        } else if committed(&fixture_root, set.folder).is_some() {
            command.env("PARITY_REUSE", fixture_root.join(set.folder));
        }
        let failed = |said: String, code: Option<i32>, withheld: Option<String>| RegenerateError::Script {
            script: name.clone(),
            said,
            status: code,
            withheld,
        };
        let ended = script::run(&mut command, set.reference.timeout)
            .map_err(|error| failed(error.to_string(), None, None))?;
        let report = Report::read(&report);
        match ended.code {
            Some(0) => {}
            None => {
                let after = duration(set.reference.timeout);
                return Err(RegenerateError::TimedOut { script: name.clone(), after });
            }
            Some(3) if report.refuses() => {
                return Err(RegenerateError::Refused { script: name.clone(), findings: report.refused() });
            }
            Some(code) => {
                let said = last_lines(if ended.stderr.is_empty() { &ended.stdout } else { &ended.stderr });
                let names: Vec<String> =
                    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
                let withheld = withheld(&said, names.iter().map(String::as_str), &passed).map(str::to_owned);
                return Err(failed(said, Some(code), withheld));
            }
        }
        let unusable = |problem: String| RegenerateError::Unusable { script: name.clone(), problem };
        if report.refuses() {
            // A script can write its set all the same; the lint has the last word.
            return Err(RegenerateError::Refused { script: name.clone(), findings: report.refused() });
        }
        let made = FixtureSet::open(&root, set.folder).map_err(|error| unusable(error_chain(&error)))?;
        // The script may have changed its environment, or have imported from elsewhere; the lock has the last word.
        runner.check_lock()?;
        let used = made.manifest().provenance.get("packages").and_then(|packages| packages.as_object());
        let used = used.into_iter().flatten();
        runner.check_used(used.filter_map(|(name, version)| Some((name.as_str(), version.as_str()?))))?;
        let bytes = regular::read(&script, regular::TEXT).unwrap_or_default();
        made.check_fresh(&set.reference.to_json(), &bytes).map_err(|error| unusable(error_chain(&error)))?;
        if let Some(error) = made.verify(&mut ChecksumMemory::default()).first() {
            return Err(unusable(error_chain(error)));
        }
        Ok(Made { set: made, folder, report })
    }
}

/// A time as a spec writes it.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

/// What differs between two sets that should be the same, the first thing that does; none if all bytes are equal.
fn difference(first: &Made, second: &Made) -> Option<String> {
    let files = |made: &Made| -> BTreeSet<PathBuf> {
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

/// The first tensor that two runs disagree about, and by how much.
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
                "{what} is {} {:?}, then {} {:?}",
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
            return Some(format!("{what} has the same elements, but another floor, file or place"));
        }
    }
    let extra = others.iter().find(|other| {
        !first.manifest().tensors.iter().any(|entry| (entry.role, &entry.name) == (other.role, &other.name))
    })?;
    Some(format!("only one run has the {} `{}`", extra.role.name(), extra.name))
}

/// Whether two files have the same bytes; they may be larger than memory.
pub(super) fn same_bytes(left: &Path, right: &Path) -> bool {
    let open = |path| regular::open(path).map(|file| BufReader::with_capacity(1 << 20, file));
    let (Ok(mut left), Ok(mut right)) = (open(left), open(right)) else { return false };
    loop {
        let (Ok(ours), Ok(theirs)) = (left.fill_buf(), right.fill_buf()) else { return false };
        let length = ours.len().min(theirs.len());
        if length == 0 {
            return ours.is_empty() && theirs.is_empty();
        }
        if ours[..length] != theirs[..length] {
            return false;
        }
        left.consume(length);
        right.consume(length);
    }
}
