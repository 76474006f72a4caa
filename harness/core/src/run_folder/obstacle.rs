//! Problems that keep a spec from running.

use serde::{Deserialize, Serialize};

use crate::gate::Class;
use crate::golden::FixtureError;
use crate::text::error_chain;

/// The name of the trial that reports a problem with the spec itself; it exists only then.
pub const SPEC: &str = "spec";
/// The name of the trial that checks the fixtures of a spec.
pub const FIXTURE: &str = "fixture";

/// A problem with the spec or its fixtures that must be solved before a run is useful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    /// The class of the failure.
    pub class: Class,
    /// The problem, in one line.
    pub text: String,
}

impl Obstacle {
    /// Returns the name of the trial that reports the obstacle.
    pub fn trial(&self) -> &'static str {
        if self.class == Class::Spec { SPEC } else { FIXTURE }
    }
}

impl From<FixtureError> for Obstacle {
    fn from(error: FixtureError) -> Self {
        Self { class: error.class(), text: error_chain(&error) }
    }
}
