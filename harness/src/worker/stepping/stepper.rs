//! The driver of a stepped port: observes a tap as a usual run does, then stands there if somebody wants it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use mlx_parity_tap::{Driver, drive, open_scopes};
use mlx_rs::{Array, error::Exception};

use super::super::array::{from_host, info_of, mlx_message};
use super::super::clock::Clock;
use super::super::end_process::end_process;
use super::super::gradient::with_gradient;
use super::super::observer::{Hit, Observer};
use super::super::panic_message::panic_text;
use super::super::port::PortResult;
use super::super::run_log::Log;
use super::channel::Channel;
use super::condition::{axes, learn, met, numbers};
use super::here::{Here, place};
use super::source_lines::SourceLines;
use super::tensors::{SeenTap, SessionTensors, StopTensors};
use mlx_parity_core::calculate::{Calculator, Limits};
use mlx_parity_core::debug::{
    Breakpoints, DebugAnswer, EndKind, FromWorker, GoesOn, PAUSED, Stop, StopReason, TapPattern, ToWorker,
    Variable, VariableKind,
};
use mlx_parity_core::golden::FixtureSet;
use mlx_parity_core::record::Status;
use mlx_parity_core::run_folder::{End, Folder, Job, Line};
use mlx_parity_core::spec::{Spec, hit_name};
use mlx_parity_core::tensor::{Dtype, Tensor, cast};
use mlx_parity_core::text::error_chain;

/// Until where the port goes on.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mode {
    /// To a breakpoint.
    Continue,
    /// To the next declared checkpoint of the run's level.
    Next,
    /// To the next tap.
    Into,
    /// To the first declared checkpoint outside these scopes.
    Out(Vec<String>),
    /// To a tap with this name.
    Until(TapPattern),
}

/// A stepped port.
pub(super) struct Stepper {
    pub(super) observer: Observer,
    pub(super) spec: Rc<Spec>,
    /// The level of the run; deeper checkpoints are compared, but `next` passes them.
    level: u8,
    pub(super) folder: Folder,
    pub(super) known: Rc<SessionTensors>,
    sources: SourceLines,
    pub(super) channel: Channel,
    pub(super) breakpoints: Breakpoints,
    mode: Mode,
    /// Changes that were asked for at taps that the port has not reached.
    pub(super) changes: BTreeMap<String, GoesOn>,
    clock: Clock,
    pub(super) taps: u64,
    stops: u64,
    failed: u64,
    /// The first failing checkpoint after which the port went on with its own tensor.
    pub(super) first_red: Option<String>,
    altered: bool,
    /// The command that the next stop answers.
    asked: u64,
}

/// The driver, which shares the stepper with [`step`].
struct Shared(Rc<RefCell<Stepper>>);

impl Driver for Shared {
    fn tap(
        &mut self,
        name: &str,
        array: Array,
        place: &'static Location<'static>,
    ) -> Result<Array, Exception> {
        let mut stepper = self.0.borrow_mut();
        let returned = stepper.observer.tap(name, array, place)?;
        let Some(hit) = stepper.observer.take_hit() else { return Ok(returned) };
        let clock = stepper.clock.clone();
        clock.pause(|| stepper.at_tap(hit, returned))
    }
}

