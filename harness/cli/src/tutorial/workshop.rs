//! What a step does in the tutorial's folder: it reads and writes the learner's files, runs commands, and reads the results.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::error::TutorialError;
use super::files::{Changes, PORT, SPEC, is_own_version, write};
use crate::as_cargo_parity::AS_CARGO_PARITY;
use crate::cargo::cargo;
use mlx_parity_core::debug::{DebugAnswer, Stop, TRACE, Trace, TraceEvent, TraceLine};
use mlx_parity_core::files::regular::{TEXT, read_text};
use mlx_parity_core::mutation::{MutationLog, MutationResults};
use mlx_parity_core::results::{Account, ExpectedSpecs, RunResults, STATS, TrialOutcome};
use mlx_parity_core::run_folder::Folder;
use mlx_parity_core::text::printable::paint;
use mlx_parity_core::text::program::{XTASK, program};

/// The only spec.
pub(super) const SPEC_ID: &str = "gated_mlp/block";

/// The tutorial's folder at work.
#[derive(Debug)]
pub(super) struct Workshop {
    root: PathBuf,
}

/// A command for the suite: its arguments, and the variables that are set for it.
type EnvironmentVariables<'a> = &'a [(&'a str, &'a str)];

impl Workshop {
    /// Returns the workshop in a folder that has the crate's files.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// Returns the learner's port.
    pub(super) fn port(&self) -> Result<String, TutorialError> {
        self.read(PORT)
    }

    /// Returns the learner's spec.
    pub(super) fn spec(&self) -> Result<String, TutorialError> {
        self.read(SPEC)
    }

    fn read(&self, file: &str) -> Result<String, TutorialError> {
        let path = self.path(file);
        read_text(&path, TEXT).map_err(|source| TutorialError::read(&path, source))
    }

    /// Writes the port and the spec with these changes, and prints the lines that are new. A version that the learner
    /// wrote is kept beside the file.
    pub(super) fn put(&self, changes: Changes) -> Result<(), TutorialError> {
        for (file, text) in [(PORT, changes.port()), (SPEC, changes.spec())] {
            let path = self.path(file);
            let before = read_text(&path, TEXT).unwrap_or_default();
            if before == text {
                continue;
            }
            if path.exists() && !is_own_version(&before) {
                let kept = free_name(&path);
                fs::copy(&path, &kept).map_err(|source| TutorialError::write(&kept, source))?;
                println!("Your version of `{file}` is kept in `{}`.", kept.display());
            }
            write(&path, text.as_bytes())?;
            println!("\n{}", paint(true, "1", file));
            let missing_in = |line: &&str, other: &str| !other.lines().any(|known| known == *line);
            for line in before.lines().filter(|line| missing_in(line, &text)) {
                println!("{}", paint(true, "31", &format!("- {line}")));
            }
            for line in text.lines().filter(|line| missing_in(line, &before)) {
                println!("{}", paint(true, "32", &format!("+ {line}")));
            }
        }
        Ok(())
    }

    /// Runs `cargo parity` in the folder.
    pub(super) fn parity(
        &self,
        arguments: &[&str],
        variables: EnvironmentVariables<'_>,
    ) -> Result<ExitStatus, TutorialError> {
        self.lock_dependencies()?;
        let command = own_command(arguments)?;
        self.run("cargo parity", command, arguments, variables, None)
    }

