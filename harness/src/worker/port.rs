//! The inputs, weights and parameters of one spec, as a port reads them.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::rc::Rc;

use mlx_rs::Array;
use mlx_rs::error::Exception;
use serde::de::DeserializeOwned;

use super::array::from_host;
use super::clock::Clock;
use super::error::RunError;
use super::plant_fault::TapFaults;
use super::weights::WeightSet;
use mlx_parity_core::golden::{FixtureSet, Role};
use mlx_parity_core::run_folder::{Audit, Metric, WeightSize};
use mlx_parity_core::spec::Spec;

/// The result of a port's closure. Any error type converts to it with `?`.
pub type PortResult = Result<(), Box<dyn Error + Send + Sync>>;

/// A registered port: builds the model from the weights and parameters of a [`Run`], and runs it once.
pub(crate) type Port = Box<dyn Fn(&Run) -> PortResult + Send + Sync>;

/// One run of a port. It returns the spec's inputs, weights and parameters, and records which inputs the port used.
pub struct Run {
    spec: Rc<Spec>,
    fixtures: Option<Rc<FixtureSet>>,
    /// Inputs that the port has read.
    asked: RefCell<BTreeSet<String>>,
    weights: Option<Rc<WeightSet>>,
    adapters: Option<Rc<WeightSet>>,
    /// The port's clock, paused while an input is read.
    clock: Clock,
    faults: TapFaults,
    /// The port's own numbers.
    metrics: RefCell<BTreeMap<String, Metric>>,
    /// The optimiser's step that the port is in, from 1.
    step: Cell<u32>,
    /// The position of each golden in the reference's run.
    order: OnceCell<HashMap<String, u64>>,
}

/// The most numbers of one port.
const MOST_METRICS: usize = 1000;

impl Run {
    pub(super) fn new(
        spec: Rc<Spec>,
        fixtures: Option<Rc<FixtureSet>>,
        clock: Clock,
        faults: TapFaults,
    ) -> Result<Self, RunError> {
        let adapters = match (spec.adapter_weights(), &fixtures) {
            (Some(declared), Some(set)) => {
                Some(Rc::new(WeightSet::of_adapters(&declared, Rc::clone(set), clock.clone())?))
            }
            _ => None,
        };
        let weights = match (&spec.weights, &fixtures) {
            (Some(declared), Some(set)) => {
                let set = WeightSet::new(declared, Rc::clone(set), clock.clone(), adapters.as_deref())?;
                Some(Rc::new(set))
            }
            _ => None,
        };
        Ok(Self {
            spec,
            fixtures,
            asked: RefCell::default(),
            weights,
            adapters,
            clock,
            faults,
            metrics: RefCell::default(),
            step: Cell::new(1),
            order: OnceCell::new(),
        })
    }

    /// Prepares for a forward pass. One run can have several, such as a second one on golden inputs.
    pub(super) fn start_pass(&self) {
        self.step.set(1);
    }

    /// Returns the number of the optimiser's step that the port is in, from 1.
    pub(super) fn step(&self) -> u32 {
        self.step.get()
    }

    /// Ends the optimiser's step.
    pub(super) fn end_step(&self) {
        self.step.set(self.step.get() + 1);
    }

    /// Returns the position of each golden in the reference's run.
    pub(super) fn golden_order(&self) -> &HashMap<String, u64> {
        self.order.get_or_init(|| {
            let goldens = self.fixtures.iter().flat_map(|set| set.entries(Role::Golden));
            goldens.filter_map(|entry| Some((entry.name.clone(), entry.sequence?))).collect()
        })
    }

    /// Notes a gradient, if the spec declares its parameter as frozen.
    pub(super) fn note_gradient(&self, name: &str, gradient: &Array) -> Result<(), Exception> {
        self.weights.as_ref().map_or(Ok(()), |weights| weights.note_gradient(name, gradient))
    }

    /// Returns whether the spec declares this parameter as frozen, and notes it if it differs from its weight.
    pub(super) fn note_parameter(&self, name: &str, parameter: &Array) -> Result<bool, Exception> {
        self.weights.as_ref().map_or(Ok(false), |weights| weights.note_parameter(name, parameter))
    }

    /// Returns the input `name` with the dtype and the shape in the fixture. The spec must declare it in `inputs`.
    ///
    /// The spec's tests fail if the port never reads a declared input.
    ///
    /// # Errors
    /// [`RunError::UndeclaredInput`] if the spec does not declare the input, [`RunError::Fixture`] if the fixture set
    /// has no readable input of that name, [`RunError::Array`] if MLX cannot hold it.
    pub fn input(&self, name: &str) -> Result<Array, RunError> {
        let (true, Some(fixtures)) = (self.spec.inputs.iter().any(|input| input == name), &self.fixtures)
        else {
            let declared = match self.spec.inputs.as_slice() {
                [] => "none".to_owned(),
                inputs => inputs.join(", "),
            };
            return Err(RunError::UndeclaredInput { name: name.to_owned(), declared });
        };
        self.asked.borrow_mut().insert(name.to_owned());
        self.clock.pause(|| Ok(from_host(&fixtures.input(name)?.view())?))
    }

