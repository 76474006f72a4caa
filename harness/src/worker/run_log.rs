//! The log of a run, and the state of the run that outlives its observer.

use std::collections::BTreeSet;

use mlx_rs::{Array, error::Exception};

use super::array::mlx_message;
use super::usage::Usage;
use mlx_parity_core::record::{Record, Status};
use mlx_parity_core::run_folder::{Folder, FolderError, Line, Writer};

/// The log of a run, and the state that the worker needs after the port has returned.
pub(super) struct Log {
    writer: Writer,
    /// Taps that the spec does not declare.
    undeclared: BTreeSet<String>,
    /// Whether the observer stopped the port after the last selected checkpoint.
    stopped: bool,
    /// Whether a checkpoint with an expected tensor failed.
    red: bool,
    /// The last error that a tap returned.
    tap_error: Option<String>,
    /// What the port has used so far.
    usage: Usage,
    /// The last declared tap, and its hit.
    last: Option<(String, u64)>,
}

impl Log {
    /// Starts the log of a run in its folder.
    pub(super) fn create(folder: &Folder) -> Result<Self, FolderError> {
        Ok(Self {
            writer: Writer::create(folder)?,
            undeclared: BTreeSet::new(),
            stopped: false,
            red: false,
            tap_error: None,
            usage: Usage::default(),
            last: None,
        })
    }

    pub(super) fn write(&mut self, line: &Line) -> Result<(), FolderError> {
        self.writer.write(line)
    }

    /// Writes a tap that the spec does not declare, once.
    pub(super) fn note_undeclared(&mut self, name: &str) -> Result<(), FolderError> {
        let is_new = self.undeclared.insert(name.to_owned());
        if is_new { self.write(&Line::Undeclared { name: name.to_owned() }) } else { Ok(()) }
    }

    /// Notes a hit of a declared tap.
    pub(super) fn note_hit(&mut self, record: &Record) {
        self.red |= record.verdict.status == Status::Fail && record.expected.is_some();
        self.last = Some((record.checkpoint.clone(), record.hit));
    }

    /// Notes that the observer stops the port.
    pub(super) fn note_stop(&mut self) {
        self.stopped = true;
    }

    /// Notes what a tap returned to the port. A stop is no error.
    pub(super) fn note_returned(&mut self, returned: &Result<Array, Exception>) {
        if !self.stopped {
            self.tap_error = returned.as_ref().err().map(|error| mlx_message(error.what()));
        }
    }

    /// Returns whether the observer stopped the port after the last selected checkpoint.
    pub(super) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Returns a port's error with the tap's error in front. MLX loses the tap's message inside a function that is
    /// compiled or differentiated.
    pub(super) fn with_tap_error(&self, error: String) -> String {
        match &self.tap_error {
            Some(cause) if !error.contains(cause.as_str()) => format!("{cause} ({error})"),
            _ => error,
        }
    }

    /// Returns what the port has used so far.
    pub(super) fn usage(&mut self) -> &mut Usage {
        &mut self.usage
    }

    /// Returns the last declared tap that the port reached, and its hit.
    pub(super) fn last(&self) -> Option<(String, u64)> {
        self.last.clone()
    }

    /// Returns whether a checkpoint with an expected tensor failed.
    pub(super) fn is_red(&self) -> bool {
        self.red
    }
}
