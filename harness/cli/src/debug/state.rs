//! The state of a session, as its threads share it.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{Answer, Command, Status};
use mlx_parity_core::debug::{
    Breakpoints, DebugState, EndKind, Ended, FromWorker, Stop, ToWorker, Trace, TraceEvent,
};
use mlx_parity_core::record::Location;
use mlx_parity_core::runs::DebugLock;
use mlx_parity_core::text::error_chain;

/// What the session and the thread that attends its worker share.
pub(super) struct Shared {
    pub(super) folder: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn new(folder: PathBuf, state: State) -> Self {
        Self { folder, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those who wait for a change of the state.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits for a change of the state, at most for `limit`.
    pub(super) fn wait<'s>(
        &self,
        state: MutexGuard<'s, State>,
        limit: Option<Duration>,
    ) -> MutexGuard<'s, State> {
        match limit {
            Some(limit) => self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0,
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// The state itself.
pub(super) struct State {
    pub(super) spec: String,
    pub(super) phase: DebugState,
    since: Instant,
    /// The number of the run in the session, from 1.
    run: u32,
    /// The latest command.
    number: u64,
    /// The command that the first stop of this run answers.
    first: u64,
    worker: Option<u32>,
    /// The connection to the worker.
    stream: Option<UnixStream>,
    /// The process group of Cargo.
    group: Option<Pid>,
    taps: u64,
    failed: u64,
    pub(super) last_tap: Option<String>,
    pub(super) last_place: Option<Location>,
    pub(super) last_stop: Option<Stop>,
    pub(super) breakpoints: Breakpoints,
    /// An answer that arrived, and its command.
    answer: Option<(u64, Answer)>,
    /// The command that goes on as soon as the worker stands for the first time, and its number.
    queued: Option<(u64, Command)>,
    /// Why the worker ends, if somebody asked it to, or if it said so.
    pub(super) ending: Option<EndKind>,
    pub(super) ended: Option<Ended>,
    trace: Trace,
    /// Held while there is a worker.
    pub(super) lock: Option<DebugLock>,
}

impl State {
    pub(super) fn new(spec: String, trace: Trace, lock: DebugLock) -> Self {
        Self {
            spec,
            phase: DebugState::Starting,
            since: Instant::now(),
            run: 0,
            number: 0,
            first: 0,
            worker: None,
            stream: None,
            group: None,
            taps: 0,
            failed: 0,
            last_tap: None,
            last_place: None,
            last_stop: None,
            breakpoints: Breakpoints::default(),
            answer: None,
            queued: None,
            ending: None,
            ended: None,
            trace,
            lock: Some(lock),
        }
    }

    /// Numbers a command and writes it into the trace.
    pub(super) fn next_command(&mut self, command: &Command) -> u64 {
        self.number += 1;
        let (number, text) = (self.number, command.to_string());
        self.write(TraceEvent::Command { number, text, command: command.clone() });
        number
    }

    /// A new worker starts in this process group.
    pub(super) fn begin(&mut self, number: u64, group: Pid) {
        self.run += 1;
        self.first = number;
        self.set_phase(DebugState::Starting);
        (self.worker, self.stream, self.group) = (None, None, Some(group));
        (self.taps, self.failed, self.last_tap, self.last_place, self.last_stop) = (0, 0, None, None, None);
        (self.answer, self.queued, self.ending, self.ended) = (None, None, None, None);
        self.breakpoints.reset();
        self.write(TraceEvent::Run { run: self.run, spec: self.spec.clone() });
    }

    /// The worker has connected.
    pub(super) fn connect(&mut self, stream: UnixStream) {
        self.stream = Some(stream);
        let breakpoints = self.breakpoints.clone();
        self.send(&ToWorker::Restore { breakpoints });
    }

    /// The port goes on.
    pub(super) fn go_on(&mut self) {
        self.set_phase(DebugState::Running);
    }

    /// Takes a message of the worker into account.
    pub(super) fn receive(&mut self, message: FromWorker) {
        match message {
            FromWorker::Hello { process } => self.worker = Some(process),
            FromWorker::Progress { taps, failed, last, place } => {
                (self.taps, self.failed) = (taps, failed);
                (self.last_tap, self.last_place) = (Some(last), Some(place));
            }
            FromWorker::Answer { number, answer, breakpoints } => {
                let number = if number == 0 { self.first } else { number };
                self.breakpoints = breakpoints;
                if let Answer::Stopped(stop) = &*answer {
                    self.taps = stop.taps;
                    self.last_stop = Some((**stop).clone());
                }
                // An error also leaves the port where it stands.
                if self.phase != DebugState::Paused {
                    self.set_phase(DebugState::Paused);
                }
                self.trace_answer(number, &answer);
                self.answer = Some((number, *answer));
                // Nobody sees the port stand before a command that came earlier.
                if self.phase == DebugState::Paused
                    && let Some((number, command)) = self.queued.take()
                {
                    self.go_on();
                    self.send(&ToWorker::Perform { number, command });
                }
            }
            FromWorker::Bye { how } => {
                self.ending.get_or_insert(how);
            }
        }
    }

    /// Performs a command about breakpoints at once, if the worker is not connected yet: it then starts with them.
    pub(super) fn edit_before_start(&mut self, command: &Command) -> Option<Answer> {
        use Command::{Break, Breaks, Clear, Remove};
        let edits = matches!(command, Break { .. } | Breaks | Clear | Remove { .. });
        let early = self.phase == DebugState::Starting && self.stream.is_none();
        (edits && early).then(|| self.without_worker(command))
    }

    /// Remembers a command that came before the worker stands. Returns why it cannot be performed, if that is so.
    pub(super) fn queue(&mut self, number: u64, command: &Command) -> Option<Answer> {
        match &self.queued {
            _ if !command.goes_on() => Some(Answer::error_with(
                "the worker is still starting, so nothing was done",
                "wait for its first stop; `status` reports it",
            )),
            Some((_, earlier)) => Some(Answer::error_with(
                format!("`{earlier}` is performed as soon as the worker stands, so nothing was done"),
                "wait for its next stop; `status` reports it",
            )),
            None => {
                self.queued = Some((number, command.clone()));
                None
            }
        }
    }

    /// Takes the answer to this command, if it has arrived.
    pub(super) fn take_answer(&mut self, number: u64) -> Option<Answer> {
        self.answer.take_if(|(answered, _)| *answered == number).map(|(_, answer)| answer)
    }

    /// Sends a message to the worker. Returns whether there is one.
    pub(super) fn send(&mut self, message: &ToWorker) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let Ok(mut line) = serde_json::to_vec(message) else { return false };
        line.push(b'\n');
        stream.write_all(&line).is_ok()
    }

    /// Ends the worker, whatever it does: it ends with its connection. Before it is connected, Cargo and the suite are
    /// killed, and the worker ends with the suite.
    pub(super) fn end(&mut self, how: EndKind) {
        if self.phase == DebugState::Ended {
            return;
        }
        self.ending.get_or_insert(how);
        match (&self.stream, self.group) {
            (Some(stream), _) => _ = stream.shutdown(Shutdown::Both),
            (None, Some(group)) => _ = kill_process_group(group, Signal::KILL),
            (None, None) => {}
        }
    }

    /// The worker has ended.
    pub(super) fn finish(&mut self, ended: Ended) {
        self.set_phase(DebugState::Ended);
        (self.worker, self.stream, self.group, self.lock) = (None, None, None, None);
        self.write(TraceEvent::Ended { ended: ended.clone() });
        self.ended = Some(ended);
    }

    /// An end at the latest tap.
    pub(super) fn ended_as(&self, how: EndKind, text: String) -> Ended {
        let (last_tap, place) = (self.last_tap.clone(), self.last_place.clone());
        Ended { how, text, last_tap, place, output: Vec::new() }
    }

    /// Answers a command without a worker: breakpoints can be edited for the next run.
    pub(super) fn without_worker(&mut self, command: &Command) -> Answer {
        let changed = match command {
            Command::Break { pattern, on, when, hit } => {
                self.breakpoints.add(pattern, *on, when.as_deref(), *hit).map(drop)
            }
            Command::Remove { which } => match self.breakpoints.remove(which) {
                0 => Err(format!("there is no breakpoint `{which}`")),
                _ => Ok(()),
            },
            Command::Clear => {
                self.breakpoints.clear();
                Ok(())
            }
            Command::Breaks => Ok(()),
            _ => {
                let how = self.ended.as_ref().map_or("", |ended| &ended.text);
                return Answer::error_with(
                    format!("there is no worker: {how}"),
                    "start again with `restart`, or end the session with `terminate`",
                );
            }
        };
        match changed {
            Ok(()) => Answer::Breakpoints { breakpoints: self.breakpoints.list.clone(), note: None },
            Err(message) => Answer::error(message),
        }
    }

    pub(super) fn status(&self, folder: &Path) -> Status {
        Status {
            spec: self.spec.clone(),
            state: self.phase,
            device: None,
            seconds: self.since.elapsed().as_secs(),
            run: self.run,
            process: std::process::id(),
            worker: self.worker,
            folder: folder.to_owned(),
            taps: self.taps,
            failed: self.failed,
            last_tap: self.last_tap.clone(),
            breakpoints: self.breakpoints.list.len(),
            ended: self.ended.clone(),
        }
    }

    pub(super) fn trace_answer(&mut self, number: u64, answer: &Answer) {
        self.write(TraceEvent::Answer { number, answer: Box::new(answer.clone()) });
    }

    fn set_phase(&mut self, phase: DebugState) {
        (self.phase, self.since) = (phase, Instant::now());
    }

    /// Writes an event into the trace. A full disk must not end the session.
    fn write(&mut self, event: TraceEvent) {
        if let Err(error) = self.trace.write(event) {
            eprintln!("{}", error_chain(&error));
        }
    }
}