    /// Gives a debug session these lines, and returns its stops. There are none if it did not start.
    pub(super) fn debug(&self, spec: &str, lines: &str) -> Result<Vec<Stop>, TutorialError> {
        let sessions = || -> BTreeSet<PathBuf> {
            let entries = fs::read_dir(self.path("target/parity/debug")).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.join(TRACE).is_file()).collect()
        };
        let before = sessions();
        self.lock_dependencies()?;
        let arguments = ["debug", spec];
        self.run("cargo parity", own_command(&arguments)?, &arguments, &[], Some(lines))?;
        let Some(folder) = sessions().difference(&before).last().cloned() else { return Ok(Vec::new()) };
        let stop = |line: TraceLine| match line.event {
            TraceEvent::Answer { answer, .. } => match *answer {
                DebugAnswer::Stopped(stop) => Some(*stop),
                _ => None,
            },
            _ => None,
        };
        Ok(Trace::read(&folder)?.into_iter().filter_map(stop).collect())
    }

    /// Runs `cargo test --test parity` in the folder.
    pub(super) fn cargo_test(&self) -> Result<ExitStatus, TutorialError> {
        self.lock_dependencies()?;
        let arguments = ["test", "--test", "parity"];
        let mut command = cargo(&self.root);
        command.args(arguments);
        self.run("cargo", command, &arguments, &[], None)
    }

    /// Prints the command, then runs it, with `input` as its standard input.
    fn run(
        &self,
        name: &str,
        mut command: Command,
        arguments: &[&str],
        variables: EnvironmentVariables<'_>,
        input: Option<&str>,
    ) -> Result<ExitStatus, TutorialError> {
        let shown: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        println!("\n{}\n", paint(true, "1", &format!("$ {shown}{name} {}", arguments.join(" "))));
        without_settings(&mut command);
        command.envs(variables.iter().copied()).current_dir(&self.root);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let status = command.spawn().and_then(|mut child| {
            if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
                // A command that ends early does not read everything.
                let _ = stdin.write_all(input.as_bytes());
            }
            child.wait()
        });
        println!("");
        status.map_err(|source| TutorialError::Start { program: name.to_owned(), source })
    }

    /// Runs the suite with `cargo parity` and these arguments. Returns `None` if it did not start, because the crate does
    /// not compile.
    pub(super) fn run_suite(
        &self,
        arguments: &[&str],
        variables: EnvironmentVariables<'_>,
    ) -> Result<Option<Ran>, TutorialError> {
        let before = self.newest();
        self.parity(arguments, variables)?;
        if self.newest() == before { Ok(None) } else { self.latest() }
    }

    /// Returns the newest run, if there is one.
    pub(super) fn latest(&self) -> Result<Option<Ran>, TutorialError> {
        let Some(folder) = self.newest() else { return Ok(None) };
        let results = RunResults::read(&folder, ExpectedSpecs::Selected)?;
        Ok((!results.target.is_empty()).then_some(Ran { results }))
    }

    fn newest(&self) -> Option<PathBuf> {
        self.path("target/parity/runs/latest").canonicalize().ok()
    }

    /// Runs `cargo parity mutate`, and returns what it found. Returns `None` if the port is not green, or does not compile.
    pub(super) fn mutate(&self) -> Result<Option<MutationResults>, TutorialError> {
        if !self.parity(&["mutate", SPEC_ID], &[])?.success() {
            return Ok(None);
        }
        let folder = Folder::at(self.path("target/parity/mutations").join(SPEC_ID));
        Ok(Some(MutationResults::of(MutationLog::in_folder(&folder).read()?)))
    }

    /// Makes Cargo complete the lock file, which set-up reads: without the network if all crates are on this machine.
    fn lock_dependencies(&self) -> Result<(), TutorialError> {
        let lock = read_text(&self.path("Cargo.lock"), TEXT).unwrap_or_default();
        if lock.contains("name = \"parity-tutorial\"") {
            return Ok(());
        }
        let resolve = |offline: bool| {
            let mut command = cargo(&self.root);
            command.args(["metadata", "--format-version", "1"]).args(offline.then_some("--offline"));
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(if offline { Stdio::null() } else { Stdio::inherit() });
            without_settings(&mut command);
            let status = command.status();
            status.map_err(|source| TutorialError::Start { program: "cargo".to_owned(), source })
        };
        if resolve(true)?.success() || resolve(false)?.success() {
            Ok(())
        } else {
            Err(TutorialError::Dependencies { folder: self.root.clone() })
        }
    }
}

