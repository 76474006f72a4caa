//! What happens at a tap: evaluate, copy, compare, record, and only then let the port go on.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use mlx_parity_tap::Driver;
use mlx_rs::{Array, error::Exception, memory};

use super::alter::Alterations;
use super::array::to_host;
use super::clock::Clock;
use super::folder::{Folder, FolderError, Line, Writer};
use super::job::Job;
use super::judge::{Judge, Judged};
use super::picture::Picture;
use crate::golden::FixtureSet;
use crate::record::{self, Record, SCHEMA, Status, Verdict};
use crate::report::error_chain;
use crate::spec::{Spec, hit_name};
use crate::tensor::{Tensor, write_npy};

/// The driver of one run.
pub(super) struct Observer {
    spec: Rc<Spec>,
    judge: Judge,
    alterations: Alterations,
    folder: Folder,
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
}

impl Log {
    pub(super) fn write(&mut self, line: &Line) -> Result<(), FolderError> {
        self.writer.write(line)
    }

    /// Whether the port was stopped on purpose.
    pub(super) fn stopped(&self) -> bool {
        self.stopped
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
        let log = Log { writer, undeclared: BTreeSet::new(), stopped: false, red: false };
        let wanted = job.until.as_ref().map(|names| {
            names.iter().filter_map(|name| Some((name.clone(), spec.checkpoint(name)?.hits.into()))).collect()
        });
        Ok(Self {
            judge: Judge::new(Rc::clone(&spec), fixtures, job),
            spec,
            alterations,
            folder: job.folder.clone(),
            log: Rc::new(RefCell::new(log)),
            hits: HashMap::new(),
            sequence: 0,
            injected: false,
            latest: Some((0, String::new())),
            clock,
            wanted,
        })
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
        array.eval().map_err(|error| in_transform(name, error))?;
        let millis = self.clock.millis();
        let actual = to_host(&array).map_err(|error| Exception::custom(format!("tap `{name}`: {error}")))?;
        let Judged { outcome, expected, floor, injected, sequence, picture, diagnosis } =
            self.judge.judge(checkpoint, hit, &actual);
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
            actual: Some((&actual.view()).into()),
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
        if record.verdict.status == Status::Fail {
            self.log.borrow_mut().red |= record.expected.is_some();
            self.keep(&record, &actual);
        }
        if let Some(picture) = picture
            && let Err(error) = picture.write(&self.folder.file("images"), &hit_name(name, hit))
        {
            eprintln!("the pictures of `{name}` could not be kept: {error}");
        }
        self.write(&Line::Checkpoint(Arc::new(record)))?;
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
    fn keep(&self, record: &Record, actual: &Tensor) {
        let path = self.folder.actual(&record.checkpoint, record.hit);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|error| error.to_string());
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
        self.observe(name, array, place)
    }
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
