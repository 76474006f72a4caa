//! The driver of a normal run. At each tap it evaluates, copies, compares and records before the port continues.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::panic::Location;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use mlx_parity_tap::Driver;
use mlx_rs::{Array, error::Exception};

use super::actuals::{Actuals, Room};
use super::array::{info_of, mlx_message, to_host};
use super::by_eye::ApprovedByEye;
use super::checked::Checked;
use super::clock::Clock;
use super::gradient::with_gradient;
use super::hits::Hits;
use super::peek::Peeks;
use super::picture::Picture;
use super::plant_fault::TapFaults;
use super::read_ahead::ReadAhead;
use super::run_log::Log;
use super::source_files::source_files;
use super::tap_check::TapCheck;
use super::usage::Usage;
use mlx_parity_core::compare::Comparison;
use mlx_parity_core::details::{Details, Sources};
use mlx_parity_core::diagnose::Diagnosis;
use mlx_parity_core::gate::Class;
use mlx_parity_core::golden::FixtureSet;
use mlx_parity_core::record::{self, Record, Status};
use mlx_parity_core::run_folder::Job;
use mlx_parity_core::run_folder::{Folder, FolderError, Line, TAP_LINE};
use mlx_parity_core::spec::{Checkpoint, Spec, hit_name};
use mlx_parity_core::tensor::Tensor;
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::printable::clean;

/// Number of failures whose lines of source are kept.
const MOST_DETAILED: usize = 100;

/// The driver of one run.
pub(super) struct Observer {
    spec: Rc<Spec>,
    check: TapCheck,
    by_eye: ApprovedByEye,
    faults: TapFaults,
    actuals: Actuals,
    folder: Folder,
    /// The source files of the port and of the reference; unset until the first failure.
    sources: Option<Sources>,
    /// Number of failures with details.
    detailed: usize,
    fixtures: Option<Rc<FixtureSet>>,
    spec_root: PathBuf,
    log: Rc<RefCell<Log>>,
    /// Number of hits per tap.
    hits: Hits,
    /// Number of checkpoints recorded so far.
    sequence: u64,
    /// Whether a golden was injected at an earlier tap.
    injected: bool,
    /// The highest golden sequence number so far and its tap; `None` once a tap was out of order.
    latest: Option<(u64, String)>,
    /// The port's time since the last tap.
    clock: Clock,
    /// Whether the actuals of green checkpoints are kept, too.
    keeps_all: bool,
    /// Checkpoints whose actuals are kept for twins.
    keeps: BTreeSet<String>,
    /// Describes the tensors that `PARITY_PEEK` names.
    peeks: Option<Peeks>,
    /// Number of hits to reach per checkpoint before the port can stop; `None` if it must run to its end.
    wanted: Option<HashMap<String, u64>>,
    /// Whether a debug session takes every hit.
    keeps_hits: bool,
    /// The latest hit, until it is taken.
    latest_hit: Option<Hit>,
    /// `None` if no golden is large, or all were read before.
    read_ahead: Option<ReadAhead>,
}

/// One hit of a tap, for a debug session that may stand at it.
pub(super) struct Hit {
    /// The tap's full name.
    pub(super) name: String,
    /// The number of the hit, from 0.
    pub(super) hit: u64,
    /// The record of a checkpoint; `None` for a tap that is not checked.
    pub(super) record: Option<Arc<Record>>,
    /// The actual, if it was evaluated.
    pub(super) actual: Option<Tensor>,
    /// The call of `tap`.
    pub(super) place: &'static Location<'static>,
    /// The place in the reference's source that made the golden.
    pub(super) made: Option<String>,
    /// Whether the port continues with the golden, as the spec declares.
    pub(super) injected: bool,
}

impl Observer {
    pub(super) fn start(
        job: &Job,
        spec: Rc<Spec>,
        fixtures: Option<Rc<FixtureSet>>,
        clock: Clock,
        faults: TapFaults,
        room: Room,
    ) -> Result<Self, FolderError> {
        let log = Log::create(&job.folder)?;
        Usage::next_stage();
        let wanted = job.until.as_ref().map(|names| {
            names.iter().filter_map(|name| Some((name.clone(), spec.checkpoint(name)?.hits.into()))).collect()
        });
        Ok(Self {
            read_ahead: ReadAhead::start(&spec, fixtures.as_ref(), job.level),
            check: TapCheck::new(Rc::clone(&spec), fixtures.clone(), job),
            by_eye: ApprovedByEye::of(job),
            spec,
            faults,
            actuals: Actuals::new(job.folder.clone(), room),
            folder: job.folder.clone(),
            sources: None,
            detailed: 0,
            fixtures,
            spec_root: job.spec_root.clone(),
            log: Rc::new(RefCell::new(log)),
            hits: Hits::default(),
            sequence: 0,
            injected: false,
            latest: Some((0, String::new())),
            clock,
            keeps_all: job.keep_all,
            keeps: job.keep.iter().cloned().collect(),
            peeks: Peeks::start(job),
            wanted,
            keeps_hits: job.debug.is_some(),
            latest_hit: None,
        })
    }