/// Returns `cargo parity` with these arguments, by this same program.
fn own_command(arguments: &[&str]) -> Result<Command, TutorialError> {
    let own = std::env::current_exe()
        .map_err(|source| TutorialError::Start { program: "cargo parity".to_owned(), source })?;
    let mut command = Command::new(own);
    command.args((program() == XTASK).then_some(AS_CARGO_PARITY)).args(arguments);
    Ok(command)
}

/// Removes settings of this process that would change what the steps show.
fn without_settings(command: &mut Command) {
    let is_setting = |name: &str| {
        let prefixes = ["PARITY_", "INSTA_", "NEXTEST"];
        ["CI", "TF_BUILD"].contains(&name)
            || (prefixes.iter().any(|prefix| name.starts_with(prefix)) && name != "PARITY_PYTHON")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(&name.to_string_lossy())) {
        command.env_remove(name);
    }
}

/// Returns a path beside `path` that does not exist.
fn free_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = (1..).map(|count| match count {
        1 => format!("{name}.yours"),
        count => format!("{name}.yours-{count}"),
    });
    names.map(|name| path.with_file_name(name)).find(|path| !path.exists()).unwrap_or_else(|| path.to_owned())
}

/// A run of the suite.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) results: RunResults,
}

impl Ran {
    /// Returns the results of the spec, if it ran.
    pub(super) fn account(&self) -> Option<&Account> {
        self.results.accounts().find(|account| account.spec.id == SPEC_ID).map(|account| &**account)
    }

    pub(super) fn passed(&self, trial: &str) -> bool {
        matches!(self.outcome(trial), Some(TrialOutcome::Passed))
    }

    pub(super) fn failed(&self, trial: &str) -> bool {
        matches!(self.outcome(trial), Some(TrialOutcome::Failed { .. }))
    }

    pub(super) fn outcome(&self, trial: &str) -> Option<&TrialOutcome> {
        self.account()?.trial(trial).map(|trial| &trial.outcome)
    }

    /// Returns every failing trial with its class, and what is wrong with the specs. Statistics do not count: they are
    /// accepted in a later step.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for trial in self.account().into_iter().flat_map(|account| &account.trials) {
            if trial.name == STATS {
                continue;
            }
            if let TrialOutcome::Failed { class, .. } = &trial.outcome {
                found.push(format!("`{}` ({class})", trial.name));
            }
        }
        let results = &self.results;
        if results.discovery.as_ref().is_some_and(|wrong| !wrong.is_empty()) {
            found.push("`parity::discovery`".to_owned());
        }
        found.extend(results.broken.iter().map(|_| format!("`{SPEC}`")));
        found.extend(results.others.iter().cloned());
        if self.account().is_none() && found.is_empty() {
            found.push(format!("`{SPEC_ID}` did not run"));
        }
        found
    }

    /// Returns whether the run judged `checkpoint` by this gate, written as in a spec.
    pub(super) fn has_gate(&self, checkpoint: &str, gate: &str) -> bool {
        let declared = self
            .account()
            .and_then(|account| account.spec.checkpoints.iter().find(|one| one.name == checkpoint));
        declared.is_some_and(|one| one.gated && one.gate.as_ref().is_some_and(|found| found.yaml() == gate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solution_keeps_what_the_learner_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let workshop = Workshop::new(folder.path());
        workshop.put(Changes::default()).unwrap();
        workshop.put(Changes::FINISHED).unwrap();
        assert_eq!(workshop.port().unwrap(), Changes::FINISHED.port());
        assert_eq!(
            fs::read_dir(folder.path().join("src")).unwrap().count(),
            1,
            "our own version is not kept"
        );
        for count in 0..2 {
            fs::write(workshop.path(PORT), format!("mine {count}")).unwrap();
            workshop.put(Changes::default()).unwrap();
        }
        assert_eq!(fs::read_to_string(workshop.path("src/lib.rs.yours")).unwrap(), "mine 0");
        assert_eq!(fs::read_to_string(workshop.path("src/lib.rs.yours-2")).unwrap(), "mine 1");
    }

    #[test]
    fn without_a_run_there_is_nothing_to_read() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Workshop::new(folder.path()).latest().unwrap().is_none());
    }
}