/// Runs the port under the commands of the session, to its end.
pub(in super::super) fn step(
    job: &Job,
    spec: &Rc<Spec>,
    fixtures: Option<&Rc<FixtureSet>>,
    level: u8,
    clock: &Clock,
    observer: Observer,
    port: impl Fn() -> PortResult,
) -> Result<(), String> {
    let task = job.debug.as_ref().ok_or("the job is no debug session")?;
    let channel = Channel::connect(&task.socket, Duration::from_secs(task.idle_seconds))?;
    let log = observer.log();
    // The front sends the breakpoints first, so that no answer of this worker can forget them.
    let breakpoints = match channel.receive() {
        Some(ToWorker::Restore { breakpoints }) => breakpoints,
        _ => return Err("the debug session sent no breakpoints".to_owned()),
    };
    let stepper = Stepper {
        observer,
        spec: Rc::clone(spec),
        level,
        folder: job.folder.clone(),
        known: Rc::new(SessionTensors::new(Rc::clone(spec), fixtures.cloned(), job.folder.clone())),
        sources: SourceLines::new(job.spec_root.clone(), fixtures.cloned()),
        channel,
        breakpoints,
        mode: Mode::Continue,
        changes: BTreeMap::new(),
        clock: clock.clone(),
        taps: 0,
        stops: 0,
        failed: 0,
        first_red: None,
        altered: false,
        asked: 0,
    };
    let stepper = Rc::new(RefCell::new(stepper));
    stepper.borrow_mut().stand(StopReason::Start, None, None);
    clock.restart();
    let driver = Box::new(Shared(Rc::clone(&stepper)));
    let outcome = catch_unwind(AssertUnwindSafe(|| drive(driver, &port).0));
    let error = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(log.borrow().with_tap_error(mlx_message(&error_chain(&*error)))),
        Err(panic) => Some(log.borrow().with_tap_error(panic_text(&*panic))),
    };
    write_end(&log, error.clone())?;
    let why = match error {
        None => StopReason::Returned,
        Some(error) => StopReason::Failed { error },
    };
    let mut stepper = stepper.borrow_mut();
    stepper.stand(why, None, None);
    stepper.channel.send(&FromWorker::Bye { how: EndKind::Finished });
    Ok(())
}

fn write_end(log: &Rc<RefCell<Log>>, error: Option<String>) -> Result<(), String> {
    let end = End { error, ..End::default() };
    log.borrow_mut().write(&Line::End(Box::new(end))).map_err(|error| error_chain(&error))
}

impl Stepper {
    /// What happens at a tap that was observed. `returned` is the array with which a usual run would go on.
    fn at_tap(&mut self, hit: Hit, returned: Array) -> Result<Array, Exception> {
        self.taps += 1;
        let name = hit_name(&hit.name, hit.hit).into_owned();
        let status = hit.record.as_ref().map(|record| record.verdict.status);
        self.failed += u64::from(status == Some(Status::Fail));
        self.channel.send(&FromWorker::Progress {
            taps: self.taps,
            failed: self.failed,
            last: name.clone(),
            place: place(hit.place),
        });
        let info = hit.record.as_ref().and_then(|record| record.actual.clone());
        let info = info.unwrap_or_else(|| info_of(&returned));
        let goes_on = if hit.injected { GoesOn::Golden } else { GoesOn::Actual };
        let mut here =
            Here { hit, info, actual: None, golden: None, problem: None, array: returned, goes_on };
        here.actual = here.hit.actual.take();
        let change = self.changes.remove(&name);
        let mut note = None;
        if let Some(change) = change {
            here.read(&self.known);
            if let Err(problem) = self.change(&mut here, change) {
                note = Some(problem);
            }
        }
        self.see(&here, &name);
        let (why, remark) = self.reason(&mut here, note.is_some());
        if let Some(why) = why {
            here.read(&self.known);
            self.keep_unchecked(&here, &name);
            here = self.stand(why, Some(here), note.or(remark)).ok_or_else(|| Exception::custom("no tap"))?;
        }
        self.altered |= here.goes_on != GoesOn::Actual;
        if status == Some(Status::Fail) && here.goes_on == GoesOn::Actual {
            self.first_red.get_or_insert(name);
        }
        Ok(here.array)
    }

