//! How the worker of a run ended, in one line, and the end of its output.

use std::io::{Read, Seek, SeekFrom};

use super::run_data::RunData;
use super::trial::{ADAPTERS, WEIGHTS};
use crate::run_folder::{Audit, Exit, Folder, TAP_LINE};

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

    /// Returns the trial of the audit that says why the port failed before it reached a checkpoint: a weight, or a weight
    /// of the adapters, is missing.
    pub(crate) fn failed_audit(&self) -> Option<&'static str> {
        let error = self.end()?.error.as_deref().filter(|_| self.records().next().is_none())?;
        let names = |audit: Option<&Audit>| {
            let is_missing = |name: &String| error.contains(&format!("weight `{name}` does not exist"));
            audit.is_some_and(|audit| audit.missing.iter().any(is_missing))
        };
        let audits = [(self.adapter_audit(), ADAPTERS), (self.audit(), WEIGHTS)];
        audits.into_iter().find(|(audit, _)| names(*audit)).map(|(_, trial)| trial)
    }

    /// Returns how the worker failed after its port had returned. This changes no verdict.
    pub(crate) fn late_death(&self) -> Option<String> {
        self.end()?;
        let how = exit_text(&self.exit)?;
        Some(format!("the worker {how} after the port had returned"))
    }

    /// Returns more about a crash: the end of the output and, if memory may have run out, the last numbers and what to try.
    pub(crate) fn crash_notes(&self) -> Option<String> {
        let tail = self.output_tail();
        let parts: Vec<String> =
            [tail.clone(), self.memory_advice(tail.as_deref())].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// Returns the last numbers and what to try, if the worker was killed or an allocation failed.
    fn memory_advice(&self, output: Option<&str>) -> Option<String> {
        let error = self.end().and_then(|end| end.error.as_deref());
        let is_memory = |text: &str| {
            let text = text.to_lowercase();
            ["allocate", "bad_alloc", "out of memory"].iter().any(|words| text.contains(words))
        };
        let failed = [error, output].into_iter().flatten().any(is_memory);
        let crashed = self.end().is_none_or(|end| end.error.is_some());
        if !crashed || !(failed || self.exit == Exit::Signal(9)) {
            return None;
        }
        let last = self.records().filter_map(|record| Some((record, record.memory?))).last();
        let last = last.map_or_else(
            || "No checkpoint was reached, so no memory was measured.".to_owned(),
            |(record, memory)| format!("At `{}`, the last checkpoint: {memory}.", record.checkpoint),
        );
        Some(format!("memory may have run out. {last} What to try:\n{}", MEMORY_ADVICE.join("\n")))
    }

    /// Returns the last lines of the worker's output, with the message of a panic or of MLX.
    pub(crate) fn output_tail(&self) -> Option<String> {
        let shown = last_output(&self.folder);
        (!shown.is_empty()).then(|| format!("the last lines of the worker's output:\n{}", shown.join("\n")))
    }
}

/// Returns how a worker failed, as the end of a sentence; `None` if it did not, or if nobody knows.
pub fn exit_text(exit: &Exit) -> Option<String> {
    match exit {
        Exit::Code(code) => Some(format!("exited with code {code}")),
        Exit::Signal(signal) => Some(format!("was killed by {}", signal_name(*signal))),
        Exit::TimedOut(seconds) => Some(format!("timed out after {seconds} s")),
        Exit::Done | Exit::NotStarted(_) | Exit::Abandoned | Exit::Running => None,
    }
}

/// Returns the last lines of a worker's output, at most 20, without taps after which nothing was printed.
pub fn last_output(folder: &Folder) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = crate::files::regular::open(&folder.output())?;
        let start = file.metadata()?.len().saturating_sub(TAIL);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines = without_silent_taps(without_foreign_frames(text.lines()).into_iter());
    lines[lines.len().saturating_sub(20)..].iter().map(|&line| line.to_owned()).collect()
}

