//! `spec.json` in a run folder: the spec that was run.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::spec::Spec;

/// The content of `spec.json`: the expanded spec and its digest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpecFile {
    /// The digest of the spec.
    pub digest: String,
    /// The spec.
    pub spec: Arc<Spec>,
}

impl SpecFile {
    /// Returns the content for `spec`.
    pub fn of(spec: &Arc<Spec>) -> Self {
        Self { digest: spec.digest(), spec: Arc::clone(spec) }
    }
}

/// Why the spec in a run folder cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpecFileError {
    /// The file does not exist.
    #[error("`{path}` does not exist; run the spec again")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file was changed after it was written.
    #[error("`{path}` is not the spec that was run: its digest differs; run the spec again")]
    Changed {
        /// The file.
        path: PathBuf,
    },
}
