//! What happens at a tap: evaluate, copy, compare, record, and only then let the port go on.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::panic::Location;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use mlx_parity_tap::Driver;
use mlx_rs::{Array, error::Exception, memory};

use super::alter::Alterations;
use super::array::{form_of, to_host};
use super::clock::Clock;
use super::folder::{Folder, FolderError, Line, Writer};
use super::job::Job;
use super::judge::{Judge, Judged};
use super::picture::Picture;
use crate::Class;
use crate::golden::FixtureSet;
use crate::record::{self, Record, SCHEMA, Status, Verdict};
use crate::report::error_chain;
use crate::spec::{Spec, hit_name};
use crate::tensor::{Tensor, TensorFile, write_npy};

/// A run that repeats another keeps so many actuals of its own: the first failures are those that are looked into.
const MOST_KEPT_AGAIN: usize = 3;

/// The driver of one run.
pub(super) struct Observer {
    spec: Rc<Spec>,
    judge: Judge,
    alterations: Alterations,
    folder: Folder,
    /// The folder of the run that this one repeats.
    earlier: Option<Folder>,
    /// How many failures differ from those of that run.
    kept_again: usize,
    log: Rc<RefCell<Log>>,
    /// How often each name was met.
    hits: HashMap<String, u64>,
    sequence: u64,
    /// Whether a golden was handed to the port before.
    injected: bool,
    /// The golden that the reference made last of those met so far; nothing once an earlier one came after it.
    latest: Option<(u64, String)>,
    /// The port's time since the last tap.
    clock: Clock,
    /// Declared names that still have to be met before the port may be stopped; nothing: it runs to its end.
    wanted: Option<HashMap<String, u64>>,
}

/// The lines of a run and what must be known when the port is back.
pub(super) struct Log {
    writer: Writer,
    undeclared: BTreeSet<String>,
    stopped: bool,
    red: bool,
    /// The last error that a tap came back with.
    tap_error: Option<String>,
}

impl Log {
    pub(super) fn write(&mut self, line: &Line) -> Result<(), FolderError> {
        self.writer.write(line)
    }

    /// Whether the port was stopped on purpose.
    pub(super) fn stopped(&self) -> bool {
        self.stopped
    }

    /// A port's error with what the tap said that it comes from: MLX loses the text of an error inside a function that
    /// it compiles or differentiates.
    pub(super) fn with_tap_error(&self, error: String) -> String {
        match &self.tap_error {
            Some(said) if !error.contains(said.as_str()) => format!("{said} ({error})"),
            _ => error,
        }
    }

