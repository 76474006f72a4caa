//! Passes with and without adapters, which show what the adapters change in the port.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;

use mlx_parity_tap::{Driver, drive};
use mlx_rs::{Array, error::Exception};

use super::array::{from_host, info_of, mlx_message, to_host};
use super::gradient::with_gradient;
use super::hits::Hits;
use super::panic_message::panic_text;
use super::plant_fault::TapFaults;
use super::port::{PortResult, Run};
use mlx_parity_core::gate::Floor;
use mlx_parity_core::golden::{FixtureSet, as_compared};
use mlx_parity_core::run_folder::{AdapterChange, AdapterRun, AdapterScale, Job};
use mlx_parity_core::spec::{Inject, Spec, hit_name};
use mlx_parity_core::tensor::{Float64View, Tensor};
use mlx_parity_core::text::error_chain;

/// The most elements of one tensor that are kept. The direction of a change is known well enough from these.
const SAMPLED: usize = 4096;

/// What the passes of one port have in common.
pub(super) struct AdapterPasses<'a> {
    pub(super) job: &'a Job,
    pub(super) spec: &'a Rc<Spec>,
    pub(super) fixtures: Option<&'a Rc<FixtureSet>>,
    pub(super) run: &'a Run,
    pub(super) faults: &'a TapFaults,
}

impl AdapterPasses<'_> {
    /// Runs the port with and without its adapters. If the change is not the reference's, two more passes with every golden
    /// injected show which stages are wrong.
    pub(super) fn measure(&self, port: impl Fn() -> PortResult) -> AdapterRun {
        let Some(facts) = self.fixtures.and_then(|set| set.manifest().adapters.as_ref()) else {
            return AdapterRun::default();
        };
        let files = facts.files.iter().filter(|file| self.spec.adapters.contains(&file.file));
        let scales = files.map(|file| AdapterScale { rank: file.rank, alpha: file.alpha }).collect();
        let mut found = AdapterRun { scales, ..AdapterRun::default() };
        match self.changes(&Inject::Declared, &facts.changes, &port) {
            Ok(free) => found.free = free,
            Err(error) => found.error = Some(error),
        }
        if found.error.is_none() && !found.is_right() {
            match self.changes(&Inject::All, &facts.changes, &port) {
                Ok(local) => found.local = local,
                Err(error) => found.error = Some(error),
            }
        }
        found
    }

    /// Runs the port with adapters, then without, and compares both at each golden.
    fn changes(
        &self,
        inject: &Inject,
        recorded: &BTreeMap<String, Floor>,
        port: impl Fn() -> PortResult,
    ) -> Result<Vec<AdapterChange>, String> {
        let with = self.pass(inject, recorded, HashMap::new(), &port)?;
        let with = with.into_iter().map(|hit| (hit.change.name, hit.samples)).collect();
        self.run.leave_adapters_out(true);
        let without = self.pass(inject, recorded, with, &port);
        self.run.leave_adapters_out(false);
        Ok(without?.into_iter().map(|hit| hit.change).collect())
    }

    fn pass(
        &self,
        inject: &Inject,
        recorded: &BTreeMap<String, Floor>,
        with: HashMap<String, Vec<f64>>,
        port: impl Fn() -> PortResult,
    ) -> Result<Vec<HitOfPass>, String> {
        let Some(fixtures) = self.fixtures else { return Ok(Vec::new()) };
        let found = Rc::new(RefCell::new(Vec::new()));
        let driver = AdapterPass {
            spec: Rc::clone(self.spec),
            fixtures: Rc::clone(fixtures),
            level: self.job.level,
            inject: inject.clone(),
            recorded: recorded.clone(),
            with,
            hits: Hits::default(),
            faults: self.faults.clone(),
            found: Rc::clone(&found),
        };
        match catch_unwind(AssertUnwindSafe(|| drive(Box::new(driver), &port).0)) {
            Ok(Ok(())) => Ok(found.take()),
            Ok(Err(error)) => Err(mlx_message(&error_chain(&*error))),
            Err(panic) => Err(panic_text(&*panic)),
        }
    }
}