    /// Takes the latest hit, which only a debug session has.
    pub(super) fn take_hit(&mut self) -> Option<Hit> {
        self.latest_hit.take()
    }

    /// Writes the tensor of a tap that is not checked, if there is room. Returns whether it was written.
    pub(super) fn keep_actual(&self, name: &str, hit: u64, actual: &Tensor) -> bool {
        self.actuals.keep_tensor(name, hit, actual)
    }

    /// Returns the causes of a failing hit. `passed` are the goldens that the port's own tensors agree with.
    pub(super) fn diagnose(
        &mut self,
        name: &str,
        hit: u64,
        actual: &Tensor,
        passed: Vec<String>,
    ) -> Result<Diagnosis, String> {
        let spec = Rc::clone(&self.spec);
        let checkpoint = spec.checkpoint(name).ok_or("the spec does not declare this tap")?;
        self.check.diagnose_now(checkpoint, hit, actual, passed)
    }

    /// Sets the folder of the free run that this run repeats. An actual that is equal in both runs is stored once.
    pub(super) fn after(self, earlier: &Folder) -> Self {
        Self { actuals: self.actuals.after(earlier), read_ahead: None, ..self }
    }

    /// Returns the log, which outlives the observer.
    pub(super) fn log(&self) -> Rc<RefCell<Log>> {
        Rc::clone(&self.log)
    }

