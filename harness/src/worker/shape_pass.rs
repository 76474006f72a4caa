//! The driver of `cargo xtask shapes`: checks the shape and dtype of each tap, and evaluates nothing.

use std::cell::RefCell;
use std::panic::Location;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use mlx_parity_tap::{Driver, drive};
use mlx_rs::{Array, error::Exception};

use super::array::{info_of, mlx_message};
use super::hits::Hits;
use super::plant_fault::TapFaults;
use super::port::PortResult;
use super::tap_check::TapCheck;
use mlx_parity_core::compare::Comparison;
use mlx_parity_core::golden::FixtureSet;
use mlx_parity_core::record::{self, Record};
use mlx_parity_core::run_folder::{End, Job, Line, Writer};
use mlx_parity_core::spec::{Checkpoint, Spec};
use mlx_parity_core::text::error_chain;

/// The driver of one pass.
struct ShapePass {
    spec: Rc<Spec>,
    check: TapCheck,
    faults: TapFaults,
    log: Rc<RefCell<Writer>>,
    hits: Hits,
    sequence: u64,
}

/// Runs the port once and writes a record without metrics per hit.
pub(super) fn pass_over_shapes(
    job: &Job,
    spec: &Rc<Spec>,
    fixtures: Option<&Rc<FixtureSet>>,
    faults: &TapFaults,
    port: impl Fn() -> PortResult,
) -> Result<(), String> {
    let writer = Writer::create(&job.folder).map_err(|error| error_chain(&error))?;
    let log = Rc::new(RefCell::new(writer));
    let driver = ShapePass {
        spec: Rc::clone(spec),
        check: TapCheck::new(Rc::clone(spec), fixtures.cloned(), job),
        faults: faults.clone(),
        log: Rc::clone(&log),
        hits: Hits::default(),
        sequence: 0,
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| drive(Box::new(driver), &port).0));
    let error = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(mlx_message(&error_chain(&*error))),
        Err(panic) => Some(super::panic_message::panic_text(&*panic)),
    };
    let end = End { error, ..End::default() };
    log.borrow_mut().write(&Line::End(Box::new(end))).map_err(|error| error_chain(&error))
}

impl ShapePass {
    fn look(
        &mut self,
        name: &str,
        array: &Array,
        place: &'static Location<'static>,
    ) -> Result<(), Exception> {
        let hit = self.hits.next(name);
        let Some(index) = self.check.index(name) else { return Ok(()) };
        let spec = Rc::clone(&self.spec);
        let checkpoint = &spec.checkpoints[index];
        let info = info_of(array);
        // No actual is evaluated, so none can be compared with another actual.
        let alone = Checkpoint { against: None, counterpart: None, gate: None, ..checkpoint.clone() };
        let judged = if checkpoint.against.is_some() || checkpoint.counterpart.is_some() {
            &alone
        } else {
            checkpoint
        };
        let checked = match self.check.check_info(judged, hit, &info) {
            Some(checked) => checked,
            None => {
                let detail = "shape and dtype are right; no value was computed".to_owned();
                self.check.with_golden(judged, hit, Comparison { class: None, detail, metrics: None })
            }
        };
        let record = Record {
            hit,
            sequence: self.sequence,
            expected: checked.expected,
            actual: Some(info),
            location: Some(record::Location { file: place.file().to_owned(), line: place.line() }),
            ..Record::of_checkpoint(&spec, checkpoint, checked.outcome)
        };
        self.sequence += 1;
        let written = self.log.borrow_mut().write(&Line::Checkpoint(record.into()));
        written.map_err(|error| Exception::custom(error_chain(&error)))
    }
}

impl Driver for ShapePass {
    fn tap(
        &mut self,
        name: &str,
        array: Array,
        place: &'static Location<'static>,
    ) -> Result<Array, Exception> {
        let array = self.faults.apply(name, array)?;
        self.look(name, &array, place)?;
        Ok(array)
    }
}
