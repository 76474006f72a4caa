//! Runs a port once per mutation, all in one process, and stops each run when a checkpoint notices the mutation.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use mlx_parity_tap::{Driver, drive};
use mlx_rs::{Array, error::Exception};

use super::array::{from_host, mlx_message, to_host};
use super::by_eye::ApprovedByEye;
use super::checked::Checked;
use super::gradient::with_gradient;
use super::hits::Hits;
use super::picture::Picture;
use super::port::PortResult;
use super::tap_check::TapCheck;
use mlx_parity_core::gate::Gate;
use mlx_parity_core::golden::FixtureSet;
use mlx_parity_core::mutation::{
    Mutation, MutationEvent, MutationKind, MutationLog, MutationResult, Noticed,
};
use mlx_parity_core::record::{Record, Status};
use mlx_parity_core::run_folder::Job;
use mlx_parity_core::spec::Spec;
use mlx_parity_core::text::error_chain;

/// Runs every fitting mutation of every checkpoint, except for the first `job.mutate` mutations, and logs each result.
///
/// # Errors
/// If the port fails without any mutation, or if a checkpoint is then red.
pub(super) fn mutate(
    job: &Job,
    spec: &Rc<Spec>,
    fixtures: Option<&Rc<FixtureSet>>,
    port: impl Fn() -> PortResult,
) -> Result<(), String> {
    let chain = |error: mlx_parity_core::run_folder::FolderError| error_chain(&error);
    let log = MutationLog::in_folder(&job.folder);
    let done = job.mutate.unwrap_or(0);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let drive_with = |mutation: Option<Mutation>| {
        *seen.borrow_mut() = Seen::default();
        let check = TapCheck::new(Rc::clone(spec), fixtures.cloned(), job);
        let by_eye = ApprovedByEye::of(job);
        let driver = Mutator { spec: Rc::clone(spec), check, by_eye, mutation, seen: Rc::clone(&seen) };
        // A mutation may make the port panic, which counts as noticed.
        let outcome = catch_unwind(AssertUnwindSafe(|| drive(Box::new(driver), &port).0));
        match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(mlx_message(&error_chain(&*error))),
            Err(_) => Some("it panicked".to_owned()),
        }
    };
    let failed = drive_with(None);
    let clean = seen.take().clean;
    if let Some(error) = failed {
        return Err(format!("the port fails without any mutation: {error}"));
    }
    if let Some(red) = clean.iter().find(|record| record.verdict.status == Status::Fail) {
        return Err(format!("`{}` is red without any mutation: {}", red.checkpoint, red.verdict.detail));
    }
    let plan = plan(&clean);
    if done == 0 {
        for record in clean {
            log.write(&MutationEvent::Unmutated(Arc::new(record))).map_err(chain)?;
        }
        log.write(&MutationEvent::Planned { count: plan.len() }).map_err(chain)?;
    }
    for mutation in plan.into_iter().skip(done) {
        log.write(&MutationEvent::Started(mutation.clone())).map_err(chain)?;
        let failed = drive_with(Some(mutation.clone()));
        let Seen { noticed, used, hits, same_set, .. } = seen.take();
        let noticed = noticed
            .or_else(|| failed.map(Noticed::Port))
            .or_else(|| miscounted(spec, job.level, &hits).map(Noticed::Later))
            .unwrap_or(if same_set { Noticed::Equivalent } else { Noticed::Never });
        log.write(&MutationEvent::Finished(MutationResult { mutation, noticed, used })).map_err(chain)?;
    }
    Ok(())
}

/// Returns every fitting mutation, checkpoint by checkpoint in the order of the run.
fn plan(clean: &[Record]) -> Vec<Mutation> {
    let first_hits = clean.iter().filter(|record| record.hit == 0);
    let of_one = |record: &Record| {
        let (dtype, checkpoint) =
            (record.actual.as_ref().map(|actual| actual.dtype), record.checkpoint.clone());
        let fitting =
            MutationKind::ALL.into_iter().filter(move |kind| dtype.is_some_and(|dtype| kind.fits(dtype)));
        fitting.map(move |kind| Mutation { checkpoint: checkpoint.clone(), kind })
    };
    first_hits.flat_map(of_one).collect()
}

