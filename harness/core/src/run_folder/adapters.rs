//! What adapters change in the port: `adapters.json`.

use serde::{Deserialize, Serialize};

use crate::number;

/// The name of the file in the folder of each spec with adapters.
pub const ADAPTERS_FILE: &str = "adapters.json";

/// What the passes with and without adapters found. In a pass without adapters, the port gets zeros for each of their
/// tensors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AdapterRun {
    /// Why a pass failed, if one did.
    pub error: Option<String>,
    /// Rank and alpha of each file of adapters, as the manifest has them.
    pub scales: Vec<AdapterScale>,
    /// The changes in free passes, in the order of the run.
    pub free: Vec<AdapterChange>,
    /// The changes with every golden injected, so that each is made by the adapters of one stage. Empty if the free passes
    /// show nothing wrong.
    pub local: Vec<AdapterChange>,
}

/// The factor of a file's products: alpha divided by the rank.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AdapterScale {
    /// Rank of all products.
    pub rank: Option<u32>,
    /// The number that is divided by the rank.
    pub alpha: Option<f64>,
}

/// What adapters change at one hit of a checkpoint. All distances are root mean squares.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AdapterChange {
    /// The name of the golden, such as `blocks.0.q`.
    pub name: String,
    /// One multiple of the golden's floor, as a `noise` gate counts it.
    #[serde(with = "number")]
    pub unit: f64,
    /// How far the reference's adapters move the golden, as the manifest records it.
    #[serde(with = "number")]
    pub recorded: f64,
    /// Distance between the golden and the port without adapters. A right port has the recorded one.
    #[serde(with = "number")]
    pub without: f64,
    /// The same distance over the elements that were sampled, as are all following numbers.
    #[serde(with = "number")]
    pub reference: f64,
    /// How far the port's adapters move the tensor.
    #[serde(with = "number")]
    pub port: f64,
    /// Distance between the golden and the port with adapters.
    #[serde(with = "number")]
    pub off: f64,
    /// The multiple of the reference's change that is nearest to the port's.
    #[serde(with = "number")]
    pub factor: f64,
    /// The part of the port's change that no multiple of the reference's explains.
    #[serde(with = "number")]
    pub rest: f64,
}

/// How many floors a change may be off.
const FLOORS: f64 = 8.0;
/// The share of a change by which it may be off, if that is more.
const SHARE: f64 = 0.05;

impl AdapterChange {
    /// Measures one hit on sampled elements: of the golden, and of the port with and without adapters.
    pub fn of_samples(golden: &[f64], with: &[f64], without: &[f64]) -> Self {
        let (mut reference, mut port, mut off, mut product, mut count) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let usable = |number: f64| number.abs() < 1e30;
        for ((&golden, &with), &without) in golden.iter().zip(with).zip(without) {
            if !(usable(golden) && usable(with) && usable(without)) {
                continue;
            }
            let (theirs, ours) = (golden - without, with - without);
            reference += theirs * theirs;
            port += ours * ours;
            off += (with - golden) * (with - golden);
            product += ours * theirs;
            count += 1.0;
        }
        let factor = if reference > 0.0 { product / reference } else { 0.0 };
        let rest = (port - factor * product).max(0.0);
        let rms = |sum: f64| if count > 0.0 { (sum / count).sqrt() } else { 0.0 };
        Self {
            reference: rms(reference),
            port: rms(port),
            off: rms(off),
            rest: rms(rest),
            factor,
            ..Self::default()
        }
    }

    /// Whether the reference's adapters change this hit by more than rounding can.
    pub fn shows(&self) -> bool {
        self.recorded > FLOORS * self.unit
    }

    /// Whether the reference's adapters of this stage alone change it, if every golden was injected.
    pub fn is_touched(&self) -> bool {
        self.reference > FLOORS * self.unit
    }

    /// Whether the port without adapters is as far from the golden as the reference without adapters.
    pub fn is_right_without(&self) -> bool {
        (self.without - self.recorded).abs() <= (FLOORS * self.unit).max(SHARE * self.recorded)
    }

    /// Whether the port's adapters change the tensor as the reference's do.
    pub fn is_right(&self) -> bool {
        self.off <= (FLOORS * self.unit).max(SHARE * self.reference)
    }
}

impl AdapterRun {
    /// Whether the free passes show that the adapters are applied as in the reference.
    pub fn is_right(&self) -> bool {
        self.error.is_none()
            && self.free.iter().any(AdapterChange::shows)
            && self.free.iter().all(|change| change.is_right_without() && change.is_right())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_multiple_of_the_references_and_a_rest() {
        let without = [1.0, 2.0, 3.0, 4.0];
        let golden = [1.1, 2.0, 3.0, 4.2];
        let with = [1.2, 2.0, 3.0, 4.4];
        let change = AdapterChange::of_samples(&golden, &with, &without);
        assert!((change.factor - 2.0).abs() < 1e-12 && change.rest < 1e-7, "{change:?}");
        assert!((change.off - change.reference).abs() < 1e-12);
        let other = AdapterChange::of_samples(&golden, &[1.0, 2.1, 2.8, 4.0], &without);
        assert!(other.factor.abs() < 1e-12 && (other.rest - other.port).abs() < 1e-12, "{other:?}");
        let none = AdapterChange::of_samples(&golden, &without, &without);
        assert_eq!((none.port, none.factor, none.rest), (0.0, 0.0, 0.0));
    }
}
