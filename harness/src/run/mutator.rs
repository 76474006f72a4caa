//! Runs a port again and again in one process, with one fault at one tap each time, until somebody notices.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use mlx_parity_tap::{Driver, drive};
use mlx_rs::{Array, error::Exception};

use super::array::{from_host, mlx_message, to_host};
use super::fault::Fault;
use super::job::Job;
use super::judge::{Judge, Judged};
use super::mutations::{Mutation, Noticed, Planted, Step, Steps};
use super::port::PortResult;
use crate::golden::FixtureSet;
use crate::record::{Record, SCHEMA, Status, Verdict};
use crate::report::error_chain;
use crate::spec::Spec;

/// Plants every fault that fits at every tap of the run, the first `job.mutate` of them excepted, and writes what came
/// of each. The port has to be right without any.
pub(super) fn mutate(
    job: &Job,
    spec: &Rc<Spec>,
    fixtures: Option<&Rc<FixtureSet>>,
    port: impl Fn() -> PortResult,
) -> Result<(), String> {
    let said = |error: super::folder::FolderError| error_chain(&error);
    let steps = Steps::in_folder(&job.folder);
    let done = job.mutate.unwrap_or(0);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let drive_with = |planted: Option<Planted>| {
        *seen.borrow_mut() = Seen::default();
        let judge = Judge::new(Rc::clone(spec), fixtures.cloned(), job);
        let driver = Mutator { spec: Rc::clone(spec), judge, planted, seen: Rc::clone(&seen) };
        // A fault may well make a port panic, which is one more way to notice it.
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
        return Err(format!("the port fails without any fault: {error}"));
    }
    if let Some(red) = clean.iter().find(|record| record.verdict.status == Status::Fail) {
        return Err(format!("`{}` is red without any fault: {}", red.checkpoint, red.verdict.detail));
    }
    let plan = plan(&clean);
    if done == 0 {
        for record in clean {
            steps.write(&Step::Clean(Arc::new(record))).map_err(said)?;
        }
        steps.write(&Step::Planned { count: plan.len() }).map_err(said)?;
    }
    for planted in plan.into_iter().skip(done) {
        steps.write(&Step::Planting(planted.clone())).map_err(said)?;
        let failed = drive_with(Some(planted.clone()));
        let Seen { noticed, used, hits, .. } = seen.take();
        let noticed = noticed
            .or_else(|| failed.map(Noticed::Port))
            .or_else(|| miscounted(spec, job.level, &hits).map(Noticed::Later))
            .unwrap_or(Noticed::Never);
        steps.write(&Step::Came(Mutation { planted, noticed, used })).map_err(said)?;
    }
    Ok(())
}

/// Every fault that fits, checkpoint by checkpoint in the order of the run.
fn plan(clean: &[Record]) -> Vec<Planted> {
    let first_hits = clean.iter().filter(|record| record.hit == 0);
    let of_one = |record: &Record| {
        let (dtype, checkpoint) =
            (record.actual.as_ref().map(|actual| actual.dtype), record.checkpoint.clone());
        let fitting =
            Fault::ALL.into_iter().filter(move |fault| dtype.is_some_and(|dtype| fault.fits(dtype)));
        fitting.map(move |fault| Planted { checkpoint: checkpoint.clone(), fault })
    };
    first_hits.flat_map(of_one).collect()
}

/// A checkpoint that was met another number of times than the spec declares.
fn miscounted(spec: &Spec, level: u8, hits: &HashMap<String, u64>) -> Option<String> {
    let declared = spec.checkpoints.iter().filter(|checkpoint| checkpoint.level <= level);
    let other = |hits: Option<&u64>, wanted: u32| hits.copied().unwrap_or(0) != u64::from(wanted);
    declared.into_iter().find(|one| other(hits.get(&one.name), one.hits)).map(|one| one.name.clone())
}

/// What one run of the port showed.
#[derive(Default)]
struct Seen {
    /// Without a fault: the verdict on every hit.
    clean: Vec<Record>,
    noticed: Option<Noticed>,
    used: Option<f64>,
    hits: HashMap<String, u64>,
}

/// The driver of one run.
struct Mutator {
    spec: Rc<Spec>,
    judge: Judge,
    planted: Option<Planted>,
    seen: Rc<RefCell<Seen>>,
}

impl Driver for Mutator {
    fn tap(&mut self, name: &str, array: Array, _: &'static Location<'static>) -> Result<Array, Exception> {
        let Some(index) = self.judge.index(name) else { return Ok(array) };
        let seen = Rc::clone(&self.seen);
        let mut seen = seen.borrow_mut();
        if seen.noticed.is_some() {
            return Err(stop());
        }
        let hit = {
            let count = seen.hits.entry(name.to_owned()).or_insert(0);
            *count += 1;
            *count - 1
        };
        let spec = Rc::clone(&self.spec);
        let checkpoint = &spec.checkpoints[index];
        let here =
            self.planted.as_ref().filter(|planted| planted.checkpoint == name).map(|planted| planted.fault);
        let before =
            self.planted.as_ref().is_some_and(|planted| !seen.hits.contains_key(&planted.checkpoint));
        // Nothing that comes before a fault can notice it.
        if before && !self.judge.matters_later(name) {
            return Ok(array);
        }
        let problem = |what: String| Exception::custom(format!("tap `{name}`: {what}"));
        array.eval()?;
        let mut actual = to_host(&array).map_err(|error| problem(error.to_string()))?;
        let mut goes_on = array;
        if let Some(fault) = here {
            match fault.plant(&actual) {
                Some(tensor) => {
                    goes_on = from_host(&tensor.view()).map_err(|error| problem(error.to_string()))?;
                    actual = tensor;
                }
                None if hit == 0 => {
                    seen.noticed = Some(Noticed::Equivalent);
                    return Err(stop());
                }
                None => {}
            }
        }
        let Judged { outcome, expected, floor, injected, .. } = self.judge.judge(checkpoint, hit, &actual);
        let verdict = Verdict::of(&outcome, checkpoint.gated);
        let difference = outcome.metrics.as_ref().and_then(|metrics| metrics.difference.as_ref());
        if here.is_some() {
            seen.used = difference.and_then(|difference| difference.used).or(seen.used);
        }
        if self.planted.is_none() {
            let sequence = seen.clean.len() as u64;
            seen.clean.push(Record {
                schema: SCHEMA,
                spec: spec.id.clone(),
                checkpoint: name.to_owned(),
                hit,
                sequence,
                level: checkpoint.level.into(),
                stage: checkpoint.stage.map(|stage| stage.name().to_owned()),
                verdict,
                expected,
                actual: Some((&actual.view()).into()),
                gate: checkpoint.gate.clone(),
                floor,
                metrics: outcome.metrics,
                location: None,
                millis: 0.0,
                memory: None,
                image: None,
                causes: Vec::new(),
                facts: Vec::new(),
                injected: injected.is_some(),
            });
        } else if verdict.status == Status::Fail && !before {
            seen.noticed =
                Some(if here.is_some() { Noticed::Itself } else { Noticed::Later(name.to_owned()) });
            return Err(stop());
        }
        match injected {
            None => Ok(goes_on),
            Some(golden) => golden.map_err(|error| problem(error.to_string())),
        }
    }
}

fn stop() -> Exception {
    Exception::custom("stopped: what was to be known is known")
}
