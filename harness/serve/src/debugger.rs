//! The one debug session of a server.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use mlx_parity_cli::Project;
use mlx_parity_cli::debug::{Answer, Command, Options, Session, State};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::failure::{Failure, FailureKind};

/// How long a request waits for the end of another one that is about to end anyway.
const SOON: Duration = Duration::from_secs(2);
/// The idle limits that can be asked for, in seconds: up to a week.
const IDLE: RangeInclusive<u64> = 1..=7 * 24 * 3600;

/// The one debug session of a server, and the project whose specs can be stepped through.
///
/// All methods block, and can be called from any thread.
pub struct Debugger {
    project: Project,
    slot: Mutex<Slot>,
    /// Held by the one command that is performed.
    turn: Mutex<()>,
}

enum Slot {
    Empty,
    /// A thread starts a session.
    Starting,
    Session(Arc<Session>),
}

/// What to step through.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    /// The spec, as `model/component`.
    pub spec: String,
    /// Builds and runs with optimisation.
    #[serde(default)]
    pub release: bool,
    /// Seconds without a command after which a standing worker ends. The default is 1800.
    #[serde(default)]
    pub idle_seconds: Option<u64>,
}

impl StartRequest {
    /// A session of this spec with every default.
    pub fn new(spec: impl Into<String>) -> Self {
        Self { spec: spec.into(), release: false, idle_seconds: None }
    }
}

impl Debugger {
    /// A debugger without a session.
    pub fn new(project: Project) -> Self {
        Self { project, slot: Mutex::new(Slot::Empty), turn: Mutex::default() }
    }

    /// The project.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// Starts a session, and waits for its first stop at most for `wait`.
    ///
    /// # Errors
    /// When this server or another process has a session that goes on, or when it cannot start.
    pub fn start(&self, request: StartRequest, wait: Duration) -> Result<Answer, Failure> {
        let mut options = Options::new(request.spec);
        (options.release, options.capture, options.guard) = (request.release, true, true);
        match request.idle_seconds {
            Some(seconds) if IDLE.contains(&seconds) => options.idle = Duration::from_secs(seconds),
            Some(seconds) => {
                let allowed = format!("{} to {}", IDLE.start(), IDLE.end());
                let message = format!("`idle_seconds` is {seconds}, expected {allowed}");
                return Err(Failure::new(FailureKind::Malformed, message));
            }
            None => {}
        }
        let ended = self.reserve()?;
        let started = Session::start(&self.project, options);
        let mut slot = self.slot();
        let session = match started {
            Ok(session) => Arc::new(session),
            Err(error) => {
                // The session before it can still be asked for its results.
                *slot = ended;
                return Err(error.into());
            }
        };
        *slot = Slot::Session(Arc::clone(&session));
        drop(slot);
        Ok(session.wait(Some(wait)))
    }

    /// Performs a command. One with which the port goes on is answered by the next stop, or by [`Answer::Running`] after `wait`.
    /// Without a session, `start` starts one, and `help` helps.
    ///
    /// # Errors
    /// When there is no session, another command is performed, or the command cannot be performed.
    pub fn perform(&self, command: Command, wait: Duration) -> Result<Answer, Failure> {
        match (self.session(), command) {
            (Ok(session), command) => self.perform_on(&session, command, wait),
            (Err(_), Command::Start { spec }) => self.start(StartRequest::new(spec), wait),
            (Err(_), Command::Help { about }) => Ok(Answer::help(about)),
            (Err(failure), _) => Err(failure),
        }
    }

    fn perform_on(&self, session: &Session, command: Command, wait: Duration) -> Result<Answer, Failure> {
        let _turn = match command {
            // These are answered whatever else happens.
            Command::Status | Command::Note { .. } | Command::Help { .. } | Command::Terminate => None,
            _ => Some(self.turn()?),
        };
        match session.perform(command, Some(wait)) {
            Answer::Error { message, next } => {
                let kind = match session.status().state {
                    State::Paused => FailureKind::Refused,
                    _ => FailureKind::Conflict,
                };
                Err(Failure { kind, message, next })
            }
            answer => Ok(answer),
        }
    }

    /// Waits until the port stands or has ended, at most for `wait`, and returns the state of the session.
    ///
    /// # Errors
    /// When there is no session.
    pub fn status(&self, wait: Duration) -> Result<Answer, Failure> {
        let session = self.session()?;
        session.wait(Some(wait));
        Ok(Answer::Status(session.status()))
    }

    /// Asks a running port to stop at its next tap, and waits for the stop at most for `wait`.
    ///
    /// # Errors
    /// When there is no session, or no port runs.
    pub fn pause(&self, wait: Duration) -> Result<Answer, Failure> {
        let session = self.session()?;
        if session.pause() {
            return Ok(session.wait(Some(wait)));
        }
        let failure = Failure::new(FailureKind::Conflict, "no port runs, so there is nothing to pause");
        Err(failure.with_next("the status of the session shows what it does"))
    }

    /// Ends the session, whatever it does.
    ///
    /// # Errors
    /// When there is no session.
    pub fn terminate(&self) -> Result<Answer, Failure> {
        self.perform(Command::Terminate, Duration::ZERO)
    }

    /// Ends the session, if there is one. For the end of the server.
    pub fn close(&self) {
        if let Slot::Session(session) = std::mem::replace(&mut *self.slot(), Slot::Empty) {
            session.terminate();
        }
    }

    /// The session.
    ///
    /// # Errors
    /// When there is none.
    pub fn session(&self) -> Result<Arc<Session>, Failure> {
        let conflict = |message: &str| Failure::new(FailureKind::Conflict, message);
        match &*self.slot() {
            Slot::Session(session) => Ok(Arc::clone(session)),
            Slot::Starting => Err(conflict("a session is being started").with_next("ask again in a moment")),
            Slot::Empty => Err(conflict("there is no debug session").with_next("start one with a spec")),
        }
    }

    /// Takes the place of the session, if no session goes on, and returns what was there.
    fn reserve(&self) -> Result<Slot, Failure> {
        let mut slot = self.slot();
        let busy = match &*slot {
            Slot::Empty => None,
            Slot::Starting => Some("a session is being started".to_owned()),
            Slot::Session(session) => {
                let status = session.status();
                let goes_on = status.state != State::Ended;
                goes_on.then(|| {
                    format!("a session of `{}` goes on, and a server has one at a time", status.spec)
                })
            }
        };
        if let Some(message) = busy {
            let failure = Failure::new(FailureKind::Conflict, message);
            return Err(failure
                .with_next("end it with `terminate`, or change its spec with the command `start SPEC`"));
        }
        Ok(std::mem::replace(&mut *slot, Slot::Starting))
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a moment for the turn.
    fn turn(&self) -> Result<MutexGuard<'_, ()>, Failure> {
        let deadline = Instant::now() + SOON;
        loop {
            match self.turn.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    let failure = Failure::new(FailureKind::Conflict, "another command is being performed");
                    return Err(failure.with_next("wait for its answer, or pause the port"));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}
