//! The first faulty stage of a port, from the free run and the run with every golden injected.

use crate::diagnose::{Cause, Fact, MadeFrom, RecipeUse};
use crate::gate::Class;

/// The result of the two runs.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one per spec")]
pub enum Localisation {
    /// No stage is red on golden inputs, nor in the free run if there was one.
    Right,
    /// The first faulty stage.
    Culprit(Culprit),
    /// The free run is red, but no stage is red on golden inputs. Holds the growths of the error, largest first.
    Drift(Vec<Growth>),
    /// The injected run judged no stage; holds the name of the trial that reports why.
    Unknown(String),
}

/// The first faulty stage: the first one that is wrong on golden inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    /// The name of the checkpoint.
    pub name: String,
    /// The class of its failure.
    pub class: Class,
    /// The tap before it, whose golden was its input; `None` when it works from the inputs of the port.
    pub after: Option<String>,
    /// The tensors that the reference made its golden from, if a recipe shows it.
    pub made_from: Option<MadeFrom>,
    /// For a stage that was never reached, the tap that the run reached in its place.
    pub before: Option<String>,
    /// Whether the port reached it.
    pub is_reached: bool,
    /// Later stages that are also red on golden inputs.
    pub also: Vec<AlsoRed>,
    /// How to narrow the place down.
    pub closer: Closer,
    /// Causes that explain the error, best explanation first.
    pub causes: Vec<Cause>,
    /// Facts about an error that no cause explains.
    pub facts: Vec<Fact>,
    /// Whether the golden's recipe was of use.
    pub recipe: RecipeUse,
}

/// A later stage that is also red on golden inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct AlsoRed {
    /// The name of the checkpoint.
    pub name: String,
    /// The class of its failure.
    pub class: Class,
    /// The best explanation of its error, if there is one.
    pub cause: Option<Cause>,
}

/// How to narrow down the place between the first faulty stage and the tap before it.
#[derive(Debug, Clone, PartialEq)]
pub enum Closer {
    /// Checkpoints there that were never reached, by the order of the reference or else of the spec.
    Unreached(Vec<String>),
    /// Checkpoints there at this deeper level, which the run did not check.
    Level(u8, Vec<String>),
    /// Taps there that the spec does not declare.
    Undeclared(Vec<String>),
    /// No taps there: the port needs more.
    Taps,
}

/// The growth of the relative error from one stage to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// The stage with the larger error.
    pub name: String,
    /// The stage before it.
    pub after: String,
    /// The ratio of the two relative errors.
    pub factor: f64,
}
