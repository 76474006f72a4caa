//! A debug session: a worker that stands and goes on as commands ask, and the trace of both.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::error::DebugError;
use super::link::{Attended, attend};
use super::options::Options;
use super::state::{Shared, State};
use super::suite::SuiteStart;
use super::{Answer, Command, Status};
use crate::Project;
use crate::find_spec::find_run;
use crate::setup;
use mlx_parity_core::debug::{
    DEBUG_TASK, DebugState, DebugTask, EndKind, Ended, ToWorker, Trace, TraceEvent,
};
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::runs::{DebugHolder, Out};
use mlx_parity_core::text::error_chain;

/// A debug session. It ends its worker when it is dropped.
///
/// All methods take `&self`: one thread performs commands, and others may ask for the [status](Self::status),
/// [pause](Self::pause) or [terminate](Self::terminate) meanwhile.
pub struct Session {
    pub(super) shared: Arc<Shared>,
    suite: SuiteStart,
    options: Options,
    /// Held by the one command that is performed.
    turn: Mutex<()>,
    /// The thread that attends the worker.
    attending: Mutex<Option<JoinHandle<()>>>,
}

impl Session {
    /// Starts a session: checks the spec, takes the lock of debug sessions, and starts to build the suite.
    ///
    /// Returns at once. The worker then stands before the port starts, and [`Session::wait`] returns that stop. A build that
    /// fails, or a spec that cannot run here, is [`Answer::Ended`].
    ///
    /// # Errors
    /// When the spec does not exist, another session goes on, MLX cannot be set up, or a file cannot be written.
    pub fn start(project: &Project, options: Options) -> Result<Self, DebugError> {
        find_run(project, &options.spec).map_err(|error| DebugError::Spec(error.into()))?;
        let out = Out::of(project.root());
        let lock = out.lock_debug()?;
        setup::ensure(project).map_err(|error| DebugError::Setup(error.into()))?;
        let folder = out.new_debug_session(&lock)?;
        let mut trace = Trace::create(&folder)?;
        trace.write(TraceEvent::Session {
            format: 1,
            mlx_parity: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
        })?;
        let state = State::new(options.spec.clone(), trace, lock);
        let shared = Shared::new(folder, state);
        let session = Self {
            shared: Arc::new(shared),
            suite: SuiteStart::of(project, out, &options),
            options,
            turn: Mutex::default(),
            attending: Mutex::default(),
        };
        session.begin(0)?;
        Ok(session)
    }

    /// Performs a command and returns its answer.
    ///
    /// A command with which the port goes on is answered by the next stop, or by [`Answer::Running`] after `limit`; the port
    /// then runs on, and [`Session::wait`] waits again. `None` waits as long as it takes. The other commands are answered
    /// at once or within the limits of expressions and diagnoses. While the worker starts, breakpoints are edited at once, and
    /// any other command first waits for the worker. If `limit` is over before, a command with which the port goes on is
    /// performed as soon as the worker stands, and any other is an error. While the port runs, or another thread performs a
    /// command, every command except `status`, `note`, `help` and `terminate` is an error.
    pub fn perform(&self, command: Command, limit: Option<Duration>) -> Answer {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let command = with_absolute_file(command);
        let number = self.shared.state().next_command(&command);
        let local = match command {
            Command::Status => Some(Answer::Status(self.status())),
            Command::Note { .. } => Some(Answer::Noted),
            Command::Help { about } => Some(Answer::help(about)),
            Command::Terminate => Some(Answer::Ended(self.terminate())),
            _ => None,
        };
        if let Some(answer) = local {
            return self.answered(number, answer);
        }
        let Ok(_turn) = self.turn.try_lock() else {
            let answer = Answer::error_with(
                "another command is being performed",
                "wait for its answer, or pause the port",
            );
            return self.answered(number, answer);
        };
        match command {
            Command::Restart => self.restart(number, None, deadline),
            Command::Start { spec } => self.restart(number, Some(spec), deadline),
            command => self.ask(number, command, deadline),
        }
    }

    /// Waits until the port stands or has ended, at most for `limit`.
    ///
    /// Returns [`Answer::Stopped`], [`Answer::Ended`], or [`Answer::Running`] after the limit.
    pub fn wait(&self, limit: Option<Duration>) -> Answer {
        let deadline = limit.map(|limit| Instant::now() + limit);
        self.until(deadline, |state| match (&state.phase, &state.last_stop) {
            (DebugState::Paused, Some(stop)) => Some(Answer::Stopped(Box::new(stop.clone()))),
            _ => None,
        })
    }

    /// Returns the state of the session at once.
    pub fn status(&self) -> Status {
        self.status_in(&self.shared.state())
    }

    fn status_in(&self, state: &State) -> Status {
        let status = state.status(&self.shared.folder);
        let holder = (status.state == DebugState::Starting).then(|| self.suite.out.device_holder()).flatten();
        let other = holder.filter(|holder| holder.debug != Some(std::process::id()));
        Status { device: other.map(|holder| holder.to_string()), ..status }
    }

    /// Asks a running port to stop at its next tap. Returns whether a port runs.
    pub fn pause(&self) -> bool {
        let mut state = self.shared.state();
        let runs = state.phase == DebugState::Running;
        runs && state.send(&ToWorker::Pause)
    }

