//! The worker: this same test binary, started again for one spec, with MLX on its main thread.

use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::io::{ErrorKind, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use mlx_parity_tap::drive;
use mlx_rs::{Device, DeviceType};
use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group};

use super::alter::Alterations;
use super::array::mlx_message;
use super::clock::Clock;
use super::environment::{ENVIRONMENT, Environment};
use super::folder::{Audit, End, Folder, Line, Writer};
use super::job::{Inject, JOB, Job};
use super::mlx;
use super::mutator::mutate;
use super::observer::Observer;
use super::obstacle::Obstacle;
use super::port::{Port, PortResult, Run};
use super::random::{draws, forget_draws};
use super::stopwatch::{Laps, Stopwatch};
use super::story::{ORDER, TIMES};
use crate::Class;
use crate::golden::{FixtureSet, Role};
use crate::regular;
use crate::report::error_chain;
use crate::spec::{self, Spec, Specs};

/// Does the job at `path` and ends; what it found is in the job's folder. Anything that goes wrong before the port
/// runs is printed, which the parent finds in `output.log`.
pub(crate) fn work(path: &Path, ports: &BTreeMap<String, Port>) -> ExitCode {
    end_with_parent();
    match run(path, ports) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &Path, ports: &BTreeMap<String, Port>) -> Result<(), String> {
    let text = regular::read(path, regular::TEXT)
        .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let job: Job = serde_json::from_slice(&text).map_err(|error| format!("`{}`: {error}", path.display()))?;
    let (spec, fixtures) = match inputs(&job) {
        Ok(inputs) => inputs,
        // All of it was verified a moment ago.
        Err(changed) if job.mutate.is_some() => return Err(changed.text),
        Err(changed) => {
            let end = End { changed: vec![changed], ..End::default() };
            let written =
                Writer::create(&job.folder).and_then(|mut log| log.write(&Line::End(Box::new(end))));
            return written.map_err(|error| error_chain(&error));
        }
    };
    let port = ports.get(&spec.port).ok_or_else(|| format!("no port `{}` is registered", spec.port))?;
    let device = choose_device(&spec)?;
    job.folder
        .write_json(ENVIRONMENT, &Environment::of(&job, &device, mlx::version()))
        .map_err(|error| error_chain(&error))?;
    if let Some(fixtures) = &fixtures {
        job.folder.write_json(ORDER, &order(fixtures)).map_err(|error| error_chain(&error))?;
    }

    let clock = Clock::start();
    let alterations = Alterations::default();
    let run = Run::new(Rc::clone(&spec), fixtures.clone(), clock.clone(), alterations.clone());
    let run = run.map_err(|error| error_chain(&error))?;
    if job.mutate.is_some() {
        return mutate(&job, &spec, fixtures.as_ref(), || port(&run));
    }
    let watch = |job: &Job| {
        let (spec, fixtures) = (Rc::clone(&spec), fixtures.clone());
        Observer::start(job, spec, fixtures, clock.clone(), alterations.clone())
            .map_err(|error| error_chain(&error))
    };
    let observer = watch(&job)?;
    let log = observer.log();
    forget_draws().map_err(|error| mlx_message(error.what()))?;
    clock.restart();
    // A panic is one more way for a port to fail, and what it had reached still counts.
    let outcome = catch_unwind(AssertUnwindSafe(|| drive(Box::new(observer), || port(&run)).0));
    let error = match outcome {
        Ok(Ok(())) => alterations.unmet(),
        Ok(Err(error)) => Some(log.borrow().with_tap_error(mlx_message(&error_chain(&*error)))),
        Err(panic) => Some(log.borrow().with_tap_error(format!("panicked: {}", panic_message(&*panic)))),
    };
    let stopped = log.borrow().stopped();
    let failed = error.is_some();
    let random = match failed {
        true => None,
        false => draws().map_err(|error| mlx_message(error.what()))?,
    };
    let end = End {
        error: error.filter(|_| !stopped),
        stopped,
        unused_inputs: if stopped || failed { Vec::new() } else { run.unused_inputs() },
        // What a port that failed had not come to yet is not unused.
        weights: run.audit().map(|audit| if failed { Audit { unused: Vec::new(), ..audit } } else { audit }),
        random,
        changed: changed(&job, &spec, fixtures.as_deref()),
    };
    let is_sound = end.changed.is_empty();
    log.borrow_mut().write(&Line::End(Box::new(end))).map_err(|error| error_chain(&error))?;
    if !is_sound {
        return Ok(());
    }
    if !failed && !stopped {
        time(&job, &spec, &clock, &alterations, || port(&run))?;
    }
    // Where everything is injected already, this run is its own second one.
    if job.inject == Inject::All || !log.borrow().is_red() {
        return Ok(());
    }
    let first = job.folder.clone();
    let local = Job {
        folder: Folder::local(&job.folder).map_err(|error| error_chain(&error))?,
        inject: Inject::All,
        ..job
    };
    localise(&local, watch(&local)?.after(&first), || port(&run))
}

