//! The trace of a session: `trace.jsonl`, one event per line, in the order of events.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::answer::{DebugAnswer, Ended};
use super::command::DebugCommand;
use crate::files::regular;

/// The name of the file in the folder of a session.
pub const TRACE: &str = "trace.jsonl";
/// The largest trace that is read.
const MOST_BYTES: u64 = 1 << 30;

/// Why a trace cannot be written or read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file cannot be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A line is no event.
    #[error("line {line} of `{path}` is no event of a trace")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The cause.
        source: serde_json::Error,
    },
}

/// One line of the trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceLine {
    /// The time in UTC.
    pub at: String,
    /// What happened.
    #[serde(flatten)]
    pub event: TraceEvent,
}

/// An event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TraceEvent {
    /// The session began.
    Session {
        /// The format of the trace, 1.
        format: u32,
        /// The version of mlx-parity.
        mlx_parity: String,
        /// The process of the front.
        process: u32,
    },
    /// A worker starts: the first, or one after `start` or `restart`.
    Run {
        /// The number of the run in the session, from 1.
        run: u32,
        /// The spec.
        spec: String,
    },
    /// A command was given.
    Command {
        /// The number of the command, from 1.
        number: u64,
        /// The command as a line of text.
        text: String,
        /// The command.
        command: DebugCommand,
    },
    /// A command was answered. If the port went on, the answer is its next stop.
    Answer {
        /// The number of the command.
        number: u64,
        /// The answer.
        answer: Box<DebugAnswer>,
    },
    /// The worker has ended.
    Ended {
        /// How it ended.
        ended: Ended,
    },
}

/// A trace that is being written.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    file: File,
}

impl Trace {
    /// Creates the trace in the folder of a session.
    ///
    /// # Errors
    /// When the file exists or cannot be created.
    pub fn create(folder: &Path) -> Result<Self, TraceError> {
        let path = folder.join(TRACE);
        let file = OpenOptions::new().create_new(true).append(true).open(&path);
        match file {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(TraceError::Write { path, source }),
        }
    }

    /// Appends an event, so that it survives the end of this process.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, event: TraceEvent) -> Result<(), TraceError> {
        let at = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let written =
            serde_json::to_vec(&TraceLine { at, event }).map_err(io::Error::from).and_then(|mut line| {
                line.push(b'\n');
                // One call: a killed process leaves at most one incomplete line, the last.
                self.file.write_all(&line)
            });
        written.map_err(|source| TraceError::Write { path: self.path.clone(), source })
    }

    /// Reads the trace in the folder of a session. An incomplete last line, which a killed process leaves, is left out.
    ///
    /// # Errors
    /// When the file cannot be read, or a complete line is no event.
    pub fn read(folder: &Path) -> Result<Vec<TraceLine>, TraceError> {
        let path = folder.join(TRACE);
        let text = regular::read(&path, MOST_BYTES)
            .map_err(|source| TraceError::Read { path: path.clone(), source })?;
        let complete = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let lines = text[..complete].split(|&byte| byte == b'\n').enumerate();
        lines
            .filter(|(_, line)| !line.is_empty())
            .map(|(index, line)| {
                serde_json::from_slice(line).map_err(|source| TraceError::Parse {
                    path: path.clone(),
                    line: index + 1,
                    source,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_survives_a_cut_line() {
        let home = tempfile::tempdir().unwrap();
        let mut trace = Trace::create(home.path()).unwrap();
        let event = || TraceEvent::Run { run: 1, spec: "a/b".into() };
        trace.write(event()).unwrap();
        trace.write(event()).unwrap();
        assert!(Trace::create(home.path()).is_err(), "a trace is never overwritten");
        trace.file.write_all(b"{\"at\":\"2026-").unwrap();
        let read = Trace::read(home.path()).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].event, event());
        trace.file.write_all(b"\n").unwrap();
        assert!(matches!(Trace::read(home.path()), Err(TraceError::Parse { line: 3, .. })));
    }
}
