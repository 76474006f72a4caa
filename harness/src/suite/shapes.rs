//! The suite's side of `cargo xtask shapes`: one pass of a port that evaluates nothing.

use std::process::ExitCode;

use super::Suite;
use super::prepared_spec::{PreparedSpec, last_line};
use crate::worker::launch;
use mlx_parity_core::run_folder::{EXIT, Exit, JOB, Job};
use mlx_parity_core::text::error_chain;

/// Runs the pass and writes its records to `shapes/<spec>/`.
///
/// Returns exit code 101 if the pass cannot run.
pub(super) fn run(suite: &Suite, id: &str) -> ExitCode {
    match pass(suite, id) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("parity: {problem}");
            ExitCode::from(101)
        }
    }
}

fn pass(suite: &Suite, id: &str) -> Result<(), String> {
    let prepared = PreparedSpec::new(suite, id, "shapes")?;
    let job = Job { shapes: true, ..prepared.job(suite) };
    let message = |error: mlx_parity_core::run_folder::FolderError| error_chain(&error);
    prepared.folder.write_json(JOB, &job).map_err(message)?;
    let exit = launch(&job, prepared.spec.timeout, &prepared.out.device());
    prepared.folder.write_json(EXIT, &exit).map_err(message)?;
    match exit {
        Exit::Done => Ok(()),
        Exit::TimedOut(seconds) => Err(format!("the port ran for more than {seconds} s")),
        _ => Err(last_line(&prepared.folder)),
    }
}
