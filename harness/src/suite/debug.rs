//! The suite's side of a debug session: checks the fixtures, holds the device, and starts the worker.

use std::path::Path;
use std::process::ExitCode;

use super::Suite;
use super::prepared_spec::PreparedSpec;
use crate::worker::{Pace, launch_watched};
use mlx_parity_core::debug::{DEBUG_TASK, DebugTask, PAUSED, PROBLEM};
use mlx_parity_core::files::regular;
use mlx_parity_core::run_folder::{EXIT, JOB, Job};
use mlx_parity_core::text::error_chain;

/// Runs the worker of the session in `folder` to its end. A reason why it cannot start is in the session's folder.
///
/// The exit code says nothing about the port: a session judges nothing.
pub(super) fn run(suite: &Suite, folder: &Path) -> ExitCode {
    match session(suite, folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("parity: {problem}");
            // The front then reports that the suite did not start, without the reason.
            let _ = std::fs::write(folder.join(PROBLEM), problem);
            ExitCode::from(101)
        }
    }
}

fn session(suite: &Suite, session: &Path) -> Result<(), String> {
    let path = session.join(DEBUG_TASK);
    let text = regular::read(&path, regular::TEXT)
        .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let task: DebugTask =
        serde_json::from_slice(&text).map_err(|error| format!("`{}`: {error}", path.display()))?;
    let prepared = PreparedSpec::in_folder(suite, &task.spec, session)?;
    let job =
        Job { debug: Some(task), keep_all: true, room: Some(prepared.room(suite)), ..prepared.job(suite) };
    let message = |error: mlx_parity_core::run_folder::FolderError| error_chain(&error);
    prepared.folder.write_json(JOB, &job).map_err(message)?;
    let paused = prepared.folder.file(PAUSED);
    let exit = launch_watched(&job, prepared.spec.timeout, &prepared.out.device(), || {
        if paused.exists() { Pace::Stands } else { Pace::Counts }
    });
    prepared.folder.write_json(EXIT, &exit).map_err(message)
}
