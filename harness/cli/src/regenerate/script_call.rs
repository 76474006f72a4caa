//! One call of a reference's script: its command, its variables, and why it failed.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::error::RegenerateError;
use super::variables::{passed, withheld};
use crate::Project;
use crate::python::last_lines;
use crate::references::Runner;
use crate::script::{self, ScriptEnd};
use mlx_parity_core::golden::canonical_json;

/// One thread each, since these libraries' sums depend on the number of threads.
const ONE_THREAD: [&str; 4] =
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"];

/// A script, the Python that runs it, and what it is told.
pub(super) struct ScriptCall<'a> {
    pub(super) project: &'a Project,
    pub(super) runner: &'a Runner,
    /// From the project's root.
    pub(super) script: &'a str,
    /// The spec's `reference` block.
    pub(super) reference: &'a Value,
    /// The variables that the spec names.
    pub(super) env: &'a [String],
}

impl ScriptCall<'_> {
    /// Returns the command. The caller adds the arguments of the script.
    pub(super) fn command(&self, in_use: &Path, memory: Option<u64>) -> io::Result<Command> {
        Ok(self.complete(script::command(self.runner.program(), in_use, memory)?))
    }

    /// Returns the command without a guard, for a script that a person or a program talks to.
    pub(super) fn unguarded(&self) -> Command {
        self.complete(Command::new(self.runner.program()))
    }

    /// Adds the script and its variables to the Python that runs it.
    fn complete(&self, mut command: Command) -> Command {
        command.arg(self.project.root().join(self.script)).current_dir(self.project.root());
        let passed = passed(std::env::vars_os(), self.runner.is_locked(), self.env);
        command.env_clear().envs(passed.iter().map(|(name, value)| (name, value)));
        self.runner.set_imports(&mut command);
        command.env("PARITY_REFERENCE", canonical_json(self.reference));
        for name in ONE_THREAD {
            command.env(name, "1");
        }
        command
    }

    /// Returns the error for a script that could not be started.
    pub(super) fn not_started(&self, error: &io::Error) -> RegenerateError {
        self.error(error.to_string(), None, None)
    }

    /// Returns the error for a script that ended with this code, from the end of its output.
    pub(super) fn failed(&self, ended: &ScriptEnd, code: i32) -> RegenerateError {
        let reason = last_lines(if ended.stderr.is_empty() { &ended.stdout } else { &ended.stderr });
        let names: Vec<String> =
            std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
        let passed = passed(std::env::vars_os(), self.runner.is_locked(), self.env);
        let withheld = withheld(&reason, names.iter().map(String::as_str), &passed).map(str::to_owned);
        self.error(reason, Some(code), withheld)
    }

    fn error(&self, reason: String, status: Option<i32>, withheld: Option<String>) -> RegenerateError {
        RegenerateError::Script { script: self.script.to_owned(), reason, status, withheld }
    }
}

/// A time in one unit, as specs write it (`90s`, `30m`, `2h`); `humantime` would print `1m 30s`.
pub(super) fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}
