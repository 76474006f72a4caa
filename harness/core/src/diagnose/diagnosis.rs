//! The result of a diagnosis: causes, each with its residual, or facts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CauseKind, FactKind};
use crate::number::{self, WrittenFloat};

/// What was found out about a failing tensor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnosis {
    /// Explanations of the error, best first, at most three.
    pub causes: Vec<Cause>,
    /// Observations, at most three; only where nothing explains the error.
    pub facts: Vec<Fact>,
    /// Whether the golden's recipe was of use.
    pub recipe: RecipeUse,
    /// The tensors that the golden was made from; absent without a recipe.
    pub made_from: Option<MadeFrom>,
}

/// The tensors that the reference made a golden from, besides weights and constants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFrom {
    /// Goldens that the port tapped before, in the order of the reference.
    pub goldens: Vec<String>,
    /// Inputs of the reference, in its order.
    pub inputs: Vec<String>,
}

/// Whether the recipe of a golden was of use to a diagnosis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecipeUse {
    /// The fixture set has no recipe for the golden.
    #[default]
    None,
    /// The recipe gives the golden, and changes of it were tried.
    Replayed,
    /// The recipe gives a part of the golden, and changes of it were tried. The whole is too large.
    Part,
    /// The recipe has an operation that cannot be replayed.
    Unknown,
    /// The recipe does not give the golden, so it was not used.
    NotReproduced,
    /// The computation is too large to replay.
    TooLarge,
}

impl RecipeUse {
    /// This, unless the recipe was not replayed, and then `other`.
    pub(super) fn or(self, other: Self) -> Self {
        if self == Self::Replayed { self } else { other }
    }
}

/// An observation about a failing tensor. It predicts nothing, so it is no cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// The kind of fact.
    pub kind: FactKind,
    /// The fact in words: `the first 6 of 12 indices of axis 1 agree`.
    pub text: String,
    /// How many elements were read, if not all were.
    pub sampled: Option<u64>,
}

/// A kind of fact and its text, if the fact holds.
pub(super) type Observation = Option<(FactKind, String)>;

/// An explanation that holds: reversing it leaves an error near the floor or within the tolerance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// The kind of cause.
    pub kind: CauseKind,
    /// Kinds of other changes that predict the same.
    #[serde(default)]
    pub also: Vec<CauseKind>,
    /// Other changes that predict the same, in words that follow "the same as".
    #[serde(default)]
    pub same_as: Vec<String>,
    /// What the actual is, in words that follow "its output is": `the golden times 2`.
    pub text: String,
    /// The line of the reference that the cause is about, if the golden has a recipe.
    #[serde(default)]
    pub place: Option<String>,
    /// The error that is left when the cause is reversed.
    pub residual: Residual,
    /// How many elements were read, if not all were.
    pub sampled: Option<u64>,
}

impl Cause {
    /// The cause in words that follow "its output is": the text, the line of the reference, and what is the same.
    pub fn words(&self) -> String {
        let mut words = self.text.clone();
        if let Some(place) = &self.place {
            words += &format!(" ({place})");
        }
        if !self.same_as.is_empty() {
            words += &format!("; the same as {}", self.same_as.join(", or "));
        }
        words
    }
}

/// The error that an explanation leaves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Residual {
    /// Root mean square of the error that is left.
    #[serde(with = "number")]
    #[schemars(with = "WrittenFloat")]
    pub rms: f64,
    /// The same as a part of the whole error.
    #[serde(with = "number")]
    #[schemars(with = "WrittenFloat")]
    pub part: f64,
    /// Share of the checkpoint's gate that the rest would use; 1 is the limit.
    #[serde(with = "number")]
    #[schemars(with = "WrittenFloat")]
    pub used: f64,
}
