//! The worker process: this test binary, started again for one spec, with MLX on its main thread.

use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use mlx_parity_tap::drive;
use mlx_rs::{Device, DeviceType};

use super::actuals::Room;
use super::adapter_passes::AdapterPasses;
use super::array::mlx_message;
use super::clock::Clock;
use super::end_process::end_with_parent;
use super::environment::environment;
use super::mlx;
use super::mutator::mutate;
use super::observer::Observer;
use super::other_run::OtherRun;
use super::panic_message::{note_places, panic_text};
use super::plant_fault::TapFaults;
use super::port::{Port, PortResult, Run};
use super::random::{draws, reset_draws};
use super::shape_pass::pass_over_shapes;
use super::stage_times::{StageTimer, StageTimes, median};
use super::stepping::step;
use super::untapped::{PassTimes, UntappedPass};
use mlx_parity_core::files::regular;
use mlx_parity_core::gate::Class;
use mlx_parity_core::golden::{ExternalWeights, FixtureError, FixtureSet, Role};
use mlx_parity_core::results::{ORDER, TIMES, has_adapters};
use mlx_parity_core::run_folder::Obstacle;
use mlx_parity_core::run_folder::{ADAPTERS_FILE, ENVIRONMENT};
use mlx_parity_core::run_folder::{Audit, End, Folder, Line, Writer};
use mlx_parity_core::run_folder::{JOB, Job, RESOURCES, WarmPasses};
use mlx_parity_core::spec::Inject;
use mlx_parity_core::spec::{self, Spec, Specs};
use mlx_parity_core::text::error_chain;

/// The line in the worker's output before the second pass of a red port.
const SECOND_PASS: &str = "-- second pass, with every golden injected";

/// Runs the job in the file at `path` and writes the results to the job's folder. Prints an error that happens before
/// the port runs; the parent reads it from `output.log`.
pub(crate) fn work(path: &Path, ports: &BTreeMap<String, Port>) -> ExitCode {
    end_with_parent();
    note_places();
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
        // `mutate`, `shapes` and debug sessions have no log line for changed files.
        Err(changed) if job.mutate.is_some() || job.shapes || job.debug.is_some() => return Err(changed.text),
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
        .write_json(ENVIRONMENT, &environment(&job, &device, mlx::version()))
        .map_err(|error| error_chain(&error))?;
    let other = OtherRun::open(&spec, job.other.as_ref())?;
    let order = other.as_ref().map(OtherRun::order).or_else(|| fixtures.as_deref().map(order));
    if let Some(order) = order {
        job.folder.write_json(ORDER, &order).map_err(|error| error_chain(&error))?;
    }

    let clock = Clock::start();
    let faults = TapFaults::default();
    let run = Run::new(Rc::clone(&spec), fixtures.clone(), clock.clone(), faults.clone());
    let run = run.map_err(|error| error_chain(&error))?;
    let pass = || {
        run.start_pass();
        port(&run)
    };
    if job.shapes {
        return pass_over_shapes(&job, &spec, fixtures.as_ref(), &faults, pass);
    }
    if job.mutate.is_some() {
        return mutate(&job, &spec, fixtures.as_ref(), pass);
    }
    let room = Room::of(job.room, job.keep_room);
    if job.debug.is_some() {
        // Deeper checkpoints are compared, too: a person may step into them.
        let deep = Job { level: u8::MAX, ..job.clone() };
        let observer =
            Observer::start(&deep, Rc::clone(&spec), fixtures.clone(), clock.clone(), faults.clone(), room)
                .map_err(|error| error_chain(&error))?;
        return step(&job, &spec, fixtures.as_ref(), job.level, &clock, observer, pass);
    }
    let watch = |job: &Job| {
        let (spec, fixtures) = (Rc::clone(&spec), fixtures.clone());
        Observer::start(job, spec, fixtures, clock.clone(), faults.clone(), room.clone())
            .map_err(|error| error_chain(&error))
    };
    let observer = watch(&job)?;
    let log = observer.log();
    reset_draws().map_err(|error| mlx_message(error.what()))?;
    clock.restart();
    let started = Instant::now();
    // A panic is an error of the port. The checkpoints that the port reached before still count.
    let outcome = catch_unwind(AssertUnwindSafe(|| drive(Box::new(observer), pass).0));
    let (rest, whole) = (clock.millis(), started.elapsed().as_secs_f64() * 1e3);
    let mut resources = log.borrow_mut().usage().resources(&run, rest, whole);
    job.folder.write_json(RESOURCES, &resources).map_err(|error| error_chain(&error))?;
    let error = match outcome {
        Ok(Ok(())) => faults.unreached(),
        Ok(Err(error)) => Some(log.borrow().with_tap_error(mlx_message(&error_chain(&*error)))),
        Err(panic) => Some(log.borrow().with_tap_error(panic_text(&*panic))),
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
        // A port that failed might have read the other weights, or ended a training step, later.
        weights: run.audit().map(|audit| match failed {
            true => Audit { unused: Vec::new(), trained: Vec::new(), ..audit },
            false => audit,
        }),
        adapters: run.adapter_audit(failed),
        random,
        changed: changed(&job, &spec, fixtures.as_deref()),
    };
    let is_sound = end.changed.is_empty();
    log.borrow_mut().write(&Line::End(Box::new(end))).map_err(|error| error_chain(&error))?;
    if !is_sound {
        return Ok(());
    }
    if !failed && !stopped && has_adapters(&spec) && job.inject == Inject::Declared {
        let passes =
            AdapterPasses { job: &job, spec: &spec, fixtures: fixtures.as_ref(), run: &run, faults: &faults };
        let found = passes.measure(pass);
        job.folder.write_json(ADAPTERS_FILE, &found).map_err(|error| error_chain(&error))?;
    }
    if !failed && !stopped {
        let last = log.borrow().last();
        resources.warm = measure_times(&job, &spec, &clock, &faults, last, pass)?;
        if resources.warm.is_some() {
            job.folder.write_json(RESOURCES, &resources).map_err(|error| error_chain(&error))?;
        }
    }
    // A run that injects every golden has already localised its errors.
    if job.inject == Inject::All || !log.borrow().is_red() {
        return Ok(());
    }
    let first = job.folder.clone();
    let local = Job {
        folder: Folder::local(&job.folder).map_err(|error| error_chain(&error))?,
        inject: Inject::All,
        peek: Vec::new(),
        // The first pass has kept the green actuals.
        keep_all: false,
        keep: Vec::new(),
        ..job
    };
    println!("{SECOND_PASS}");
    localise(&local, watch(&local)?.after(&first), pass)
}

