//! `cargo xtask mutate` in the suite: what the checkpoints of one spec notice of faults that are planted at its taps.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::Suite;
use crate::golden::{ChecksumMemory, Trust};
use crate::report::{error_chain, score_line};
use crate::run::{
    Exit, Folder, Inject, JOB, Job, Mutation, Mutations, Noticed, Out, Step, Steps, Verified, claim,
    launch_watched, look_at_fixtures,
};
use crate::settings::Settings;
use crate::spec::{Host, Specs};

/// How many workers a spec may take with it before it is given up.
const CRASHES: usize = 100;

/// Plants every fault, one at a time, and leaves what came of them in `mutations/<spec>/`.
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

fn mutate(suite: &Suite, id: &str) -> Result<Mutations, String> {
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
    // What cannot be remembered is hashed again the next time.
    let _ = memory.save();
    if let Some(obstacle) = obstacles.first() {
        return Err(obstacle.text.clone());
    }
    let said = |error: crate::run::FolderError| error_chain(&error);
    claim(&out.path().join("mutations")).map_err(said)?;
    let folder = Folder::create(out.path().join("mutations").join(id)).map_err(said)?;
    let _held = folder.lock().map_err(said)?;
    folder.clear().map_err(said)?;
    let steps = Steps::in_folder(&folder);
    let mut crashed = HashSet::new();
    loop {
        let done = Mutations::of(steps.read().map_err(said)?).came.len();
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
        folder.write_json(JOB, &job).map_err(said)?;
        let (mut length, mut told) = (steps.length(), Instant::now());
        let exit = launch_watched(&job, spec.timeout, &out.device(), || {
            let moved = std::mem::replace(&mut length, steps.length()) != length;
            if moved && told.elapsed() > Duration::from_millis(200) {
                tell(&steps);
                told = Instant::now();
            }
            moved
        });
        let found = Mutations::of(steps.read().map_err(said)?);
        match (exit, found.open.clone()) {
            (Exit::Done, _) => return Ok(found),
            // A fault that takes the process with it is noticed; the next worker goes on behind it.
            (exit, Some(planted)) if crashed.len() < CRASHES && crashed.insert(found.came.len()) => {
                let how = match exit {
                    Exit::TimedOut(seconds) => format!("it did not come back within {seconds} s"),
                    _ => "it took its process with it".to_owned(),
                };
                let came = Mutation { planted, noticed: Noticed::Port(how), used: None };
                steps.write(&Step::Came(came)).map_err(said)?;
            }
            _ => return Err(last_words(&folder)),
        }
    }
}

/// A line on how far it is, which is all that `cargo xtask mutate` shows meanwhile.
fn tell(steps: &Steps) {
    if let Ok(read) = steps.read() {
        let found = Mutations::of(read);
        println!("{} of {} faults planted", found.came.len(), found.planned);
    }
}

fn last_words(folder: &Folder) -> String {
    let said = crate::regular::read_text(&folder.output(), crate::regular::TEXT).unwrap_or_default();
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("the worker ended and said nothing").to_owned()
}