/// One golden that a pass reached.
struct HitOfPass {
    /// Complete in a pass that has the samples of the one before.
    change: AdapterChange,
    samples: Vec<f64>,
}

/// The driver of one pass.
struct AdapterPass {
    spec: Rc<Spec>,
    fixtures: Rc<FixtureSet>,
    /// Checkpoints above this level are not reached.
    level: u8,
    inject: Inject,
    /// How far the reference's adapters move each golden.
    recorded: BTreeMap<String, Floor>,
    /// The samples of the pass with adapters; empty in that pass.
    with: HashMap<String, Vec<f64>>,
    hits: Hits,
    faults: TapFaults,
    found: Rc<RefCell<Vec<HitOfPass>>>,
}

impl Driver for AdapterPass {
    fn tap(&mut self, name: &str, array: Array, _: &'static Location<'static>) -> Result<Array, Exception> {
        let array = self.faults.apply(name, array)?;
        let spec = Rc::clone(&self.spec);
        let Some(checkpoint) =
            spec.checkpoint(name).filter(|one| one.level <= self.level && one.needs_golden())
        else {
            return Ok(array);
        };
        let name = hit_name(&checkpoint.name, self.hits.next(name)).into_owned();
        let problem = |text: String| Exception::custom(format!("tap `{name}`: {text}"));
        // A golden that is missing or of another form is what the checkpoint itself reports.
        let Ok(golden) = self.fixtures.golden(&name) else { return Ok(array) };
        let expected = as_compared(&golden.tensor, checkpoint).map_err(problem)?;
        let info = info_of(&array);
        if info.shape == expected.shape()
            && let (Some(recorded), Some(floor)) = (self.recorded.get(&name), golden.floor)
        {
            let actual = to_host(&array).map_err(|error| problem(error.to_string()))?;
            let samples = sampled(&actual);
            let mut change = AdapterChange::default();
            if let Some(with) = self.with.get(&name) {
                change = AdapterChange::of_samples(&sampled(&expected), with, &samples);
                change.without = distance(&expected, &actual);
            }
            change.name.clone_from(&name);
            change.recorded = recorded.rms;
            change.unit = floor.unit(&golden.tensor.view()).rms;
            self.found.borrow_mut().push(HitOfPass { change, samples });
        }
        if !self.inject.takes(&spec, &checkpoint.name) {
            return Ok(array);
        }
        let golden = from_host(&expected.view()).map_err(|error| problem(error.to_string()))?;
        with_gradient(golden, &array)
    }
}

/// Returns the elements of a tensor, or an even choice of them if there are many: the same for each tensor of its length.
fn sampled(tensor: &Tensor) -> Vec<f64> {
    let view = tensor.view();
    let numbers = Float64View::new(&view);
    let all = numbers.len();
    if all <= SAMPLED {
        return (0..all).map(|at| numbers.at(at)).collect();
    }
    // Multiples of the golden ratio fill the tensor evenly, and do not follow its axes.
    let place = |index: usize| ((index as f64 * 0.618_033_988_749_895).fract() * all as f64) as usize;
    (0..SAMPLED).map(|index| numbers.at(place(index).min(all - 1))).collect()
}

/// The root mean square distance of all elements.
fn distance(expected: &Tensor, actual: &Tensor) -> f64 {
    let (expected, actual) = (expected.view(), actual.view());
    let (expected, actual) = (Float64View::new(&expected), Float64View::new(&actual));
    let (mut squares, mut count) = (0.0, 0.0);
    for at in 0..expected.len().min(actual.len()) {
        let far = expected.at(at) - actual.at(at);
        if far.abs() < 1e30 {
            squares += far * far;
            count += 1.0;
        }
    }
    if count > 0.0 { f64::sqrt(squares / count) } else { 0.0 }
}
