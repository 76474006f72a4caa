//! What a run is called, and whose it is.

use std::os::unix::fs::MetadataExt;

use super::process::Process;

/// The variable by which a command hands a run on to the suites that it starts: who the run belongs to.
pub(crate) const INVOCATION: &str = "PARITY_INVOCATION";
/// The link to the newest run.
pub(super) const LATEST: &str = "latest";

/// What a run is to be called, and who takes part in it.
#[derive(Debug, Clone)]
pub(crate) struct RunName {
    /// The name of its folder, if that is free.
    pub(super) key: String,
    /// Processes with the same owner take part in one run.
    pub(super) owner: String,
    /// The process that stands for the owner, unless it is this process.
    pub(super) process: Option<Process>,
    pub(super) join: Join,
    /// Whether a person chose the name.
    pub(super) named: bool,
    /// Whether only some of the trials are asked for.
    pub(super) filtered: bool,
}

/// When a process takes part in a run that has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Join {
    /// Never: it starts a run.
    Never,
    /// While whoever started the run holds it.
    WhileGoing,
    /// As long as the owner is the same.
    SameOwner,
    /// Likewise, unless this was asked for before, which happens once in a run: then it starts the next one.
    Once(String),
}

impl RunName {
    /// A name that no run had before.
    pub(crate) fn fresh(filtered: bool) -> Self {
        let (key, owner) = (fresh_key(), fresh_key());
        Self { key, owner, process: None, join: Join::Never, named: false, filtered }
    }

    /// For a command that runs suites: what `PARITY_RUN` says, or a fresh name.
    pub(crate) fn of_command(filtered: bool) -> Self {
        Self::named(variable("PARITY_RUN").as_deref(), filtered)
    }

    fn named(name: Option<&str>, filtered: bool) -> Self {
        let fresh = Self::fresh(filtered);
        match name {
            Some(name) => Self { key: plain(name), named: true, ..fresh },
            None => fresh,
        }
    }

    /// The run of this process, a suite; `trial` is the one that it was asked for by its whole name.
    ///
    /// - A process of nextest shares its run with all others of the same round of the same binary. nextest hands them one
    ///   id, but a person may export such an id or use it twice, so that the process of nextest itself counts too, and no
    ///   trial is asked for twice.
    /// - Suites that one command starts share the run that the command hands on, while that command runs.
    /// - Under a name of `PARITY_RUN`, suites that one `cargo test` starts share a run.
    /// - Everything else is a run of its own.
    pub(crate) fn of_suite(trial: Option<&str>, filtered: bool) -> Self {
        let name = variable("PARITY_RUN");
        if let (Some(run), Some(trial)) = (variable("NEXTEST_RUN_ID"), trial) {
            return Self::of_nextest(name.as_deref(), &run, trial);
        }
        let own = Self::named(name.as_deref(), filtered);
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
                // Which of the suites has what is not known here.
                filtered: false,
                ..own
            },
            None => own,
        }
    }

    fn of_nextest(name: Option<&str>, run: &str, trial: &str) -> Self {
        let binary = variable("NEXTEST_BINARY_ID").unwrap_or_default();
        let stress = variable("NEXTEST_STRESS_CURRENT").unwrap_or_default();
        // A wrapper script may stand between nextest and this process.
        let process = Process::ancestor("cargo-nextest").or_else(Process::parent);
        let key = match name {
            Some(name) => plain(&format!("{}-{binary}", short(&plain(name)))),
            // What tells rounds apart comes first: a long name loses its end.
            None => plain(&format!("nextest-{run}-{stress}-{binary}")),
        };
        let owner = format!("nextest {run} {stress} {binary} {process:?} {:?}", program());
        let attempt = attempt();
        let join = Join::Once(format!("{attempt} {trial}"));
        Self { key, owner, process, join, named: name.is_some(), filtered: false }
    }

    /// Whether other processes run other trials of the same specs.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.join, Join::Once(_))
    }
}

/// Which attempt of nextest's this is, from 1.
pub(crate) fn attempt() -> u32 {
    variable("NEXTEST_ATTEMPT").and_then(|attempt| attempt.parse().ok()).unwrap_or(1)
}

/// Identifies the test binary; each build has its own.
fn program() -> Option<(u64, i64, i64)> {
    let metadata = std::env::current_exe().and_then(std::fs::metadata).ok()?;
    Some((metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A key that no run had before: the time and the process id.
fn fresh_key() -> String {
    format!("{}-{}", chrono::Utc::now().format("%Y%m%dT%H%M%S%3fZ"), std::process::id())
}

fn short(text: &str) -> &str {
    &text[..text.len().min(40)]
}

/// A key as one file name: what could be a path or an option is replaced.
fn plain(text: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = text.chars().map(kept).take(150).collect();
    let taken = name.starts_with(['.', '-']) || name == LATEST;
    format!("{}{name}", if taken { "run-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_plain_file_name() {
        assert_eq!(plain("a::b/../c"), "a--b-..-c");
        assert_eq!(plain("../x"), "run-..-x");
        assert_eq!(plain("latest"), "run-latest");
        assert_eq!(plain("latest run"), "latest-run");
    }
}