    fn observe(
        &mut self,
        name: &str,
        array: Array,
        place: &'static Location<'static>,
    ) -> Result<Array, Exception> {
        let array = self.faults.apply(name, array)?;
        let hit = self.hits.next(name);
        print_tap(&hit_name(name, hit));
        let Some(index) = self.check.index(name) else {
            self.log.borrow_mut().note_undeclared(name).map_err(folder_error)?;
            self.peek(name, hit, &array, None, place);
            if self.keeps_hits {
                let name = name.to_owned();
                let (record, actual, made) = (None, None, None);
                self.latest_hit = Some(Hit { name, hit, record, actual, place, made, injected: false });
            }
            return Ok(array);
        };
        let spec = Rc::clone(&self.spec);
        let checkpoint = &spec.checkpoints[index];
        if checkpoint.is_unseen() {
            self.note_unseen(checkpoint, hit, &array, place)?;
            return Ok(array);
        }
        let info = info_of(&array);
        let (mut actual, mut checked) = (None, self.check.check_info(checkpoint, hit, &info));
        let is_wrong = checked.is_some();
        let millis = match &mut checked {
            None => {
                array.eval().map_err(|error| evaluation_error(name, error))?;
                let millis = self.clock.millis();
                let held = to_host(&array);
                actual = Some(held.map_err(|error| Exception::custom(format!("tap `{name}`: {error}")))?);
                millis
            }
            // Only an injected run diagnoses a wrong shape. No verdict depends on the diagnosis, so an evaluation error
            // is ignored.
            Some(checked) if fits(&info, checked) && self.check.explains(checkpoint) => {
                actual = to_host(&array).ok();
                let millis = self.clock.millis();
                if let (Some(actual), Some(Class::Shape)) = (&actual, checked.outcome.class) {
                    checked.diagnosis = self.check.explain(checkpoint, hit, actual);
                }
                millis
            }
            Some(_) => self.clock.millis(),
        };
        let memory = self.log.borrow_mut().usage().tap(millis, actual.is_some());
        let is_evaluated_later =
            checked.as_ref().is_some_and(|checked| fits(&info, checked)) && actual.is_none();
        let checked = match (checked, &actual) {
            (Some(checked), _) => checked,
            (None, Some(actual)) => self.check.check_values(checkpoint, hit, actual),
            (None, None) => return Err(Exception::custom(format!("tap `{name}` was not evaluated"))),
        };
        let Checked { outcome, expected, floor, injected, sequence, picture, diagnosis, error, .. } = checked;
        let floor_block = checked.floor_block;
        let made = checked.place;
        // The rows of a cache are recorded and kept in the golden's order, so that whoever reads both finds pairs.
        let (matched, slots) = checked.matched.unzip();
        let info = matched.as_ref().map_or(info, |matched| (&matched.view()).into());
        let actual_on_host = if matched.is_some() { None } else { actual.clone() };
        let mut actual = matched.or(actual);
        let no_room = self.actuals.no_room(&info, self.keeps.contains(name));
        let mut record = Record {
            hit,
            sequence: self.sequence,
            expected,
            actual: Some(info),
            floor,
            floor_block,
            location: Some(record::Location { file: place.file().to_owned(), line: place.line() }),
            millis,
            memory,
            image: picture.as_ref().map(Picture::measure),
            slots,
            causes: diagnosis.causes,
            facts: diagnosis.facts,
            recipe: diagnosis.recipe,
            made_from: diagnosis.made_from,
            injected: self.injected || injected.is_some(),
            ..Record::of_checkpoint(&spec, checkpoint, outcome)
        };
        self.by_eye.judge(&mut record);
        self.sequence += 1;
        self.injected = record.injected;
        let is_red = record.verdict.status == Status::Fail;
        self.log.borrow_mut().note_hit(&record);
        let is_wanted = is_red || self.keeps_all || self.keeps.contains(name);
        let is_kept = is_wanted && (actual.is_some() || is_evaluated_later);
        record.not_kept = no_room.filter(|_| is_kept);
        let record = Arc::new(record);
        if let Some(actual) = actual.as_ref().filter(|_| is_wanted) {
            self.actuals.keep(&record, actual);
        }
        if is_red {
            self.keep_details(&record, Details { error, ..Details::default() }, made.as_deref());
        }
        if let Some(picture) = picture {
            self.actuals.draw(&picture, name, hit);
        }
        self.write(&Line::Checkpoint(Arc::clone(&record)))?;
        // The verdict is already written, so it survives if this evaluation ends the process.
        if is_evaluated_later {
            actual = to_host(&array).ok();
            if let Some(actual) = actual.as_ref().filter(|_| is_red) {
                self.actuals.keep(&record, actual);
            }
        }
        if is_wrong {
            self.check.keep(checkpoint, hit, actual.as_ref());
        }
        self.peek(name, hit, &array, actual_on_host.as_ref(), place);
        self.note_order(name, sequence)?;
        if let (Some(read_ahead), Some(sequence)) = (&mut self.read_ahead, sequence) {
            read_ahead.passed(sequence);
        }
        self.stop_if_done(name, hit + 1)?;
        if self.keeps_hits {
            let (name, record, injected) = (name.to_owned(), Some(record), injected.is_some());
            self.latest_hit = Some(Hit { name, hit, record, actual, place, made, injected });
        }
        // The time of the check is not the port's, and neither is its memory.
        Usage::next_stage();
        self.clock.restart();
        match injected {
            None => Ok(array),
            Some(golden) => golden
                .and_then(|golden| Ok(with_gradient(golden, &array)?))
                .map_err(|error| Exception::custom(format!("cannot inject the golden of `{name}`: {error}"))),
        }
    }

    /// Records a tap that the spec declares as unseen. It must be inside compiled code, or something else runs than the
    /// spec says.
    fn note_unseen(
        &mut self,
        checkpoint: &Checkpoint,
        hit: u64,
        array: &Array,
        place: &'static Location<'static>,
    ) -> Result<(), Exception> {
        let (class, detail) = match array.eval() {
            Err(error) if is_inside_transform(&error) => {
                (None, "inside compiled code, where no tensor can be evaluated")
            }
            Err(error) => return Err(evaluation_error(&checkpoint.name, error)),
            Ok(()) => (
                Some(Class::Spec),
                "the spec declares it as unseen, but its tensor can be evaluated: the tap is not inside compiled code; \
                 compile it, or compare it",
            ),
        };
        let outcome = Comparison { class, detail: detail.to_owned(), metrics: None };
        let record = Record {
            hit,
            sequence: self.sequence,
            actual: Some(info_of(array)),
            location: Some(record::Location { file: place.file().to_owned(), line: place.line() }),
            injected: self.injected,
            ..Record::of_checkpoint(&self.spec, checkpoint, outcome)
        };
        self.sequence += 1;
        self.write(&Line::Checkpoint(Arc::new(record)))?;
        self.stop_if_done(&checkpoint.name, hit + 1)
    }

