//! The driver of a normal run. At each tap it evaluates, copies, compares and records before the port continues.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::panic::Location;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use mlx_parity_tap::Driver;
use mlx_rs::{Array, error::Exception, memory};

use super::array::{info_of, to_host};
use super::clock::Clock;
use super::picture::Picture;
use super::plant_fault::TapFaults;
use super::tap_check::{Checked, TapCheck};
use mlx_parity_core::gate::Class;
use mlx_parity_core::golden::FixtureSet;
use mlx_parity_core::record::{self, Record, Status};
use mlx_parity_core::run_folder::Job;
use mlx_parity_core::run_folder::{Folder, FolderError, Line, Writer};
use mlx_parity_core::spec::{Spec, hit_name};
use mlx_parity_core::tensor::{Tensor, TensorFile, write_npy};
use mlx_parity_core::text::error_chain;

/// Number of actuals that the injected run writes if they differ from the free run's. The first failures matter most.
const MOST_KEPT_AGAIN: usize = 3;

/// The driver of one run.
pub(super) struct Observer {
    spec: Rc<Spec>,
    check: TapCheck,
    faults: TapFaults,
    folder: Folder,
    /// The folder of the free run that this injected run repeats.
    earlier: Option<Folder>,
    /// Number of failures whose actual differs from the free run's.
    kept_again: usize,
    log: Rc<RefCell<Log>>,
    /// Number of hits per tap.
    hits: HashMap<String, u64>,
    /// Number of checkpoints recorded so far.
    sequence: u64,
    /// Whether a golden was injected at an earlier tap.
    injected: bool,
    /// The highest golden sequence number so far and its tap; `None` once a tap was out of order.
    latest: Option<(u64, String)>,
    /// The port's time since the last tap.
    clock: Clock,
    /// Number of hits to reach per checkpoint before the port can stop; `None` if it must run to its end.
    wanted: Option<HashMap<String, u64>>,
}

/// The log of a run, and the state that the worker needs after the port has returned.
pub(super) struct Log {
    writer: Writer,
    /// Taps that the spec does not declare.
    undeclared: BTreeSet<String>,
    stopped: bool,
    red: bool,
    /// The last error that a tap returned.
    tap_error: Option<String>,
}

impl Log {
    pub(super) fn write(&mut self, line: &Line) -> Result<(), FolderError> {
        self.writer.write(line)
    }

    /// Returns whether the observer stopped the port after the last selected checkpoint.
    pub(super) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Returns a port's error with the tap's error in front. MLX loses the tap's message inside a function that is
    /// compiled or differentiated.
    pub(super) fn with_tap_error(&self, error: String) -> String {
        match &self.tap_error {
            Some(cause) if !error.contains(cause.as_str()) => format!("{cause} ({error})"),
            _ => error,
        }
    }

    /// Returns whether a checkpoint with an expected tensor failed.
    pub(super) fn is_red(&self) -> bool {
        self.red
    }
}

impl Observer {
    pub(super) fn start(
        job: &Job,
        spec: Rc<Spec>,
        fixtures: Option<Rc<FixtureSet>>,
        clock: Clock,
        faults: TapFaults,
    ) -> Result<Self, FolderError> {
        let writer = Writer::create(&job.folder)?;
        let log = Log { writer, undeclared: BTreeSet::new(), stopped: false, red: false, tap_error: None };
        let wanted = job.until.as_ref().map(|names| {
            names.iter().filter_map(|name| Some((name.clone(), spec.checkpoint(name)?.hits.into()))).collect()
        });
        Ok(Self {
            check: TapCheck::new(Rc::clone(&spec), fixtures, job),
            spec,
            faults,
            folder: job.folder.clone(),
            earlier: None,
            kept_again: 0,
            log: Rc::new(RefCell::new(log)),
            hits: HashMap::new(),
            sequence: 0,
            injected: false,
            latest: Some((0, String::new())),
            clock,
            wanted,
        })
    }

