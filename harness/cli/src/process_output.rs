//! What a child process prints, while it runs.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::thread::JoinHandle;

/// Lines that are kept.
const KEPT: usize = 60;

/// A thread that reads what a process prints, and keeps the last lines.
pub(crate) struct LastLines(JoinHandle<Vec<String>>);

impl LastLines {
    /// Starts to read.
    pub(crate) fn of(output: impl Read + Send + 'static) -> Self {
        Self(std::thread::spawn(move || last_lines(output)))
    }

    /// Returns the last lines, once the process has closed its output.
    pub(crate) fn finish(self) -> Vec<String> {
        self.0.join().unwrap_or_default()
    }
}

fn last_lines(output: impl Read) -> Vec<String> {
    let mut kept = VecDeque::new();
    for line in BufReader::new(output).split(b'\n').map_while(io::Result::ok) {
        kept.push_back(String::from_utf8_lossy(&line).into_owned());
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }
    kept.into()
}