    /// Returns the spec's weights. The trial `<spec>::weights` reports missing weights and weights that the port never
    /// read.
    ///
    /// # Errors
    /// [`RunError::NoWeights`] if the spec declares no `weights`.
    pub fn weights(&self) -> Result<Rc<WeightSet>, RunError> {
        self.weights.clone().ok_or(RunError::NoWeights)
    }

    /// Returns the tensors of the spec's adapters, such as LoRA. The trial `<spec>::adapters` reports missing tensors and
    /// tensors that the port never read, and whether the adapters change the port as they change the reference.
    ///
    /// To measure this, the port runs again with zeros in place of each tensor. It must then compute what the reference
    /// computes without adapters.
    ///
    /// ```no_run
    /// # use mlx_rs::{Array, error::Exception, nn};
    /// # fn port(run: &mlx_parity::Run, mut model: nn::Linear) -> mlx_parity::PortResult {
    /// run.weights()?.load_into(&mut model)?;
    /// run.adapters()?.load_into(&mut model)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RunError::NoAdapters`] if the spec declares no `adapters`.
    pub fn adapters(&self) -> Result<Rc<WeightSet>, RunError> {
        self.adapters.clone().ok_or(RunError::NoAdapters)
    }

    /// Hands out zeros in place of the adapters' tensors, or the tensors again.
    pub(super) fn leave_adapters_out(&self, out: bool) {
        if let Some(adapters) = &self.adapters {
            adapters.set_zeroed(out);
        }
    }

    /// Returns the spec's `reference.params`, deserialised into `T`. A spec without them is an empty map.
    ///
    /// # Errors
    /// [`RunError::Params`] if they do not match `T`.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, RunError> {
        let params =
            self.spec.reference.as_ref().map(|reference| reference.params.clone()).unwrap_or_default();
        serde_json::from_value(params.into()).map_err(RunError::Params)
    }

    /// Records a number of the port's own, such as `generation_tps`. Reports show it, and no verdict depends on it.
    ///
    /// A second call with the same name replaces the number. Only the first 1000 names of a run are kept.
    ///
    /// ```no_run
    /// # fn port(run: &mlx_parity::Run) -> mlx_parity::PortResult {
    /// let (tokens, started) = (128, std::time::Instant::now());
    /// // … generate the tokens …
    /// run.metric("generation_tps", f64::from(tokens) / started.elapsed().as_secs_f64());
    /// # Ok(()) }
    /// ```
    pub fn metric(&self, name: &str, value: f64) {
        let mut metrics = self.metrics.borrow_mut();
        if metrics.len() < MOST_METRICS || metrics.contains_key(name) {
            metrics.insert(name.to_owned(), Metric(value));
        }
    }

    /// Returns the port's own numbers so far.
    pub(super) fn metrics(&self) -> BTreeMap<String, Metric> {
        self.metrics.borrow().clone()
    }

    /// Returns the size of the weights that the port took, or `None` if the spec has no weights.
    pub(super) fn weight_size(&self) -> Option<WeightSize> {
        self.weights.as_ref().map(|weights| weights.size())
    }

    /// Adds a fault at a tap: `change` replaces the tap's array before it is compared, and the port continues with the
    /// changed array. `checkpoint` is the full name of the tap, such as `blocks.0.norm`.
    ///
    /// Use it to test whether a suite catches a mistake, and at which checkpoint. A port under test never calls it.
    ///
    /// The fault applies to every hit of the tap, and also to a tap that the spec does not declare. A second fault at the
    /// same tap replaces the first. The run fails if `change` fails, or if the port never reaches the tap.
    ///
    /// ```no_run
    /// # fn port(run: &mlx_parity::Run) -> mlx_parity::PortResult { Ok(()) }
    /// # let suite = mlx_parity::Suite::new(".", "parity-specs", "fixtures");
    /// suite.port("my_model::block/velocity_sign", |run| {
    ///     run.plant_fault("velocity", |x| x.negative());
    ///     port(run)
    /// });
    /// ```
    pub fn plant_fault(
        &self,
        checkpoint: &str,
        change: impl Fn(Array) -> Result<Array, Exception> + 'static,
    ) {
        self.faults.insert(checkpoint, change);
    }

    /// Returns the declared inputs that the port never read.
    pub(super) fn unused_inputs(&self) -> Vec<String> {
        let (asked, masks) = (self.asked.borrow(), self.spec.masks());
        let is_used = |input: &&String| asked.contains(*input) || masks.contains(input.as_str());
        self.spec.inputs.iter().filter(|input| !is_used(input)).cloned().collect()
    }

    /// Returns the audit of the weights, or `None` if the spec has no weights.
    pub(super) fn audit(&self) -> Option<Audit> {
        self.weights.as_ref().map(|weights| weights.audit())
    }

    /// Returns the audit of the adapters, or `None` if the spec has none. `failed` is whether the port failed: it might
    /// have read other tensors later, unless a tensor was missing.
    pub(super) fn adapter_audit(&self, failed: bool) -> Option<Audit> {
        let audit = self.adapters.as_ref()?.audit();
        let unused = if failed && audit.missing.is_empty() { Vec::new() } else { audit.unused };
        Some(Audit { unused, ..audit })
    }
}