    /// Ends the worker and returns how it ended. The trace stays. A later `restart` starts a new worker.
    pub fn terminate(&self) -> Ended {
        self.shared.state().end(EndKind::Terminated);
        self.join();
        let state = self.shared.state();
        state
            .ended
            .clone()
            .unwrap_or_else(|| state.ended_as(EndKind::Terminated, "there was no worker".into()))
    }

    /// Returns the folder of the session, with its trace.
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// Starts a worker. `number` is the command that its first stop answers.
    fn begin(&self, number: u64) -> Result<(), DebugError> {
        let mut state = self.shared.state();
        if state.lock.is_none() {
            state.lock = Some(self.suite.out.lock_debug()?);
        }
        let holder = DebugHolder {
            process: std::process::id(),
            spec: state.spec.clone(),
            folder: self.shared.folder.clone(),
        };
        if let Some(lock) = &mut state.lock {
            lock.name(&holder).map_err(DebugError::Socket)?;
        }
        let door = self.suite.open_door()?;
        let task = DebugTask {
            what: "This folder belongs to a debug session of mlx-parity. It is no judged run.".to_owned(),
            spec: state.spec.clone(),
            socket: door.path().to_owned(),
            idle_seconds: self.options.idle.as_secs(),
            process: std::process::id(),
        };
        let path = self.shared.folder.join(DEBUG_TASK);
        let text = serde_json::to_vec_pretty(&task).map_err(|error| DebugError::Socket(error.into()))?;
        write_atomically(&path, |out| out.write_all(&text)).map_err(DebugError::Socket)?;
        let process = self.suite.start(&self.shared.folder)?;
        state.begin(number, process.group());
        drop(state);
        let (shared, attended) = (Arc::clone(&self.shared), Attended { door, process });
        let thread = std::thread::spawn(move || attend(&shared, attended));
        *self.attending.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    fn restart(&self, number: u64, spec: Option<String>, deadline: Option<Instant>) -> Answer {
        if let Some(spec) = &spec
            && let Err(error) = find_run(&self.suite.project, spec)
        {
            return self.answered(number, Answer::error(error_chain(&error)));
        }
        self.shared.state().end(EndKind::Terminated);
        self.join();
        if let Some(spec) = spec {
            self.shared.state().spec = spec;
        }
        if let Err(error) = self.begin(number) {
            let answer = Answer::Error { message: error_chain(&error), next: error.next() };
            return self.answered(number, answer);
        }
        self.until(deadline, |state| state.take_answer(number))
    }

    /// Sends a command to the worker and waits for its answer.
    fn ask(&self, number: u64, command: Command, deadline: Option<Instant>) -> Answer {
        let edited = self.shared.state().edit_before_start(&command);
        if let Some(answer) = edited {
            return self.answered(number, answer);
        }
        self.until(deadline, |state| (state.phase != DebugState::Starting).then_some(Answer::Noted));
        let mut state = self.shared.state();
        match state.phase {
            // The limit is over.
            DebugState::Starting => {
                let refused = state.queue(number, &command);
                let running = Answer::Running(self.status_in(&state));
                drop(state);
                return refused.map_or(running, |refused| self.answered(number, refused));
            }
            DebugState::Running => {
                let answer = Answer::error_with("the port is running", "wait until it stops, or pause it");
                drop(state);
                return self.answered(number, answer);
            }
            DebugState::Ended => {
                let answer = state.without_worker(&command);
                drop(state);
                return self.answered(number, answer);
            }
            DebugState::Paused => {}
        }
        let goes_on = command.goes_on();
        if goes_on {
            state.go_on();
        }
        // If the worker is gone, the thread that attends it reports so.
        state.send(&ToWorker::Perform { number, command });
        drop(state);
        self.until(if goes_on { deadline } else { None }, |state| state.take_answer(number))
    }

    /// Waits until `ready` returns an answer or the worker has ended.
    fn until(
        &self,
        deadline: Option<Instant>,
        mut ready: impl FnMut(&mut State) -> Option<Answer>,
    ) -> Answer {
        let mut state = self.shared.state();
        loop {
            if let Some(answer) = ready(&mut state) {
                return answer;
            }
            if let (DebugState::Ended, Some(ended)) = (state.phase, &state.ended) {
                return Answer::Ended(ended.clone());
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Answer::Running(self.status_in(&state));
            }
            state = self.shared.wait(state, left);
        }
    }

    /// Writes an answer that no worker gave into the trace, and returns it.
    fn answered(&self, number: u64, answer: Answer) -> Answer {
        if !matches!(answer, Answer::Running(_)) {
            self.shared.state().trace_answer(number, &answer);
        }
        answer
    }

    /// Waits until the thread that attends the worker has ended.
    fn join(&self) {
        let thread = self.attending.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Its panic would have been printed, and leaves a state that says so.
            let _ = thread.join();
        }
    }
}

/// A worker has another working directory than the front, so it gets an absolute path.
fn with_absolute_file(command: Command) -> Command {
    match command {
        Command::Save { name, file } => {
            let file = std::path::absolute(&file).unwrap_or(file);
            Command::Save { name, file }
        }
        command => command,
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.state().end(EndKind::Terminated);
        self.join();
    }
}
