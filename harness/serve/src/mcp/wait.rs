//! The argument of every tool that can wait.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::failure::{Failure, FailureKind};

/// How long to wait.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    /// Seconds to wait for an end or a stop, from 0 to 600
    #[serde(default)]
    pub(super) wait_seconds: Option<f64>,
}

impl Wait {
    /// The time to wait, or `default`.
    pub(super) fn or(self, default: u64) -> Result<Duration, Failure> {
        let Some(seconds) = self.wait_seconds else { return Ok(Duration::from_secs(default)) };
        if (0.0..=600.0).contains(&seconds) {
            return Ok(Duration::from_secs_f64(seconds));
        }
        Err(Failure::new(FailureKind::Malformed, format!("wait_seconds is {seconds}, expected 0 to 600")))
    }
}
