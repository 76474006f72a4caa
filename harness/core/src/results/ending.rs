//! How the worker of a run ended, in one line, and the end of its output.

use std::io::{Read, Seek, SeekFrom};

use super::run_data::RunData;
use crate::run_folder::Exit;

/// How many bytes of the worker's output are searched for its last lines.
const TAIL: u64 = 64 << 10;

impl RunData {
    /// The last checkpoint that the port reached, as the end of a sentence.
    fn last(&self) -> String {
        self.records().last().map_or_else(
            || "before any checkpoint".to_owned(),
            |record| format!("after checkpoint `{}`", record.checkpoint),
        )
    }

    /// Returns why the outcome is unknown: the run continues, or the process that ran it was killed.
    ///
    /// `None` when the port finished or crashed.
    pub fn pending(&self) -> Option<String> {
        match self.exit {
            _ if self.end().is_some() => None,
            Exit::Running => Some(format!("the spec is still running, {}", self.last())),
            Exit::Abandoned => Some(format!(
                "the run was interrupted {}: the process that ran this spec was killed",
                self.last()
            )),
            _ => None,
        }
    }

    /// Returns why the port did not finish, in one line.
    ///
    /// `None` when it finished, was stopped on purpose, or is [`pending`](Self::pending).
    pub fn crash(&self) -> Option<String> {
        let last = self.last();
        if let Some(end) = self.end() {
            return end.error.as_ref().map(|error| format!("the port failed {last}: {error}"));
        }
        Some(match &self.exit {
            Exit::Abandoned | Exit::Running => return None,
            Exit::Done => format!("the port exited with code 0 {last}"),
            Exit::Code(code) => format!("the worker exited with code {code} {last}"),
            Exit::Signal(signal) => format!("the worker was killed by {} {last}", signal_name(*signal)),
            Exit::TimedOut(seconds) => format!("the worker timed out after {seconds} s, {last}"),
            Exit::NotStarted(problem) => format!("the worker could not be started: {problem}"),
        })
    }

    /// Returns how the worker failed after its port had returned. This changes no verdict.
    pub(crate) fn late_death(&self) -> Option<String> {
        self.end()?;
        let how = match &self.exit {
            Exit::Code(code) => format!("exited with code {code}"),
            Exit::Signal(signal) => format!("was killed by {}", signal_name(*signal)),
            Exit::TimedOut(seconds) => format!("timed out after {seconds} s"),
            Exit::Done | Exit::NotStarted(_) | Exit::Abandoned | Exit::Running => return None,
        };
        Some(format!("the worker {how} after the port had returned"))
    }

    /// Returns the last lines of the worker's output, with the message of a panic or of MLX.
    pub(crate) fn output_tail(&self) -> Option<String> {
        let mut file = crate::files::regular::open(&self.folder.output()).ok()?;
        let start = file.metadata().ok()?.len().saturating_sub(TAIL);
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(20)..];
        (!shown.is_empty()).then(|| format!("the last lines of the worker's output:\n{}", shown.join("\n")))
    }
}

/// The names of the signals that end a port in practice.
fn signal_name(signal: i32) -> String {
    match signal {
        4 => "SIGILL".into(),
        6 => "SIGABRT".into(),
        7 if cfg!(target_os = "linux") => "SIGBUS".into(),
        10 if cfg!(target_os = "macos") => "SIGBUS".into(),
        8 => "SIGFPE".into(),
        9 => "SIGKILL (possibly out of memory)".into(),
        11 => "SIGSEGV".into(),
        15 => "SIGTERM".into(),
        other => format!("signal {other}"),
    }
}