/// The spec and its fixtures, which must be those that the parent has verified.
fn inputs(job: &Job) -> Result<(Rc<Spec>, Option<Rc<FixtureSet>>), Obstacle> {
    let spec = Specs::load_one(&job.spec_root, &job.spec).map_err(|error| changed_spec(&error.path))?;
    if spec.digest() != job.verified.spec {
        return Err(changed_spec(&spec.path));
    }
    if !spec.needs_fixtures() {
        return Ok((Rc::new(spec), None));
    }
    let verified = job.verified.fixtures.clone();
    let set = FixtureSet::open_verified(&job.fixture_root, &spec.fixtures, verified)?;
    Ok((Rc::new(spec), Some(Rc::new(set))))
}

/// What is no longer as it was verified, now that the port has run.
fn changed(job: &Job, spec: &Spec, fixtures: Option<&FixtureSet>) -> Vec<Obstacle> {
    let now = Specs::load_one(&job.spec_root, &job.spec);
    let other = now.map_or(true, |now| now != *spec);
    let files = fixtures.map(FixtureSet::changed).unwrap_or_default();
    other.then(|| changed_spec(&spec.path)).into_iter().chain(files.into_iter().map(Obstacle::from)).collect()
}

fn changed_spec(path: &Path) -> Obstacle {
    let path = path.display();
    Obstacle { class: Class::Spec, text: format!("`{path}` changed while it was being tested; run again") }
}

/// Runs a red port once more, with every golden injected: which stage is faulty, and how. What the first
/// run has found stands, whatever becomes of this one.
fn localise(job: &Job, observer: Observer, port: impl Fn() -> PortResult) -> Result<(), String> {
    job.folder.write_json(JOB, job).map_err(|error| error_chain(&error))?;
    let log = observer.log();
    let outcome = catch_unwind(AssertUnwindSafe(|| drive(Box::new(observer), &port).0));
    let stopped = log.borrow().stopped();
    let error = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(mlx_message(&error_chain(&*error))),
        Err(panic) => Some(format!("panicked: {}", panic_message(&*panic))),
    };
    let end = End { error: error.filter(|_| !stopped), stopped, ..End::default() };
    log.borrow_mut().write(&Line::End(Box::new(end))).map_err(|error| error_chain(&error))
}

/// Runs the port as often again as the job says, and leaves the median time of each stage. The judged run, which also
/// loaded and compiled things, is not among them.
fn time(
    job: &Job,
    spec: &Spec,
    clock: &Clock,
    alterations: &Alterations,
    port: impl Fn() -> PortResult,
) -> Result<(), String> {
    let names = spec.checkpoints.iter().filter(|checkpoint| checkpoint.level <= job.level);
    let declared: Rc<HashSet<String>> = Rc::new(names.map(|checkpoint| checkpoint.name.clone()).collect());
    let laps = Laps::default();
    for _ in 0..job.times {
        let stopwatch =
            Stopwatch::new(Rc::clone(&declared), clock.clone(), laps.clone(), alterations.clone());
        let (result, _) = drive(Box::new(stopwatch), &port);
        result.map_err(|error| format!("the port failed when it ran again: {error}"))?;
    }
    match job.times {
        0 => Ok(()),
        _ => job.folder.write_json(TIMES, &laps.medians()).map_err(|error| error_chain(&error)),
    }
}

/// The checkpoints of a set in the order in which the reference came to them first.
fn order(fixtures: &FixtureSet) -> Vec<&str> {
    let goldens = fixtures.entries(Role::Golden);
    let mut goldens: Vec<(u64, &str)> = goldens
        .filter_map(|entry| Some((entry.sequence?, entry.name.split('@').next().unwrap_or(&entry.name))))
        .collect();
    goldens.sort_unstable();
    let mut met = HashSet::new();
    goldens.into_iter().map(|(_, name)| name).filter(|name| met.insert(*name)).collect()
}

/// Makes the spec's device the default one, and says which it is.
fn choose_device(spec: &Spec) -> Result<String, String> {
    // The first call into MLX must be one that installs mlx-rs's error handler: MLX's own ends the process.
    let default = Device::try_default().map_err(|error| mlx_message(error.what()))?;
    let kind = match spec.device {
        spec::Device::Default => default.get_type().map_err(|error| mlx_message(error.what()))?,
        spec::Device::Cpu => DeviceType::Cpu,
        spec::Device::Gpu => DeviceType::Gpu,
    };
    Device::set_default(&Device::new(kind, 0));
    // MLX may not have that device, and mlx-rs does not say so.
    let found = Device::try_default().and_then(|device| device.get_type());
    let found = found.map_err(|error| mlx_message(error.what()))?;
    let name = |kind: &DeviceType| match kind {
        DeviceType::Cpu => "cpu".to_owned(),
        DeviceType::Gpu => "gpu".to_owned(),
    };
    if name(&found) != name(&kind) {
        return Err(format!("the spec wants the device {}, but MLX has {} here", name(&kind), name(&found)));
    }
    Ok(name(&found))
}

/// Ends this process as soon as the parent's end of our standard input is gone, whatever the port is doing.
fn end_with_parent() {
    std::thread::spawn(|| {
        let mut stdin = std::io::stdin().lock();
        loop {
            match stdin.read(&mut [0; 64]) {
                Ok(1..) => {}
                // A signal that the port or a profiler handles is not our parent's end.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        // What the port has started ends too, where the worker has a process group of its own.
        if getpgrp() == getpid() {
            let _ = kill_current_process_group(Signal::KILL);
        }
        // Not `exit`: its handlers would run beside an MLX that is still at work.
        std::process::abort();
    });
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}
