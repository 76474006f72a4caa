//! A run of the suite in the background.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Project;
use crate::error::CommandProblem;
use crate::guard::guarded;
use crate::parity::{ParityError, suite_cargo};
use crate::process_output::LastLines;
use crate::setup;
use mlx_parity_core::report::write_reports;
use mlx_parity_core::results::{ExpectedSpecs, RunProgress, RunResults, RunWatch};
use mlx_parity_core::runs::{Going, Out, RunName};
use mlx_parity_core::settings::names::INVOCATION;

/// Time between two looks at the process.
const PAUSE: Duration = Duration::from_millis(20);

/// A run of the suite in the background. Cargo, the suite and its workers end when this value is dropped, and when this
/// process is killed.
///
/// A guard between this process and Cargo sees to the latter. It is this same program, which must have the hidden command
/// `guard` that calls [`guard`](super::guard).
pub struct SuiteJob {
    out: Out,
    going: Going,
    target: String,
    process: Mutex<Running>,
}

struct Running {
    child: Child,
    /// Nothing is written to this pipe. The guard ends Cargo when the pipe closes.
    _alive: Option<ChildStdin>,
    errors: Option<LastLines>,
    ended: Option<ExitStatus>,
}

/// How a run of the suite ended.
#[derive(Debug)]
pub struct SuiteOutcome {
    /// The results. They have no target if the suite did not start.
    pub results: RunResults,
    /// Whether Cargo reports success.
    pub success: bool,
    /// The last lines that Cargo printed.
    pub output: Vec<String>,
}

impl SuiteJob {
    /// Starts the suite, as the command `parity` does. With `filter`, only the trials whose names contain it run.
    ///
    /// # Errors
    /// When MLX cannot be set up, the run folder cannot be made, or Cargo does not start.
    pub fn start(project: &Project, filter: Option<&str>) -> Result<Self, CommandProblem> {
        setup::ensure(project)?;
        let out = Out::of(project.root());
        let going = out.start(&RunName::of_command(filter.is_some())).map_err(ParityError::from)?;
        let mut command = suite_cargo(project, &out, false);
        command.args(filter);
        command.env("PARITY_RUN", going.folder.file_name().unwrap_or_default());
        command.env(INVOCATION, &going.owner);
        let start = |source| ParityError::Start { source };
        let mut command = guarded(&command).map_err(start)?;
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(start)?;
        let (alive, errors) = (child.stdin.take(), child.stderr.take().map(LastLines::of));
        let process = Mutex::new(Running { child, _alive: alive, errors, ended: None });
        Ok(Self { out, going, target: project.suite_target().to_owned(), process })
    }

    /// The run folder.
    pub fn folder(&self) -> &Path {
        &self.going.folder
    }

    /// The name of the run.
    pub fn name(&self) -> String {
        PathBuf::from(self.folder().file_name().unwrap_or_default()).display().to_string()
    }

    /// Waits for the end, at most for `limit`. Returns whether the suite has ended.
    pub fn wait(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if self.process().has_ended() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// How far the run has come; `None` while its files cannot be read.
    pub fn progress(&self) -> Option<RunProgress> {
        RunWatch::of(self.folder()).look(self.out.device_holder().as_ref()).ok()
    }

    /// Ends Cargo, the suite and its workers, if they still run.
    pub fn stop(&self) {
        self.process().stop();
    }

    /// Reads the results of a run that has ended, and writes its reports.
    ///
    /// # Errors
    /// When the run folder is damaged, a report cannot be written, or Cargo reports success and no suite ran.
    pub fn outcome(&self) -> Result<SuiteOutcome, CommandProblem> {
        let results = RunResults::read(self.folder(), ExpectedSpecs::Selected).map_err(ParityError::from)?;
        let (success, output) = self.process().finish();
        if results.target.is_empty() {
            if success {
                return Err(ParityError::NoSuite { target: self.target.clone() }.into());
            }
        } else {
            write_reports(self.folder(), &results).map_err(ParityError::from)?;
        }
        Ok(SuiteOutcome { results, success, output })
    }

    fn process(&self) -> MutexGuard<'_, Running> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SuiteJob {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Running {
    fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap_or(None);
        }
        self.ended.is_some()
    }

    fn stop(&mut self) {
        if !self.has_ended() {
            // A process that ends meanwhile is no error.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.ended = io::Result::ok(self.child.wait());
        }
    }

    fn finish(&mut self) -> (bool, Vec<String>) {
        let lines = self.errors.take().map(LastLines::finish).unwrap_or_default();
        (self.ended.is_some_and(|status| status.success()), lines)
    }
}
