//! The gate that a pair must pass.

use std::collections::HashMap;
use std::path::Path;

use super::side::DiffSide;
use super::{Arguments, DiffError};
use mlx_parity_core::gate::{Floor, Gate, Rule};
use mlx_parity_core::spec::{Policies, bounds};
use mlx_parity_core::tensor::{Dtype, TensorView};
use mlx_parity_core::text::suggest::did_you_mean;

/// Where a pair's gate comes from.
pub(super) enum Gates {
    /// The defaults of `torch.testing.assert_close`, by dtype.
    Torch,
    /// One gate for all pairs.
    Tolerance(Gate),
    /// Floors from a fixture set, or from a float64 run of the same tensors. Integers and booleans must be equal.
    Noise { k: f64, floors: Box<DiffSide>, places: HashMap<String, usize> },
}

impl Gates {
    pub(super) fn of(arguments: &Arguments, spec_root: &Path) -> Result<Self, DiffError> {
        if let Some((rtol, atol)) = arguments.rtol.zip(arguments.atol) {
            return Ok(Self::Tolerance(Gate::Tolerance { rtol, atol, policy: None }));
        }
        if let Some(name) = &arguments.policy {
            let (policies, broken) = Policies::load(spec_root);
            if let Some(error) = broken {
                return Err(DiffError::Policies(Box::new(error)));
            }
            let policy = policies.named.get(name).ok_or_else(|| DiffError::Policy {
                name: name.clone(),
                path: policies.path.clone(),
                near: did_you_mean(name, policies.named.keys().map(String::as_str)),
            })?;
            let (rtol, atol) = (policy.rtol, policy.atol);
            return Ok(Self::Tolerance(Gate::Tolerance { rtol, atol, policy: Some(name.clone()) }));
        }
        let Some(path) = &arguments.noise else { return Ok(Self::Torch) };
        let floors = Box::new(DiffSide::open(path)?);
        let places = floors.names().enumerate().map(|(at, name)| (name.to_owned(), at)).collect();
        Ok(Self::Noise { k: arguments.times.unwrap_or(bounds::NOISE), floors, places })
    }

    /// Returns the rule for the tensor `name` of A. `golden` is this tensor as it is compared. `lay_out` converts a tensor from
    /// the layout of A to the layout of `golden`.
    pub(super) fn rule(
        &self,
        name: &str,
        golden: &TensorView<'_>,
        lay_out: impl for<'v> Fn(TensorView<'v>) -> Result<TensorView<'v>, DiffError>,
    ) -> Result<Rule, DiffError> {
        let dtype = golden.dtype();
        match self {
            Self::Tolerance(gate) => Ok(Rule { gate: Some(gate.clone()), ..Rule::default() }),
            Self::Noise { k, floors, places } if dtype.epsilon().is_some() => {
                let floor = match (floors.is_set(), places.get(name)) {
                    (true, _) => floors.floor(name),
                    (false, Some(&at)) => {
                        let truth = floors.tensor(at)?;
                        Some(measured(name, golden, &lay_out(truth.view())?)?)
                    }
                    (false, None) => {
                        let near = did_you_mean(name, floors.names());
                        let path = floors.path().to_owned();
                        return Err(DiffError::NoTruth { name: name.to_owned(), path, near });
                    }
                };
                Ok(Rule { gate: Some(Gate::Noise { k: *k }), floor, ..Rule::default() })
            }
            Self::Torch | Self::Noise { .. } => Ok(Rule { gate: Some(torch(dtype)), ..Rule::default() }),
        }
    }

    /// Returns a short description.
    pub(super) fn about(&self) -> String {
        match self {
            Self::Torch => "by dtype, as in torch.testing: float32 rtol 1.3e-6, atol 1e-5".to_owned(),
            Self::Tolerance(gate) => gate.text(),
            Self::Noise { k, floors, .. } => {
                let from = if floors.is_set() { "the floors of" } else { "the distance of A from" };
                format!("noise {k}, by {from} `{}`", floors.path().display())
            }
        }
    }
}

fn measured(name: &str, golden: &TensorView<'_>, truth: &TensorView<'_>) -> Result<Floor, DiffError> {
    Floor::between(golden, truth).ok_or_else(|| DiffError::Truth {
        name: name.to_owned(),
        golden: format!("{} {:?}", golden.dtype(), golden.shape()),
        found: format!("{} {:?}", truth.dtype(), truth.shape()),
    })
}

/// Returns the default of `torch.testing.assert_close`. Integers must be equal.
fn torch(dtype: Dtype) -> Gate {
    let (rtol, atol) = match dtype {
        Dtype::Float16 => (1e-3, 1e-5),
        Dtype::Bfloat16 => (1.6e-2, 1e-5),
        Dtype::Float32 | Dtype::Complex64 => (1.3e-6, 1e-5),
        Dtype::Float64 => (1e-7, 1e-7),
        _ => (0.0, 0.0),
    };
    Gate::Tolerance { rtol, atol, policy: None }
}