/// Returns the spec and its fixtures, or an obstacle if they changed since the parent verified them.
fn inputs(job: &Job) -> Result<(Rc<Spec>, Option<Rc<FixtureSet>>), Obstacle> {
    let spec = Specs::load_one_on(job.devices, &job.spec_root, &job.spec)
        .map_err(|error| changed_spec(&error.path))?;
    if spec.digest() != job.verified.spec {
        return Err(changed_spec(&spec.path));
    }
    if !spec.needs_fixtures() {
        return Ok((Rc::new(spec), None));
    }
    let verified = job.verified.fixtures.clone();
    let mut set = FixtureSet::open_verified(&job.fixture_root, &spec.fixtures, verified)?;
    if spec.external().is_some() {
        // Exactly the files that the parent found and verified; the worker's own variables do not matter.
        let external = ExternalWeights::open(&job.verified.external, None).map_err(FixtureError::from)?;
        set = set.with_external(external)?;
    }
    Ok((Rc::new(spec), Some(Rc::new(set))))
}

/// Returns the files that changed while the port ran.
fn changed(job: &Job, spec: &Spec, fixtures: Option<&FixtureSet>) -> Vec<Obstacle> {
    let now = Specs::load_one_on(job.devices, &job.spec_root, &job.spec);
    let other = now.map_or(true, |now| now != *spec);
    let files = fixtures.map(FixtureSet::changed).unwrap_or_default();
    other.then(|| changed_spec(&spec.path)).into_iter().chain(files.into_iter().map(Obstacle::from)).collect()
}

fn changed_spec(path: &Path) -> Obstacle {
    let path = path.display();
    Obstacle { class: Class::Spec, text: format!("`{path}` changed during the test; rerun") }
}