    /// Describes the tensor if `PARITY_PEEK` names its tap.
    fn peek(
        &mut self,
        name: &str,
        hit: u64,
        array: &Array,
        host: Option<&Tensor>,
        place: &'static Location<'static>,
    ) {
        if let Some(peeks) = self.peeks.as_mut().filter(|peeks| peeks.wants(name)) {
            self.clock.pause(|| peeks.look(name, hit, array, host, place));
        }
    }

    /// Writes the details of a failed checkpoint with the lines around its tap, and around the line of the reference that
    /// its first cause is about or that made its golden.
    fn keep_details(&mut self, record: &Record, mut details: Details, made: Option<&str>) {
        if self.detailed >= MOST_DETAILED {
            return;
        }
        self.detailed += 1;
        let sources =
            self.sources.get_or_insert_with(|| source_files(&self.spec_root, self.fixtures.as_deref()));
        details.port = record.location.as_ref().and_then(|place| sources.excerpt(&place.file, place.line));
        let cause = record.causes.iter().find_map(|cause| cause.place.as_deref());
        details.reference = cause.or(made).and_then(|place| sources.excerpt_at(place));
        if let Err(error) = self.folder.write_details(&record.checkpoint, record.hit, &details) {
            eprintln!("cannot write the details of `{}`: {}", record.checkpoint, error_chain(&error));
        }
    }

    /// Logs the first tap that the reference reaches earlier than the port does.
    fn note_order(&mut self, name: &str, sequence: Option<u64>) -> Result<(), Exception> {
        let (Some(sequence), Some((latest, after))) = (sequence, &mut self.latest) else { return Ok(()) };
        if sequence >= *latest {
            (*latest, *after) = (sequence, name.to_owned());
            return Ok(());
        }
        let line = Line::OutOfOrder { name: name.to_owned(), after: std::mem::take(after) };
        self.latest = None;
        self.write(&line)
    }

    fn write(&self, line: &Line) -> Result<(), Exception> {
        self.log.borrow_mut().write(line).map_err(folder_error)
    }

    /// Returns an error, which ends the forward pass, once every selected checkpoint was reached.
    fn stop_if_done(&mut self, name: &str, reached: u64) -> Result<(), Exception> {
        let Some(wanted) = &mut self.wanted else { return Ok(()) };
        if wanted.get(name).is_some_and(|&hits| reached >= hits) {
            wanted.remove(name);
        }
        if !wanted.is_empty() {
            return Ok(());
        }
        self.log.borrow_mut().note_stop();
        Err(Exception::custom("stopped: no later checkpoint is selected"))
    }
}

impl Driver for Observer {
    fn tap(
        &mut self,
        name: &str,
        array: Array,
        place: &'static Location<'static>,
    ) -> Result<Array, Exception> {
        let observed = self.observe(name, array, place);
        self.log.borrow_mut().note_returned(&observed);
        observed
    }
}

fn folder_error(error: FolderError) -> Exception {
    Exception::custom(error_chain(&error))
}

/// Returns whether an array with a wrong shape or dtype is small enough to evaluate: no larger than its golden or
/// 64 MiB, whichever is larger.
fn fits(info: &record::TensorInfo, checked: &Checked) -> bool {
    const ALWAYS_FITS: u128 = 64 << 20;
    let bytes = |info: &record::TensorInfo| {
        let elements = info.shape.iter().fold(1u128, |count, &length| count.saturating_mul(length as u128));
        elements.saturating_mul(info.dtype.size() as u128)
    };
    bytes(info) <= checked.expected.as_ref().map_or(0, bytes).max(ALWAYS_FITS)
}

/// Writes the name of the hit to the worker's output, so that what the port prints is tied to its taps.
fn print_tap(name: &str) {
    let mut out = std::io::stdout().lock();
    // What the port has printed so far comes first.
    let _ = out.flush().and_then(|()| writeln!(out, "{TAP_LINE}{}", clean(name))).and_then(|()| out.flush());
}

/// Returns whether an array could not be evaluated because a function is being traced.
fn is_inside_transform(error: &Exception) -> bool {
    error.what().contains("during function transformations")
}

/// Returns an evaluation error with the name of the tap. If the tap is inside a compiled function, the error also
/// advises what to do, which the message from MLX does not.
fn evaluation_error(name: &str, error: Exception) -> Exception {
    let text = mlx_message(error.what());
    if is_inside_transform(&error) {
        return Exception::custom(format!(
            "tap `{name}` is inside a function that is compiled, where MLX cannot evaluate an array: call the function without \
             `compile` in the parity run, or declare the tap as `unseen` in a twin"
        ));
    }
    Exception::custom(format!("tap `{name}` could not be evaluated: {text}"))
}
