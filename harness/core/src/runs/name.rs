//! The name and the owner of a run.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::DateTime;

use super::process::Process;
use crate::settings::{self, names::INVOCATION};

/// The link to the newest run.
pub(super) const LATEST: &str = "latest";

/// The requested name of a run, its owner, and the rule for joining it.
#[derive(Debug, Clone)]
pub struct RunName {
    /// The name of its folder, if it is free.
    pub(super) key: String,
    /// The owner. Processes with the same owner can share a run.
    pub(super) owner: String,
    /// The process of the owner, unless it is this process.
    pub(super) process: Option<Process>,
    /// When this process joins a run that has started.
    pub(super) join: Join,
    /// Whether a person chose the name.
    pub(super) named: bool,
    /// Whether only some trials are selected.
    pub(super) filtered: bool,
}

/// When a process joins a run that has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Join {
    /// Never: it starts its own run.
    Never,
    /// While another process holds the run.
    WhileGoing,
    /// Whenever the owner is the same.
    SameOwner,
    /// When the owner is the same and the run has not had this request. A repeated request starts the next run.
    Once(String),
}

impl RunName {
    /// Returns a new name that no run has had.
    pub fn fresh(filtered: bool) -> Self {
        let (key, owner) = (fresh_key(), fresh_key());
        Self { key, owner, process: None, join: Join::Never, named: false, filtered }
    }

    /// Returns the name for a command that runs suites: `PARITY_RUN`, or a new name.
    pub fn of_command(filtered: bool) -> Self {
        Self::named(named(), filtered)
    }

    fn named(name: Option<&str>, filtered: bool) -> Self {
        let fresh = Self::fresh(filtered);
        match name {
            Some(name) => Self { key: plain(name), named: true, ..fresh },
            None => fresh,
        }
    }

    /// Returns the run of this suite process; `trial` is the trial that was selected by its whole name.
    ///
    /// - Under nextest, all processes of the same round and binary share a run. They have the same nextest id. A person can
    ///   export such an id or use it twice, so the nextest process must be the same too, and a repeated trial starts a new
    ///   run.
    /// - Suites that one command starts share the run of that command, while the command runs.
    /// - With `PARITY_RUN`, suites that one `cargo test` starts share a run.
    /// - Any other suite has its own run.
    pub fn of_suite(trial: Option<&str>, filtered: bool) -> Self {
        let name = named();
        if let (Some(run), Some(trial)) = (variable("NEXTEST_RUN_ID"), trial) {
            return Self::of_nextest(name, &run, trial);
        }
        let own = Self::named(name, filtered);
        if name.is_none() {
            return own;
        }
        if let Some(owner) = variable(INVOCATION) {
            return Self { owner, join: Join::WhileGoing, ..own };
        }
        match Process::parent_called("cargo") {
            Some(cargo) => Self {
                owner: format!("cargo {cargo:?}"),
                process: Some(cargo),
                join: Join::SameOwner,
                // This process does not know what the other suites select.
                filtered: false,
                ..own
            },
            None => own,
        }
    }

    fn of_nextest(name: Option<&str>, run: &str, trial: &str) -> Self {
        let binary = variable("NEXTEST_BINARY_ID").unwrap_or_default();
        let stress = variable("NEXTEST_STRESS_CURRENT").unwrap_or_default();
        // A wrapper script can be between nextest and this process.
        let process = Process::ancestor("cargo-nextest").or_else(Process::parent);
        let key = match name {
            Some(name) => plain(&format!("{}-{binary}", short(&plain(name)))),
            // The parts that differ per round come first, because a long name loses its end.
            None => plain(&format!("nextest-{run}-{stress}-{binary}")),
        };
        let owner = format!("nextest {run} {stress} {binary} {process:?} {:?}", program());
        let attempt = attempt();
        let join = Join::Once(format!("{attempt} {trial}"));
        Self { key, owner, process, join, named: name.is_some(), filtered: false }
    }

    /// Returns whether other processes can share the run: a command, nextest, or a named `cargo test`.
    pub fn is_joined(&self) -> bool {
        self.join != Join::Never
    }

    /// Returns whether other processes run other trials of the same specs.
    pub fn is_shared(&self) -> bool {
        matches!(self.join, Join::Once(_))
    }
}

/// Returns the number of the nextest attempt, from 1.
pub fn attempt() -> u32 {
    variable("NEXTEST_ATTEMPT").and_then(|attempt| attempt.parse().ok()).unwrap_or(1)
}

/// Identifies the test binary; each build has its own.
fn program() -> Option<(u64, i64, i64)> {
    let metadata = std::env::current_exe().and_then(std::fs::metadata).ok()?;
    Some((metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
}

/// The name that a person chose with `PARITY_RUN`.
fn named() -> Option<&'static str> {
    settings::variable("PARITY_RUN").filter(|name| !name.is_empty())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A new key: the time and the process id. Two keys of one process always have different times.
pub(super) fn fresh_key() -> String {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let now = chrono::Utc::now().timestamp_millis();
    let after = |last: i64| now.max(last.saturating_add(1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
    let time = DateTime::from_timestamp_millis(last.map_or(now, after)).unwrap_or_default();
    format!("{}-{}", time.format("%Y%m%dT%H%M%S%3fZ"), std::process::id())
}

fn short(text: &str) -> &str {
    &text[..text.len().min(40)]
}

/// A key as one file name. Characters that could make it a path or an option are replaced.
pub(super) fn plain(text: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = text.chars().map(kept).take(150).collect();
    let taken = name.starts_with(['.', '-']) || name == LATEST;
    format!("{}{name}", if taken { "run-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_keys_differ_also_within_a_millisecond() {
        let keys: Vec<String> = (0..1000).map(|_| fresh_key()).collect();
        assert!(keys.is_sorted_by(|one, next| one < next), "{keys:?}");
    }

    #[test]
    fn a_key_is_one_plain_file_name() {
        assert_eq!(plain("a::b/../c"), "a--b-..-c");
        assert_eq!(plain("../x"), "run-..-x");
        assert_eq!(plain("latest"), "run-latest");
        assert_eq!(plain("latest run"), "latest-run");
    }
}