/// What to try when memory runs out.
const MEMORY_ADVICE: [&str; 6] = [
    "- compare the size of the weights with the machine's memory: `cargo xtask weights <spec>`",
    "- use smaller inputs or fewer layers in the reference's `params`",
    "- evaluate inside long loops: a graph that is never evaluated keeps all its temporaries",
    "- drop arrays that are no longer needed, and call `mlx_rs::memory::clear_cache`",
    "- limit what MLX keeps: `mlx_rs::memory::set_cache_limit`, `set_memory_limit` and `set_wired_limit`",
    "- load weights in bfloat16, or quantised",
];

/// Leaves out the frames of a backtrace that are not in the project's source, and those of the harness.
fn without_foreign_frames<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut shown: Vec<&str> = Vec::new();
    // The frame whose place may follow in the next line.
    let (mut is_inside, mut frame) = (false, None);
    for line in lines {
        let text = line.trim_start();
        if text == "stack backtrace:" {
            (is_inside, frame) = (true, None);
            continue;
        }
        let is_note = line.starts_with("note: run with `RUST_BACKTRACE")
            || line.starts_with("note: Some details are omitted");
        if is_note {
            is_inside = false;
            continue;
        }
        if is_inside {
            let number = text.split_once(": ").filter(|(number, _)| number.parse::<u32>().is_ok());
            if let Some((_, function)) = number.filter(|_| text.len() < line.len()) {
                frame = Some(line).filter(|_| !is_foreign(function));
                continue;
            }
            if let Some(place) = text.strip_prefix("at ").filter(|_| text.len() < line.len()) {
                if let Some(frame) = frame.take().filter(|_| !place.starts_with('/')) {
                    shown.extend([frame, line]);
                }
                continue;
            }
            is_inside = false;
        }
        shown.push(line);
    }
    shown
}

/// Whether a function belongs to the standard library or to the harness.
fn is_foreign(function: &str) -> bool {
    let function = function.trim_start_matches(['<', '&']);
    ["std::", "core::", "alloc::", "mlx_parity::", "mlx_parity_core::", "mlx_parity_tap::", "__rust", "rust_"]
        .iter()
        .any(|start| function.starts_with(start))
}

/// Leaves out the taps after which nothing was printed, except for the last tap.
fn without_silent_taps<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut shown: Vec<&str> = Vec::new();
    for line in lines {
        if line.starts_with(TAP_LINE) && shown.last().is_some_and(|last| last.starts_with(TAP_LINE)) {
            shown.pop();
        }
        shown.push(line);
    }
    shown
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_keeps_the_frames_of_the_port() {
        let text = "before\nthread 'main' panicked at src/decoder.rs:76:9:\nno such head\nstack backtrace:\n   \
            0: __rustc::rust_begin_unwind\n             at /rustc/0a/library/std/src/panicking.rs:697:5\n   \
            1: llama::decoder::attend\n             at ./src/decoder.rs:76:9\n   \
            2: mlx_parity::worker::process::run::{{closure}}\n             at ./harness/src/worker/process.rs:103:9\n   \
            3: <alloc::boxed::Box<F,A> as core::ops::function::Fn<Args>>::call\n             at /rustc/0a/library/alloc/src/boxed.rs:2007:9\n   \
            4: mlx_rs::array::f\n             at /home/me/.cargo/registry/src/i/mlx-rs-0.25.3/src/array.rs:5:9\n  \
            10: main\nnote: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\nafter\n";
        let expected = [
            "before",
            "thread 'main' panicked at src/decoder.rs:76:9:",
            "no such head",
            "   1: llama::decoder::attend",
            "             at ./src/decoder.rs:76:9",
            "after",
        ];
        assert_eq!(without_foreign_frames(text.lines()), expected);
        // Text that only looks like a frame stays.
        assert_eq!(without_foreign_frames("   1: one\n  at once".lines()), ["   1: one", "  at once"]);
    }

    #[test]
    fn taps_without_output_do_not_push_the_output_away() {
        let text = "-- tap a\n-- tap b\nprinted\n-- tap c\n-- tap d\nmore\n-- tap e\n-- tap f\n";
        let expected = ["-- tap b", "printed", "-- tap d", "more", "-- tap f"];
        assert_eq!(without_silent_taps(text.lines()), expected);
        assert_eq!(without_silent_taps("".lines()), [""; 0]);
    }
}