/// Runs a red port once more with every golden injected, which shows the stages that are wrong on golden inputs. The
/// verdicts of the first run do not change.
fn localise(job: &Job, observer: Observer, port: impl Fn() -> PortResult) -> Result<(), String> {
    job.folder.write_json(JOB, job).map_err(|error| error_chain(&error))?;
    let log = observer.log();
    let outcome = catch_unwind(AssertUnwindSafe(|| drive(Box::new(observer), &port).0));
    let stopped = log.borrow().stopped();
    let error = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(mlx_message(&error_chain(&*error))),
        Err(panic) => Some(panic_text(&*panic)),
    };
    let end = End { error: error.filter(|_| !stopped), stopped, ..End::default() };
    log.borrow_mut().write(&Line::End(Box::new(end))).map_err(|error| error_chain(&error))
}

/// Runs the port `job.times` more times and writes the median time per stage, then as often with a single evaluation at
/// the tap `last`. Returns the times of both kinds of passes. The checked run does not count, because it also loads weights
/// and compiles kernels.
fn measure_times(
    job: &Job,
    spec: &Spec,
    clock: &Clock,
    faults: &TapFaults,
    last: Option<(String, u64)>,
    port: impl Fn() -> PortResult,
) -> Result<Option<WarmPasses>, String> {
    if job.times == 0 {
        return Ok(None);
    }
    let names =
        spec.checkpoints.iter().filter(|checkpoint| checkpoint.level <= job.level && !checkpoint.is_unseen());
    let declared: Rc<HashSet<String>> = Rc::new(names.map(|checkpoint| checkpoint.name.clone()).collect());
    let times = StageTimes::default();
    for _ in 0..job.times {
        let timer = StageTimer::new(Rc::clone(&declared), clock.clone(), times.clone(), faults.clone());
        let (result, _) = drive(Box::new(timer), &port);
        result.map_err(|error| format!("the port failed in a timing run: {error}"))?;
    }
    let medians = times.medians();
    job.folder.write_json(TIMES, &medians).map_err(|error| error_chain(&error))?;
    let Some(last) = last else { return Ok(None) };
    let passes = PassTimes::default();
    for _ in 0..job.times {
        let pass = UntappedPass::new(last.clone(), clock.clone(), passes.clone(), faults.clone());
        let (result, _) = drive(Box::new(pass), &port);
        result.map_err(|error| format!("the port failed in a timing run: {error}"))?;
    }
    Ok(Some(WarmPasses {
        passes: job.times,
        tapped_millis: medians.values().sum(),
        untapped_millis: median(passes.take()),
    }))
}

/// Returns the checkpoints of a set in the order in which the reference first reached them.
fn order(fixtures: &FixtureSet) -> Vec<&str> {
    let goldens = fixtures.entries(Role::Golden);
    let mut goldens: Vec<(u64, &str)> = goldens
        .filter_map(|entry| Some((entry.sequence?, entry.name.split('@').next().unwrap_or(&entry.name))))
        .collect();
    goldens.sort_unstable();
    let mut reached = HashSet::new();
    goldens.into_iter().map(|(_, name)| name).filter(|name| reached.insert(*name)).collect()
}

/// Makes the spec's device MLX's default device, and returns its name.
fn choose_device(spec: &Spec) -> Result<String, String> {
    // The first call into MLX must install mlx-rs's error handler, because MLX's own handler ends the process.
    let default = Device::try_default().map_err(|error| mlx_message(error.what()))?;
    let kind = match spec.device {
        spec::Device::Default => default.get_type().map_err(|error| mlx_message(error.what()))?,
        spec::Device::Cpu => DeviceType::Cpu,
        spec::Device::Gpu => DeviceType::Gpu,
    };
    Device::set_default(&Device::new(kind, 0));
    // MLX may lack the device, and mlx-rs does not report it.
    let found = Device::try_default().and_then(|device| device.get_type());
    let found = found.map_err(|error| mlx_message(error.what()))?;
    let name = |kind: &DeviceType| match kind {
        DeviceType::Cpu => "cpu".to_owned(),
        DeviceType::Gpu => "gpu".to_owned(),
    };
    if name(&found) != name(&kind) {
        return Err(format!("the spec requires device {}, but MLX uses {} here", name(&kind), name(&found)));
    }
    Ok(name(&found))
}