    /// Why the port stands at this tap, if it does, and a remark.
    fn reason(&mut self, here: &mut Here, failed_change: bool) -> (Option<StopReason>, Option<String>) {
        let Hit { name, hit, .. } = &here.hit;
        let (name, hit, record) = (name.clone(), *hit, here.hit.record.clone());
        let (known, actual) = (Rc::clone(&self.known), here.actual.clone());
        let full = hit_name(&name, hit).into_owned();
        let tensors = || -> Box<dyn mlx_parity_core::calculate::Tensors> {
            let golden = known.golden(&full).ok();
            Box::new(StopTensors { known: Rc::clone(&known), actual: actual.clone(), golden })
        };
        let met = met(&mut self.breakpoints, &name, hit, record.as_deref(), tensors);
        let checkpoint = self.spec.checkpoint(&name);
        let is_declared = checkpoint.is_some_and(|checkpoint| checkpoint.level <= self.level);
        let steps = match &self.mode {
            Mode::Continue => false,
            Mode::Next => is_declared,
            Mode::Into => true,
            Mode::Out(scopes) => is_declared && !open_scopes().starts_with(scopes),
            Mode::Until(pattern) => pattern.matches(&name).is_some() || pattern.matches(&full).is_some(),
        };
        let why = match () {
            () if failed_change => Some(StopReason::Change),
            () if !met.numbers.is_empty() => Some(StopReason::Breakpoint { numbers: met.numbers }),
            () if steps => Some(StopReason::Step),
            () if self.channel.takes_pause() => Some(StopReason::Pause),
            () => None,
        };
        (why, met.note)
    }

    /// Adds the tap to the names of the session.
    fn see(&self, here: &Here, name: &str) {
        let record = here.hit.record.as_ref();
        let kept = self.folder.actual(&here.hit.name, here.hit.hit).is_file();
        let not_kept = match record {
            _ if kept => None,
            Some(record) => {
                Some(record.not_kept.clone().unwrap_or_else(|| "its tensor was not kept".to_owned()))
            }
            None => Some(
                "the spec does not check this tap, so its tensor is kept only where the port stands"
                    .to_owned(),
            ),
        };
        let variable = Variable {
            name: name.to_owned(),
            kind: VariableKind::Tap,
            tensor: here.info.clone(),
            stats: record.and_then(|record| Some(record.metrics.as_ref()?.actual.clone())),
            status: record.map(|record| record.verdict.status),
        };
        self.known.see(SeenTap { name: here.hit.name.clone(), hit: here.hit.hit, variable, not_kept });
    }

    /// Keeps the tensor of an unchecked tap at which the port stands.
    fn keep_unchecked(&mut self, here: &Here, name: &str) {
        if here.hit.record.is_none()
            && let Some(actual) = &here.actual
            && self.observer.keep_actual(&here.hit.name, here.hit.hit, actual)
        {
            self.known.kept(name);
        }
    }

    /// Replaces the array with which the port goes on.
    pub(super) fn change(&self, here: &mut Here, with: GoesOn) -> Result<(), String> {
        let tensor = match &with {
            GoesOn::Actual => return Err("the port already goes on with its own tensor".to_owned()),
            GoesOn::Golden => here.golden.clone().ok_or("this tap has no golden")?,
            GoesOn::Set { expression } => self.value(here, expression)?,
        };
        let (found, wanted) = (tensor.shape(), here.info.shape.as_slice());
        if matches!(with, GoesOn::Set { .. }) && found != wanted {
            return Err(format!("the value has shape {found:?}, expected {wanted:?}, the shape of the tap"));
        }
        let array = from_host(&tensor.view()).map_err(|error| error.to_string())?;
        let array = with_gradient(array, &here.array).map_err(|error| mlx_message(error.what()))?;
        (here.array, here.goes_on) = (array, with);
        Ok(())
    }