    /// Whether a checkpoint failed that was compared with a golden.
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
        alterations: Alterations,
    ) -> Result<Self, FolderError> {
        let writer = Writer::create(&job.folder)?;
        let log = Log { writer, undeclared: BTreeSet::new(), stopped: false, red: false, tap_error: None };
        let wanted = job.until.as_ref().map(|names| {
            names.iter().filter_map(|name| Some((name.clone(), spec.checkpoint(name)?.hits.into()))).collect()
        });
        Ok(Self {
            judge: Judge::new(Rc::clone(&spec), fixtures, job),
            spec,
            alterations,
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

    /// Names the folder of the run that this one repeats: an actual that it has kept is not written again.
    pub(super) fn after(self, earlier: &Folder) -> Self {
        Self { earlier: Some(earlier.clone()), ..self }
    }

    /// The log, which outlives the observer.
    pub(super) fn log(&self) -> Rc<RefCell<Log>> {
        Rc::clone(&self.log)
    }

    fn observe(
        &mut self,
        name: &str,
        array: Array,
        place: &'static Location<'static>,
    ) -> Result<Array, Exception> {
        let array = self.alterations.apply(name, array)?;
        let count = self.hits.entry(name.to_owned()).or_insert(0);
        let hit = *count;
        *count += 1;
        let Some(index) = self.judge.index(name) else {
            self.note_undeclared(name)?;
            return Ok(array);
        };
        let spec = Rc::clone(&self.spec);
        let checkpoint = &spec.checkpoints[index];
        let form = form_of(&array);
        let (mut actual, mut judged) = (None, self.judge.judge_form(checkpoint, hit, &form));
        let is_wrong = judged.is_some();
        let millis = match &mut judged {
            None => {
                array.eval().map_err(|error| in_transform(name, error))?;
                let millis = self.clock.millis();
                let held = to_host(&array);
                actual = Some(held.map_err(|error| Exception::custom(format!("tap `{name}`: {error}")))?);
                millis
            }
            // Only a run on golden inputs looks into it, on which no verdict depends.
            Some(judged) if fits(&form, judged) && self.judge.explains(checkpoint) => {
                actual = to_host(&array).ok();
                let millis = self.clock.millis();
                if let (Some(actual), Some(Class::Shape)) = (&actual, judged.outcome.class) {
                    judged.diagnosis = self.judge.explain(checkpoint, hit, actual);
                }
                millis
            }
            Some(_) => self.clock.millis(),
        };
        let is_evaluated_later =
            judged.as_ref().is_some_and(|judged| fits(&form, judged)) && actual.is_none();
        let Judged { outcome, expected, floor, injected, sequence, picture, diagnosis } =
            match (judged, &actual) {
                (Some(judged), _) => judged,
                (None, Some(actual)) => self.judge.judge_values(checkpoint, hit, actual),
                (None, None) => return Err(Exception::custom(format!("tap `{name}` was not evaluated"))),
            };
        let record = Record {
            schema: SCHEMA,
            spec: spec.id.clone(),
            checkpoint: checkpoint.name.clone(),
            hit,
            sequence: self.sequence,
            level: checkpoint.level.into(),
            stage: checkpoint.stage.map(|stage| stage.name().to_owned()),
            verdict: Verdict::of(&outcome, checkpoint.gated),
            expected,
            actual: Some(form),
            gate: checkpoint.gate.clone(),
            floor,
            metrics: outcome.metrics,
            location: Some(record::Location { file: place.file().to_owned(), line: place.line() }),
            millis,
            memory: memory_now(),
            image: picture.as_ref().map(Picture::measure),
            causes: diagnosis.causes,
            facts: diagnosis.facts,
            injected: self.injected || injected.is_some(),
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
            eprintln!("the pictures of `{name}` could not be kept: {error}");
        }
        self.write(&Line::Checkpoint(Arc::clone(&record)))?;
        // Its verdict is written: whatever becomes of this, it stands.
        if is_evaluated_later {
            actual = to_host(&array).ok();
            if let Some(actual) = actual.as_ref().filter(|_| is_red) {
                self.keep(&record, actual);
            }
        }
        if is_wrong {
            self.judge.keep(checkpoint, hit, actual.as_ref());
        }
        self.note_order(name, sequence)?;
        self.stop_if_done(name, hit + 1)?;
        // What we did here is not the port's time.
        self.clock.restart();
        match injected {
            None => Ok(array),
            Some(golden) => golden.map_err(|error| {
                Exception::custom(format!("the golden of `{name}` cannot be injected: {error}"))
            }),
        }
    }

    /// Keeps the actual of a failure beside the records, for a closer look.
    fn keep(&mut self, record: &Record, actual: &Tensor) {
        let path = self.folder.actual(&record.checkpoint, record.hit);
        let earlier = self.earlier.as_ref().map(|folder| folder.actual(&record.checkpoint, record.hit));
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|error| error.to_string());
        // The run before may have kept the very same: then both have one file.
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
            eprintln!("the actual of `{}` could not be kept: {problem}", record.checkpoint);
        }
    }

    fn note_undeclared(&self, name: &str) -> Result<(), Exception> {
        let is_new = self.log.borrow_mut().undeclared.insert(name.to_owned());
        if is_new { self.write(&Line::Undeclared { name: name.to_owned() }) } else { Ok(()) }
    }

    /// Tells of the first tap that the reference comes to before one that was already met.
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

    /// Ends the forward pass by an error of the tap once everything that anyone asked for was met.
    fn stop_if_done(&mut self, name: &str, met: u64) -> Result<(), Exception> {
        let Some(wanted) = &mut self.wanted else { return Ok(()) };
        if wanted.get(name).is_some_and(|&hits| met >= hits) {
            wanted.remove(name);
        }
        if !wanted.is_empty() {
            return Ok(());
        }
        self.log.borrow_mut().stopped = true;
        Err(Exception::custom("stopped: no later checkpoint was asked for"))
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

/// Whether an array of a wrong form is small enough to be evaluated and kept: no larger than the golden, or than what is
/// always at hand.
fn fits(form: &record::Tensor, judged: &Judged) -> bool {
    const AT_HAND: u128 = 64 << 20;
    let bytes = |form: &record::Tensor| {
        let elements = form.shape.iter().fold(1u128, |count, &length| count.saturating_mul(length as u128));
        elements.saturating_mul(form.dtype.size() as u128)
    };
    bytes(form) <= judged.expected.as_ref().map_or(0, bytes).max(AT_HAND)
}

/// Whether the file at `path` holds exactly this tensor.
fn holds(path: &Path, tensor: &Tensor) -> bool {
    let kept = TensorFile::open(path).and_then(|file| file.get(file.names().next().unwrap_or_default()));
    kept.is_ok_and(|kept| {
        let (kept, tensor) = (kept.view(), tensor.view());
        let same_form = kept.dtype() == tensor.dtype() && kept.shape() == tensor.shape();
        same_form && kept.row_major_bytes().is_some() && kept.row_major_bytes() == tensor.row_major_bytes()
    })
}

fn memory_now() -> Option<record::Memory> {
    let (active, peak) = (memory::active_memory().ok()?, memory::peak_memory().ok()?);
    Some(record::Memory { active_bytes: active as u64, peak_bytes: peak as u64 })
}

/// MLX only says that it cannot evaluate during a transformation; the porter needs to know which tap and what to do.
fn in_transform(name: &str, error: Exception) -> Exception {
    let what = super::array::mlx_message(error.what());
    if what.contains("during function transformations") {
        return Exception::custom(format!(
            "tap `{name}` is inside a function that is compiled or differentiated, where nothing can be evaluated: \
             call it without `compile` in the parity run"
        ));
    }
    Exception::custom(format!("tap `{name}` could not be evaluated: {what}"))
}