    /// Sets the folder of the free run that this run repeats. An actual that is equal in both runs is stored once.
    pub(super) fn after(self, earlier: &Folder) -> Self {
        Self { earlier: Some(earlier.clone()), ..self }
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
        let count = self.hits.entry(name.to_owned()).or_insert(0);
        let hit = *count;
        *count += 1;
        let Some(index) = self.check.index(name) else {
            self.note_undeclared(name)?;
            return Ok(array);
        };
        let spec = Rc::clone(&self.spec);
        let checkpoint = &spec.checkpoints[index];
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
        let is_evaluated_later =
            checked.as_ref().is_some_and(|checked| fits(&info, checked)) && actual.is_none();
        let Checked { outcome, expected, floor, injected, sequence, picture, diagnosis } =
            match (checked, &actual) {
                (Some(checked), _) => checked,
                (None, Some(actual)) => self.check.check_values(checkpoint, hit, actual),
                (None, None) => return Err(Exception::custom(format!("tap `{name}` was not evaluated"))),
            };
        let record = Record {
            hit,
            sequence: self.sequence,
            expected,
            actual: Some(info),
            floor,
            location: Some(record::Location { file: place.file().to_owned(), line: place.line() }),
            millis,
            memory: memory_now(),
            image: picture.as_ref().map(Picture::measure),
            causes: diagnosis.causes,
            facts: diagnosis.facts,
            recipe: diagnosis.recipe,
            injected: self.injected || injected.is_some(),
            ..Record::of_checkpoint(&spec, checkpoint, outcome)
        };
        self.sequence += 1;
        self.injected = record.injected;
        let is_red = record.verdict.status == Status::Fail;
        self.log.borrow_mut().red |= is_red && record.expected.is_some();
        let record = Arc::new(record);
        if let Some(actual) = actual.as_ref().filter(|_| is_red) {
            self.keep(&record, actual);
        }
        if let Some(picture) = picture
            && let Err(error) = picture.write(&self.folder.file("images"), &hit_name(name, hit))
        {
            eprintln!("cannot write the images of `{name}`: {error}");
        }
        self.write(&Line::Checkpoint(Arc::clone(&record)))?;
        // The verdict is already written, so it survives if this evaluation ends the process.
        if is_evaluated_later {
            actual = to_host(&array).ok();
            if let Some(actual) = actual.as_ref().filter(|_| is_red) {
                self.keep(&record, actual);
            }
        }
        if is_wrong {
            self.check.keep(checkpoint, hit, actual.as_ref());
        }
        self.note_order(name, sequence)?;
        self.stop_if_done(name, hit + 1)?;
        // The time of the check is not the port's.
        self.clock.restart();
        match injected {
            None => Ok(array),
            Some(golden) => golden
                .map_err(|error| Exception::custom(format!("cannot inject the golden of `{name}`: {error}"))),
        }
    }

    /// Writes the actual of a failed checkpoint to the run folder.
    fn keep(&mut self, record: &Record, actual: &Tensor) {
        let path = self.folder.actual(&record.checkpoint, record.hit);
        let earlier = self.earlier.as_ref().map(|folder| folder.actual(&record.checkpoint, record.hit));
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|error| error.to_string());
        // If the free run wrote the same tensor, both runs share one file.
        if let Some(earlier) = earlier.filter(|earlier| made.is_ok() && holds(earlier, actual))
            && std::fs::hard_link(earlier, &path).is_ok()
        {
            return;
        }
        if self.earlier.is_some() {
            self.kept_again += 1;
            if self.kept_again > MOST_KEPT_AGAIN {
                return;
            }
        }
        let kept = made.and_then(|()| write_npy(&path, &actual.view()).map_err(|error| error_chain(&error)));
        if let Err(problem) = kept {
            eprintln!("cannot write the actual of `{}`: {problem}", record.checkpoint);
        }
    }

    fn note_undeclared(&self, name: &str) -> Result<(), Exception> {
        let is_new = self.log.borrow_mut().undeclared.insert(name.to_owned());
        if is_new { self.write(&Line::Undeclared { name: name.to_owned() }) } else { Ok(()) }
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
        self.log.borrow_mut().write(line).map_err(|error| Exception::custom(error_chain(&error)))
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
        self.log.borrow_mut().stopped = true;
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
        let mut log = self.log.borrow_mut();
        if !log.stopped {
            log.tap_error = observed.as_ref().err().map(|error| super::array::mlx_message(error.what()));
        }
        observed
    }
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

/// Returns whether the file at `path` holds exactly this tensor.
fn holds(path: &Path, tensor: &Tensor) -> bool {
    let kept = TensorFile::open(path).and_then(|file| file.get(file.names().next().unwrap_or_default()));
    kept.is_ok_and(|kept| {
        let (kept, tensor) = (kept.view(), tensor.view());
        let same_info = kept.dtype() == tensor.dtype() && kept.shape() == tensor.shape();
        same_info && kept.row_major_bytes().is_some() && kept.row_major_bytes() == tensor.row_major_bytes()
    })
}

fn memory_now() -> Option<record::Memory> {
    let (active, peak) = (memory::active_memory().ok()?, memory::peak_memory().ok()?);
    Some(record::Memory { active_bytes: active as u64, peak_bytes: peak as u64 })
}

/// Returns an evaluation error with the name of the tap. If the tap is inside a transformed function, the error also
/// advises what to do, which the message from MLX does not.
fn evaluation_error(name: &str, error: Exception) -> Exception {
    let text = super::array::mlx_message(error.what());
    if text.contains("during function transformations") {
        return Exception::custom(format!(
            "tap `{name}` is inside a function that is compiled or differentiated, where MLX cannot evaluate an array: \
             call the function without `compile` in the parity run"
        ));
    }
    Exception::custom(format!("tap `{name}` could not be evaluated: {text}"))
}
