//! The class of a failure, and the phase of the check that found it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a checkpoint, a fixture set, a weight set or a spec failed.
///
/// A failure has exactly one class: that of the first check that did not hold. [`Class::phase`] is when that check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Class {
    /// The spec cannot be used as it stands.
    Spec,
    /// The fixture set or one of its files does not exist.
    Missing,
    /// The golden comes from an older reference than the one that the spec names now.
    Stale,
    /// A fixture file or the manifest exists, but cannot be read or trusted.
    Corrupt,
    /// The worker ended before this checkpoint: error, panic, signal or timeout.
    Crash,
    /// The port finished without reaching this tap.
    Unreached,
    /// The port reached the tap more or fewer times than the spec declares.
    Hits,
    /// The shapes differ.
    Shape,
    /// The dtypes differ.
    Dtype,
    /// A cache holds other positions than the reference's.
    Positions,
    /// NaN or infinity on one side, and something else on the other.
    Finite,
    /// The floor is so high that agreement would prove nothing.
    Untestable,
    /// Values are outside the gate.
    Value,
    /// The port chooses other ids than the reference, where the reference's choice is no tie.
    Choice,
    /// Values are inside the gate, but their error is a factor or an offset, which rounding does not give.
    Systematic,
    /// No gradient reaches a parameter that has one in the reference.
    Gradient,
    /// Values are outside the declared range.
    Range,
    /// The port never asked for an input that the spec declares.
    Unused,
    /// The port drew from MLX's global random state.
    Random,
    /// Weights were missing, unused, or different from what the port or the spec expects.
    Weights,
    /// Adapters were missing or unused, or change the port differently than the reference.
    Adapters,
    /// The port's statistics differ from the accepted ones.
    Stats,
    /// The port uses more memory than the spec allows.
    Memory,
}

/// When the check behind a [`Class`] runs. Phases are ordered: a later one matters only when all earlier ones passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// Before the port runs, on the spec and its goldens: a failure has nothing to do with the port.
    Setup,
    /// While the port runs: whether it reached the tap as often as declared.
    Run,
    /// On the shape and the dtype of an actual, without its values.
    Form,
    /// On the values of an actual beside its golden.
    Values,
    /// On the values of an actual alone.
    Range,
    /// After the run, on the run as a whole.
    Audit,
}

impl Class {
    /// The class in a few words, for the first line of a failure.
    pub fn headline(self) -> &'static str {
        match self {
            Self::Spec => "the spec cannot be used",
            Self::Missing => "the golden is missing",
            Self::Stale => "the golden is stale",
            Self::Corrupt => "the fixtures cannot be trusted",
            Self::Crash => "crash",
            Self::Unreached => "never reached",
            Self::Hits => "wrong number of hits",
            Self::Shape => "shape differs",
            Self::Dtype => "dtype differs",
            Self::Positions => "the positions in the cache differ",
            Self::Finite => "NaN or infinity differs",
            Self::Untestable => "the floor is too high to test this",
            Self::Value => "value differs",
            Self::Choice => "choice differs",
            Self::Systematic => "a systematic error below the gate",
            Self::Gradient => "no gradient reaches this parameter",
            Self::Range => "out of range",
            Self::Unused => "an input is never used",
            Self::Random => "random numbers were drawn",
            Self::Weights => "the weight audit failed",
            Self::Adapters => "the adapters are not applied as in the reference",
            Self::Stats => "statistics differ from the snapshot",
            Self::Memory => "the port uses too much memory",
        }
    }

    /// The word for this class in records and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Missing => "missing",
            Self::Stale => "stale",
            Self::Corrupt => "corrupt",
            Self::Crash => "crash",
            Self::Unreached => "unreached",
            Self::Hits => "hits",
            Self::Shape => "shape",
            Self::Dtype => "dtype",
            Self::Positions => "positions",
            Self::Finite => "finite",
            Self::Untestable => "untestable",
            Self::Value => "value",
            Self::Choice => "choice",
            Self::Systematic => "systematic",
            Self::Gradient => "gradient",
            Self::Range => "range",
            Self::Unused => "unused",
            Self::Random => "random",
            Self::Weights => "weights",
            Self::Adapters => "adapters",
            Self::Stats => "stats",
            Self::Memory => "memory",
        }
    }

    /// When the check that gives this class runs.
    pub const fn phase(self) -> Phase {
        match self {
            Self::Spec | Self::Missing | Self::Stale | Self::Corrupt => Phase::Setup,
            Self::Crash | Self::Unreached | Self::Hits => Phase::Run,
            Self::Shape | Self::Dtype => Phase::Form,
            Self::Positions
            | Self::Finite
            | Self::Untestable
            | Self::Value
            | Self::Choice
            | Self::Systematic
            | Self::Gradient => Phase::Values,
            Self::Range => Phase::Range,
            Self::Unused | Self::Random | Self::Weights | Self::Adapters | Self::Stats | Self::Memory => {
                Phase::Audit
            }
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(phase: Phase, classes: &[Class]) {
        for class in classes {
            assert_eq!(class.phase(), phase, "{class}");
        }
    }

    #[test]
    fn every_class_has_the_phase_of_its_check() {
        check(Phase::Setup, &[Class::Spec, Class::Missing, Class::Stale, Class::Corrupt]);
        check(Phase::Run, &[Class::Crash, Class::Unreached, Class::Hits]);
        check(Phase::Form, &[Class::Shape, Class::Dtype]);
        check(Phase::Values, &[Class::Positions]);
        let values = [Class::Finite, Class::Untestable, Class::Value, Class::Choice, Class::Systematic];
        check(Phase::Values, &values);
        check(Phase::Values, &[Class::Gradient]);
        check(Phase::Range, &[Class::Range]);
        let audits =
            [Class::Unused, Class::Random, Class::Weights, Class::Adapters, Class::Stats, Class::Memory];
        check(Phase::Audit, &audits);
    }

    #[test]
    fn phases_come_in_the_order_of_the_checks() {
        let order = [Phase::Setup, Phase::Run, Phase::Form, Phase::Values, Phase::Range, Phase::Audit];
        assert!(order.is_sorted());
    }
}
