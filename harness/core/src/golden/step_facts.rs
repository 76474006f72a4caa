//! How a step of the reference's optimiser made a golden.

use serde::{Deserialize, Serialize};

/// A step of the reference's optimiser: which parameter it changed, and with which settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFacts {
    /// The number of the step, from 1.
    pub number: u32,
    /// The weight that the step changes, as the manifest names it.
    pub parameter: String,
    /// The optimiser's class in lower case, such as `adamw`.
    pub optimizer: String,
    /// The golden with the gradient that the step used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient: Option<String>,
    /// The part of the optimiser's state, such as `exp_avg`; `None` for the parameter itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Learning rate.
    #[serde(default)]
    pub lr: f64,
    /// Decay of the first and of the second moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub betas: Option<(f64, f64)>,
    /// Added to the divisor.
    #[serde(default)]
    pub eps: f64,
    /// Weight decay.
    #[serde(default)]
    pub weight_decay: f64,
    /// Momentum.
    #[serde(default)]
    pub momentum: f64,
    /// Dampening of the momentum.
    #[serde(default)]
    pub dampening: f64,
    /// Whether the momentum is that of Nesterov.
    #[serde(default)]
    pub nesterov: bool,
    /// Whether Adam divides by the largest second moment so far.
    #[serde(default)]
    pub amsgrad: bool,
    /// Whether the step ascends.
    #[serde(default)]
    pub maximize: bool,
    /// Whether Adam corrects the bias of its moments.
    #[serde(default)]
    pub bias_correction: bool,
}

impl StepFacts {
    /// Why these facts cannot be those of a golden; `None` if they can.
    pub(super) fn problem(&self) -> Option<String> {
        let (first, second) = self.betas.unwrap_or_default();
        let numbers = [self.lr, self.eps, self.weight_decay, self.momentum, self.dampening, first, second];
        if self.number == 0 {
            return Some("its step has the number 0, expected 1 or more".to_owned());
        }
        let wrong = numbers.iter().find(|number| !number.is_finite())?;
        Some(format!("its step has the setting {wrong}, expected a finite number"))
    }
}
