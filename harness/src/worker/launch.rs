//! The parent's side of a worker: starts it, enforces its timeout and returns how it ended.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::device;
use super::kernels::Kernels;
use super::output::Recorder;
use mlx_parity_core::run_folder::{Exit, Folder, JOB, Job};
use mlx_parity_core::runs::{Asked, DeviceHolder};
use mlx_parity_core::settings::names::WORKER;

/// Runs a job in a worker and returns how the worker ended. The job file must already be written.
///
/// Only one worker runs at a time: `device` is the lock file. The worker is killed after `timeout`; waiting for the lock
/// does not count. All processes in the worker's process group are killed when it ends.
pub(crate) fn launch(job: &Job, timeout: Duration, device: &Path) -> Exit {
    launch_watched(job, timeout, device, || Pace::Counts)
}

/// Whether time counts for the timeout of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// It counts.
    Counts,
    /// It counts from zero again.
    Restarts,
    /// It does not count: the worker stands.
    Stands,
}

/// Does the same as [`launch`], but asks `pace` every few milliseconds whether time counts.
pub(crate) fn launch_watched(
    job: &Job,
    timeout: Duration,
    device: &Path,
    pace: impl FnMut() -> Pace,
) -> Exit {
    let debug = job.debug.as_ref().map(|task| task.process);
    let holder = DeviceHolder { debug, ..DeviceHolder::new(std::process::id(), &job.spec) };
    let _held = match device::hold(device, &holder) {
        Ok(held) => held,
        Err(error) => return Exit::NotStarted(mlx_parity_core::text::error_chain(&error)),
    };
    let kernels = match Kernels::open(device) {
        Ok(kernels) => kernels,
        Err(error) => {
            return Exit::NotStarted(format!("cannot prepare the worker's temporary folder: {error}"));
        }
    };
    let errand = Errand { folder: &job.folder, variable: WORKER, value: job.folder.file(JOB) };
    let exit = run_in(&errand, Some(kernels.folder()), timeout, pace);
    kernels.close(&exit);
    exit
}

/// What a process of this binary is asked to do instead of the tests.
pub(crate) struct Errand<'a> {
    /// The folder for its output.
    pub(crate) folder: &'a Folder,
    /// The variable of the request.
    pub(crate) variable: &'static str,
    /// The value of that variable.
    pub(crate) value: PathBuf,
}

/// Runs an errand in a process of its own and returns how the process ended, as [`launch_watched`] does, but without the
/// lock of the device.
pub(crate) fn run_errand(errand: &Errand<'_>, timeout: Duration, pace: impl FnMut() -> Pace) -> Exit {
    run_in(errand, None, timeout, pace)
}

fn run_in(
    errand: &Errand<'_>,
    temporary: Option<&Path>,
    timeout: Duration,
    pace: impl FnMut() -> Pace,
) -> Exit {
    match start(errand, temporary) {
        Ok(Started { mut child, recorder, _asked }) => {
            let exit = watch(&mut child, timeout, pace);
            recorder.finish();
            exit
        }
        Err(problem) => Exit::NotStarted(problem),
    }
}

/// A running worker.
struct Started {
    child: Child,
    recorder: Recorder,
    _asked: Asked,
}

fn start(errand: &Errand<'_>, temporary: Option<&Path>) -> Result<Started, String> {
    let message = |error: std::io::Error| error.to_string();
    let (recorder, output) = Recorder::start(&errand.folder.output()).map_err(message)?;
    let asked = Asked::new(&errand.folder.file(""), errand.variable, &errand.value).map_err(message)?;
    let mut command = Command::new(std::env::current_exe().map_err(message)?);
    command
        .envs(asked.variables())
        // Without this, the matrix units of some chips round float32 to TF32.
        .env("MLX_ENABLE_TF32", "0")
        // Nothing is written to this pipe. The worker ends when the pipe closes, because the parent has ended.
        .stdin(Stdio::piped())
        .stdout(output.try_clone().map_err(message)?)
        .stderr(output)
        // In its own process group, the worker can be killed with all its children, and a terminal's signals to the
        // parent do not reach it and look like a crash of the port.
        .process_group(0);
    if let Some(temporary) = temporary {
        command.env("TMPDIR", temporary);
    }
    let child = command.spawn().map_err(message)?;
    Ok(Started { child, recorder, _asked: asked })
}

fn watch(child: &mut Child, timeout: Duration, mut pace: impl FnMut() -> Pace) -> Exit {
    let mut looked = Instant::now();
    let mut counted = Duration::ZERO;
    let mut pause = Duration::from_millis(1);
    let mut timed_out = false;
    loop {
        let passed = looked.elapsed();
        looked = Instant::now();
        counted = match pace() {
            Pace::Counts => counted + passed,
            Pace::Restarts => Duration::ZERO,
            Pace::Stands => counted,
        };
        timed_out |= counted >= timeout;
        if timed_out || has_ended(child) {
            break;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
    // Before `wait`, because the process id can be reused after it.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    match child.wait() {
        Ok(_) if timed_out => Exit::TimedOut(timeout.as_secs()),
        Ok(status) => exit(status),
        Err(error) => Exit::NotStarted(error.to_string()),
    }
}

/// Returns whether the child has ended. The caller must still wait for it.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(Some(_)))
}

fn exit(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => Exit::Done,
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}