/// Returns the first checkpoint whose number of hits differs from the spec's `hits`.
fn miscounted(spec: &Spec, level: u8, hits: &Hits) -> Option<String> {
    let declared = spec.checkpoints.iter().filter(|one| one.level <= level && !one.is_unseen());
    let mut other = declared.filter(|one| hits.of(&one.name) != u64::from(one.hits));
    other.next().map(|one| one.name.clone())
}

/// The state of one run of the port.
#[derive(Default)]
struct Seen {
    /// The record of every hit, in a run without a mutation.
    clean: Vec<Record>,
    /// The checkpoint, or the port, that noticed the mutation.
    noticed: Option<Noticed>,
    /// Share of the gate that the mutation used at its own checkpoint.
    used: Option<f64>,
    /// Number of hits per checkpoint.
    hits: Hits,
    /// Whether the mutation only changed the order inside sets.
    same_set: bool,
}

/// The driver of one run.
struct Mutator {
    spec: Rc<Spec>,
    check: TapCheck,
    by_eye: ApprovedByEye,
    mutation: Option<Mutation>,
    seen: Rc<RefCell<Seen>>,
}

impl Driver for Mutator {
    fn tap(&mut self, name: &str, array: Array, _: &'static Location<'static>) -> Result<Array, Exception> {
        let Some(index) = self.check.index(name) else { return Ok(array) };
        let seen = Rc::clone(&self.seen);
        let mut seen = seen.borrow_mut();
        if seen.noticed.is_some() {
            return Err(stop());
        }
        let hit = seen.hits.next(name);
        let spec = Rc::clone(&self.spec);
        let checkpoint = &spec.checkpoints[index];
        if checkpoint.is_unseen() {
            return Ok(array);
        }
        let here = self
            .mutation
            .as_ref()
            .filter(|mutation| mutation.checkpoint == name)
            .map(|mutation| mutation.kind);
        let before = self.mutation.as_ref().is_some_and(|mutation| seen.hits.of(&mutation.checkpoint) == 0);
        // A checkpoint before the mutation cannot notice it.
        if before && !self.check.matters_later(name) {
            return Ok(array);
        }
        let problem = |text: String| Exception::custom(format!("tap `{name}`: {text}"));
        array.eval()?;
        let mut actual = to_host(&array).map_err(|error| problem(error.to_string()))?;
        let mut continued = array;
        if let Some(kind) = here {
            match kind.apply(&actual) {
                Some(tensor) => {
                    let changed = from_host(&tensor.view()).map_err(|error| problem(error.to_string()))?;
                    continued = with_gradient(changed, &continued)?;
                    actual = tensor;
                }
                None if hit == 0 => {
                    seen.noticed = Some(Noticed::Equivalent);
                    return Err(stop());
                }
                None => {}
            }
        }
        let Checked { outcome, expected, floor, floor_block, injected, picture, .. } =
            self.check.check(checkpoint, hit, &actual);
        let mut record = Record {
            hit,
            sequence: seen.clean.len() as u64,
            expected,
            actual: Some((&actual.view()).into()),
            floor,
            floor_block,
            image: picture.as_ref().map(Picture::measure),
            injected: injected.is_some(),
            ..Record::of_checkpoint(&spec, checkpoint, outcome)
        };
        self.by_eye.judge(&mut record);
        let difference = record.metrics.as_ref().and_then(|metrics| metrics.difference.as_ref());
        // The same ids in another order are the same choice, unless something later depends on their order.
        let choices = record.metrics.as_ref().and_then(|metrics| metrics.choices.as_ref());
        let is_set = matches!(checkpoint.gate, Some(Gate::Set { .. }));
        seen.same_set |=
            here.is_some() && is_set && choices.is_some_and(|choices| choices.equal == choices.rows);
        if here.is_some() {
            seen.used = difference.and_then(|difference| difference.used).or(seen.used);
        }
        if self.mutation.is_none() {
            seen.clean.push(record);
        } else if record.verdict.status == Status::Fail && !before {
            seen.noticed =
                Some(if here.is_some() { Noticed::Itself } else { Noticed::Later(name.to_owned()) });
            return Err(stop());
        }
        match injected {
            None => Ok(continued),
            Some(golden) => with_gradient(golden.map_err(|error| problem(error.to_string()))?, &continued),
        }
    }
}

fn stop() -> Exception {
    Exception::custom("stopped: the mutation was noticed")
}
