//! The parent's side of a worker: start it, watch over it, say how it ended.

use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::asked::Asked;
use super::folder::{Exit, lock};
use super::job::{JOB, Job};
use crate::settings::names::WORKER;

/// Runs the job, whose file is written, in a worker to its end, at most for `timeout`, while no other has the device.
///
/// The time spent waiting for the device does not count. `device` is the file whose lock stands for it.
pub(crate) fn launch(job: &Job, timeout: Duration, device: &std::path::Path) -> Exit {
    launch_watched(job, timeout, device, || false)
}

/// [`launch`] of a worker whose time begins anew whenever it is seen to have moved.
pub(crate) fn launch_watched(
    job: &Job,
    timeout: Duration,
    device: &std::path::Path,
    moved: impl FnMut() -> bool,
) -> Exit {
    let started = || -> Result<(File, Asked, Child), String> {
        let held = lock(device).map_err(|error| crate::report::error_chain(&error))?;
        let output = File::create(job.folder.output()).map_err(|error| error.to_string())?;
        let asked = Asked::new(&job.folder.file(""), WORKER, job.folder.file(JOB))
            .map_err(|error| error.to_string())?;
        let child = Command::new(std::env::current_exe().map_err(|error| error.to_string())?)
            .envs(asked.variables())
            // float32 means float32 also on chips whose matrix units would round it to TF32.
            .env("MLX_ENABLE_TF32", "0")
            // The worker reads this pipe to learn that we are gone; it never gets anything through it.
            .stdin(Stdio::piped())
            .stdout(output.try_clone().map_err(|error| error.to_string())?)
            .stderr(output)
            .spawn()
            .map_err(|error| error.to_string())?;
        Ok((held, asked, child))
    };
    match started() {
        Ok((_held, _asked, mut child)) => watch(&mut child, timeout, moved),
        Err(problem) => Exit::NotStarted(problem),
    }
}

fn watch(child: &mut Child, timeout: Duration, mut moved: impl FnMut() -> bool) -> Exit {
    let mut started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if moved() {
            started = Instant::now();
        }
        match child.try_wait() {
            Ok(Some(status)) => return exit(status),
            Ok(None) if started.elapsed() >= timeout => {
                let _ = child.kill();
                let _ = child.wait();
                return Exit::TimedOut(timeout.as_secs());
            }
            Ok(None) => std::thread::sleep(pause),
            Err(error) => return Exit::NotStarted(error.to_string()),
        }
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

fn exit(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => Exit::Done,
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}
