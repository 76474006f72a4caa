//! The suite's side of `cargo xtask mutate`: starts workers until every mutation of one spec has a result.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::Suite;
use crate::worker::launch_watched;
use mlx_parity_core::golden::{ChecksumMemory, Trust};
use mlx_parity_core::mutation::{MutationEvent, MutationLog, MutationResult, MutationResults, Noticed};
use mlx_parity_core::preflight::look_at_fixtures;
use mlx_parity_core::report::score_line;
use mlx_parity_core::run_folder::{Exit, Folder, JOB, Job, Verified};
use mlx_parity_core::runs::{Out, claim};
use mlx_parity_core::settings::Settings;
use mlx_parity_core::spec::Inject;
use mlx_parity_core::spec::{Host, Specs};
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
    if let Some(problem) = &suite.misplaced {
        return Err(problem.clone());
    }
    let specs = || Specs::load(&suite.spec_root).specs.into();
    let settings = Settings::read(specs).map_err(|error| error.to_string())?;
    let spec = Specs::load_one(&suite.spec_root, id).map_err(|error| error.to_string())?;
    if !suite.ports.contains_key(&spec.port) {
        return Err(format!("port `{}` is not registered with `Suite::port`", spec.port));
    }
    if let Some(reason) = spec.unmet(&Host::here(&suite.fixture_root, &spec.fixtures)) {
        return Err(format!("`{id}` cannot run here: it {reason}"));
    }
    let out = Out::of(&suite.root);
    let mut memory = ChecksumMemory::load(out.checksums(), Trust::here());
    let (fixtures, obstacles) = look_at_fixtures(&spec, &suite.root, &suite.fixture_root, &mut memory);
    // Without saved checksums, the next run hashes the files again.
    let _ = memory.save();
    if let Some(obstacle) = obstacles.first() {
        return Err(obstacle.text.clone());
    }
    let message = |error: mlx_parity_core::run_folder::FolderError| error_chain(&error);
    claim(&out.path().join("mutations")).map_err(message)?;
    let folder = Folder::create(out.path().join("mutations").join(id)).map_err(message)?;
    let _held = folder.lock().map_err(message)?;
    folder.clear().map_err(message)?;
    let log = MutationLog::in_folder(&folder);
    let mut crashed = HashSet::new();
    loop {
        let done = MutationResults::of(log.read().map_err(message)?).results.len();
        let job = Job {
            spec: id.to_owned(),
            spec_root: suite.spec_root.clone(),
            fixture_root: suite.fixture_root.clone(),
            folder: folder.clone(),
            level: settings.level_of(&spec),
            until: None,
            inject: Inject::Declared,
            times: 0,
            mutate: Some(done),
            verified: Verified::of(&spec, fixtures.as_ref()),
        };
        folder.write_json(JOB, &job).map_err(message)?;
        let (mut length, mut printed) = (log.length(), Instant::now());
        let exit = launch_watched(&job, spec.timeout, &out.device(), || {
            let moved = std::mem::replace(&mut length, log.length()) != length;
            if moved && printed.elapsed() > Duration::from_millis(200) {
                print_progress(&log);
                printed = Instant::now();
            }
            moved
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
            _ => return Err(last_line(&folder)),
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

/// Returns the last line that the worker printed.
fn last_line(folder: &Folder) -> String {
    let output =
        mlx_parity_core::files::regular::read_text(&folder.output(), mlx_parity_core::files::regular::TEXT)
            .unwrap_or_default();
    let last = output.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("the worker ended without a message").to_owned()
}
