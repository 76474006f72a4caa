//! Gates, rules and classes: the vocabulary of a verdict, which all other modules share.

mod class;
mod kinds;
mod rule;

pub use class::{Class, Phase};
pub use kinds::USUAL_NOISE;
pub use rule::{DistributionLimits, Floor, Gate, Rule, TopK};
