//! The suite's side of `cargo xtask mutate`: starts workers until every mutation of one spec has a result.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::Suite;
use super::prepared_spec::{PreparedSpec, last_line};
use crate::worker::{Pace, launch_watched};
use mlx_parity_core::mutation::{MutationEvent, MutationLog, MutationResult, MutationResults, Noticed};
use mlx_parity_core::report::score_line;
use mlx_parity_core::run_folder::{Exit, JOB, Job};
use mlx_parity_core::text::error_chain;

/// Number of workers that may crash before the command gives up.
const MOST_CRASHES: usize = 100;

/// Runs the port once per mutation, writes the results to `mutations/<spec>/` and prints the score.
///
/// Returns exit code 101 if the mutations cannot run.
pub(super) fn run(suite: &Suite, id: &str) -> ExitCode {
    match mutate(suite, id) {
        Ok(mutations) => {
            println!("parity: MUTATED {id}: {}", score_line(mutations.score()));
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("parity: {problem}");
            ExitCode::from(101)
        }
    }
}

fn mutate(suite: &Suite, id: &str) -> Result<MutationResults, String> {
    let prepared = PreparedSpec::new(suite, id, "mutations")?;
    let PreparedSpec { spec, out, folder, .. } = &prepared;
    let message = |error: mlx_parity_core::run_folder::FolderError| error_chain(&error);
    let log = MutationLog::in_folder(folder);
    let mut crashed = HashSet::new();
    loop {
        let done = MutationResults::of(log.read().map_err(message)?).results.len();
        let job = Job { mutate: Some(done), ..prepared.job(suite) };
        folder.write_json(JOB, &job).map_err(message)?;
        let (mut length, mut printed) = (log.length(), Instant::now());
        let exit = launch_watched(&job, spec.timeout, &out.device(), || {
            let moved = std::mem::replace(&mut length, log.length()) != length;
            if moved && printed.elapsed() > Duration::from_millis(200) {
                print_progress(&log);
                printed = Instant::now();
            }
            if moved { Pace::Restarts } else { Pace::Counts }
        });
        let found = MutationResults::of(log.read().map_err(message)?);
        match (exit, found.running.clone()) {
            (Exit::Done, _) => return Ok(found),
            // A mutation that crashes the process counts as noticed; the next worker continues after it.
            (exit, Some(mutation)) if crashed.len() < MOST_CRASHES && crashed.insert(found.results.len()) => {
                let how = match exit {
                    Exit::TimedOut(seconds) => format!("it ran for more than {seconds} s"),
                    _ => "its process crashed".to_owned(),
                };
                let result = MutationResult { mutation, noticed: Noticed::Port(how), used: None };
                log.write(&MutationEvent::Finished(result)).map_err(message)?;
            }
            _ => return Err(last_line(folder)),
        }
    }
}

/// Prints the number of finished mutations, which `cargo xtask mutate` shows while it waits.
fn print_progress(log: &MutationLog) {
    if let Ok(read) = log.read() {
        let found = MutationResults::of(read);
        println!("{} of {} mutations done", found.results.len(), found.planned);
    }
}