    /// The value of an expression, in the dtype of the tap.
    fn value(&self, here: &Here, expression: &str) -> Result<Tensor, String> {
        let tensors = self.tensors(Some(here));
        let mut calculator = Calculator::new(&tensors, Limits::default());
        learn(&mut calculator, numbers(&here.hit.name, here.hit.hit, here.hit.record.as_deref()));
        let answers = calculator.run(expression).map_err(|error| error.to_string())?;
        let value = &answers.last().ok_or("the expression has no value")?.value;
        if value.is_complex() {
            return Err("the value is complex, expected real numbers".to_owned());
        }
        let bytes = value.values().iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = Tensor::from_vec(Dtype::Float64, value.shape().to_vec(), bytes);
        let tensor = tensor.map_err(|error| error.to_string())?;
        cast(&tensor.view(), here.info.dtype).map_err(|error| error.to_string())
    }

    /// The tensors that expressions can name here.
    pub(super) fn tensors(&self, here: Option<&Here>) -> StopTensors {
        StopTensors {
            known: Rc::clone(&self.known),
            actual: here.and_then(|here| here.actual.clone()),
            golden: here.and_then(|here| here.golden.clone()),
        }
    }

    /// Stands until a command lets the port go on. The file [`PAUSED`] exists meanwhile, so that no time counts.
    fn stand(&mut self, why: StopReason, here: Option<Here>, note: Option<String>) -> Option<Here> {
        let mut here = here;
        let paused = self.folder.file(PAUSED);
        // Without the file, the timeout of the spec goes on: the worst that can happen is an early end.
        let _ = std::fs::write(&paused, "");
        let stop = self.stop(&why, here.as_ref(), note);
        self.stops += 1;
        self.answer(self.asked, DebugAnswer::Stopped(Box::new(stop.clone())));
        // A pause that was asked for meanwhile has happened.
        self.channel.takes_pause();
        let tensors = self.tensors(here.as_ref());
        let mut calculator = Calculator::new(&tensors, Limits::default());
        if let Some(Here { hit, .. }) = &here {
            learn(&mut calculator, numbers(&hit.name, hit.hit, hit.record.as_deref()));
            if let StopReason::Breakpoint { numbers } = &why {
                learn(&mut calculator, axes(&self.breakpoints, numbers, &hit.name));
            }
        }
        loop {
            let (number, command) = match self.channel.receive() {
                Some(ToWorker::Perform { number, command }) => (number, command),
                Some(ToWorker::Restore { .. } | ToWorker::Pause) => continue,
                None => {
                    self.channel.send(&FromWorker::Bye { how: EndKind::Idle });
                    end_process();
                }
            };
            if let Some(mode) = self.mode_of(&command) {
                match mode {
                    Ok(mode) => {
                        (self.mode, self.asked) = (mode, number);
                        break;
                    }
                    Err(message) => self.answer(number, DebugAnswer::error(message)),
                }
                continue;
            }
            let answer = self.perform(&command, &stop, here.as_mut(), &mut calculator);
            self.answer(number, answer);
        }
        let _ = std::fs::remove_file(paused);
        here
    }

    fn answer(&self, number: u64, answer: DebugAnswer) {
        let (answer, breakpoints) = (Box::new(answer), self.breakpoints.clone());
        self.channel.send(&FromWorker::Answer { number, answer, breakpoints });
    }

    /// Describes where the port stands.
    pub(super) fn stop(&self, why: &StopReason, here: Option<&Here>, note: Option<String>) -> Stop {
        let place = here.map(|here| place(here.hit.place));
        let reference_place = here.and_then(|here| here.hit.made.clone());
        Stop {
            stop: self.stops,
            why: why.clone(),
            tap: here.map(Here::tapped),
            scopes: if here.is_some() { open_scopes() } else { Vec::new() },
            taps: self.taps,
            source: place.as_ref().and_then(|place| self.sources.of_port(place)),
            reference: reference_place.as_ref().and_then(|place| self.sources.of_reference(place)),
            place,
            reference_place,
            goes_on: here.map(|here| here.goes_on.clone()).unwrap_or_default(),
            altered: self.altered || here.is_some_and(|here| here.goes_on != GoesOn::Actual),
            note: note.or_else(|| here.and_then(|here| here.problem.clone())),
        }
    }
}
