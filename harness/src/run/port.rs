//! What a port is given: inputs, weights and parameters of one spec, each remembered when it is asked for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::error::Error;
use std::rc::Rc;

use mlx_rs::Array;
use mlx_rs::error::Exception;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::alter::Alterations;
use super::array::{ArrayError, from_host};
use super::catalogue::CatalogueError;
use super::clock::Clock;
use super::folder::Audit;
use super::weights::WeightSet;
use crate::golden::{FixtureError, FixtureSet};
use crate::spec::Spec;
use crate::tensor::Dtype;

/// What the closure of a port returns; any error of the port's own fits.
pub type PortResult = Result<(), Box<dyn Error + Send + Sync>>;

/// A registered port: builds the model from what `Run` hands out, and runs it once.
pub(crate) type Port = Box<dyn Fn(&Run) -> PortResult + Send + Sync>;

/// One run of a port, on the worker's MLX thread.
pub struct Run {
    spec: Rc<Spec>,
    fixtures: Option<Rc<FixtureSet>>,
    asked: RefCell<BTreeSet<String>>,
    weights: Option<Rc<WeightSet>>,
    /// Stands still while an input is read.
    clock: Clock,
    alterations: Alterations,
}

/// Why a port was not given what it asked for.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum RunError {
    #[error("input `{name}` is not in the spec's `inputs` ({declared})")]
    UndeclaredInput { name: String, declared: String },
    #[error("the spec has no `weights`")]
    NoWeights,
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error("there is no weight `{name}`{near}")]
    NoWeight { name: String, near: String },
    #[error("parameter `{name}` of the module has shape {wanted:?}, but the weight has {found:?}")]
    WeightShape { name: String, wanted: Vec<usize>, found: Vec<usize> },
    #[error("parameter `{name}` of the module is {wanted}, but the weight is {found}")]
    WeightDtype { name: String, wanted: Dtype, found: Dtype },
    #[error("the spec's `reference.params` do not fit: {0}")]
    Params(#[source] serde_json::Error),
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    #[error(transparent)]
    Array(#[from] ArrayError),
}

impl Run {
    pub(super) fn new(
        spec: Rc<Spec>,
        fixtures: Option<Rc<FixtureSet>>,
        clock: Clock,
        alterations: Alterations,
    ) -> Result<Self, RunError> {
        let weights = match (&spec.weights, &fixtures) {
            (Some(declared), Some(set)) => {
                Some(Rc::new(WeightSet::new(declared, Rc::clone(set), clock.clone())?))
            }
            _ => None,
        };
        Ok(Self { spec, fixtures, asked: RefCell::default(), weights, clock, alterations })
    }

    /// The input of that name, which the spec must declare.
    ///
    /// # Errors
    /// When it is not declared or the fixture does not hold it.
    pub fn input(&self, name: &str) -> Result<Array, RunError> {
        let (true, Some(fixtures)) = (self.spec.inputs.iter().any(|input| input == name), &self.fixtures)
        else {
            let declared = match self.spec.inputs.as_slice() {
                [] => "it has none".to_owned(),
                inputs => inputs.join(", "),
            };
            return Err(RunError::UndeclaredInput { name: name.to_owned(), declared });
        };
        self.asked.borrow_mut().insert(name.to_owned());
        self.clock.pause(|| Ok(from_host(&fixtures.input(name)?.view())?))
    }

    /// The spec's weights. What the port takes from them, and what it leaves, is audited.
    ///
    /// # Errors
    /// When the spec declares none.
    pub fn weights(&self) -> Result<Rc<WeightSet>, RunError> {
        self.weights.clone().ok_or(RunError::NoWeights)
    }

    /// The spec's `reference.params`, read into a type of the port's own.
    ///
    /// # Errors
    /// When they do not fit that type.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, RunError> {
        let params =
            self.spec.reference.as_ref().map(|reference| reference.params.clone()).unwrap_or_default();
        serde_json::from_value(params.into()).map_err(RunError::Params)
    }

    /// Plants a fault: what the tap of the full name `checkpoint` (`blocks.0.norm`) holds goes through `change` before it
    /// is looked at and before the port goes on with it, as if the stage itself had produced it.
    ///
    /// It is for testing a suite: whether it catches the mistakes that matter to you, and where. A port that is to prove
    /// something has no use for it.
    ///
    /// Every hit of the name is changed, also of a tap that the spec does not declare. A second change of a name replaces
    /// the first. A name that the port never comes to makes it fail.
    ///
    /// ```no_run
    /// # fn port(run: &mlx_parity::Run) -> mlx_parity::PortResult { Ok(()) }
    /// # let suite = mlx_parity::Suite::new(".", "parity-specs", "fixtures");
    /// suite.port("my_model::block/velocity_sign", |run| {
    ///     run.alter("velocity", |x| x.negative());
    ///     port(run)
    /// });
    /// ```
    pub fn alter(&self, checkpoint: &str, change: impl Fn(Array) -> Result<Array, Exception> + 'static) {
        self.alterations.insert(checkpoint, change);
    }

    /// The inputs that the spec declares and the port never asked for.
    pub(super) fn unused_inputs(&self) -> Vec<String> {
        let asked = self.asked.borrow();
        self.spec.inputs.iter().filter(|input| !asked.contains(*input)).cloned().collect()
    }

    /// What became of the weights, if the spec has any.
    pub(super) fn audit(&self) -> Option<Audit> {
        self.weights.as_ref().map(|weights| weights.audit())
    }
}
