//! The parent's side of a worker: start it, watch over it, say how it ended.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::asked::Asked;
use super::device;
use super::folder::Exit;
use super::job::{JOB, Job};
use super::output::Recorder;
use crate::settings::names::WORKER;

/// Runs the job, whose file is written, in a worker to its end, at most for `timeout`, while no other has the device.
///
/// The time spent waiting for the device does not count. `device` is the file whose lock stands for it. What the worker
/// has started ends with it, unless it left the worker's process group.
pub(crate) fn launch(job: &Job, timeout: Duration, device: &Path) -> Exit {
    launch_watched(job, timeout, device, || false)
}

/// [`launch`] of a worker whose time begins anew whenever it is seen to have moved.
pub(crate) fn launch_watched(
    job: &Job,
    timeout: Duration,
    device: &Path,
    moved: impl FnMut() -> bool,
) -> Exit {
    match start(job, device) {
        Ok(Started { mut child, recorder, _asked, _held }) => {
            let exit = watch(&mut child, timeout, moved);
            recorder.finish();
            exit
        }
        Err(problem) => Exit::NotStarted(problem),
    }
}

/// A worker that runs.
struct Started {
    child: Child,
    recorder: Recorder,
    _asked: Asked,
    _held: File,
}

fn start(job: &Job, device: &Path) -> Result<Started, String> {
    let held = device::hold(device, &job.spec).map_err(|error| crate::report::error_chain(&error))?;
    let said = |error: std::io::Error| error.to_string();
    let (recorder, output) = Recorder::start(&job.folder.output()).map_err(said)?;
    let asked = Asked::new(&job.folder.file(""), WORKER, job.folder.file(JOB)).map_err(said)?;
    let mut command = Command::new(std::env::current_exe().map_err(said)?);
    command
        .envs(asked.variables())
        // float32 means float32 also on chips whose matrix units would round it to TF32.
        .env("MLX_ENABLE_TF32", "0")
        // The worker reads this pipe to learn that we are gone; it never gets anything through it.
        .stdin(Stdio::piped())
        .stdout(output.try_clone().map_err(said)?)
        .stderr(output)
        // A group of its own, so that all that the port starts can be ended with it, and so that what a terminal sends
        // to us is not taken for the port's own end.
        .process_group(0);
    let child = command.spawn().map_err(said)?;
    Ok(Started { child, recorder, _asked: asked, _held: held })
}

fn watch(child: &mut Child, timeout: Duration, mut moved: impl FnMut() -> bool) -> Exit {
    let mut started = Instant::now();
    let mut pause = Duration::from_millis(1);
    let mut timed_out = false;
    loop {
        if moved() {
            started = Instant::now();
        }
        timed_out |= started.elapsed() >= timeout;
        if timed_out || has_ended(child) {
            break;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
    // Before it is waited for: until then nobody else can get its id.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    match child.wait() {
        Ok(_) if timed_out => Exit::TimedOut(timeout.as_secs()),
        Ok(status) => exit(status),
        Err(error) => Exit::NotStarted(error.to_string()),
    }
}

/// Whether the child has ended; it is still to be waited for.
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
