//! The progress of a tutorial: a file in its folder, which also marks the folder as a tutorial's own.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::TutorialError;
use crate::init::CrateSource;
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::files::regular::{TEXT, read};

/// The name of the file.
const FILE: &str = ".parity-tutorial.json";
/// The version of its format.
const FORMAT: u32 = 1;

/// How far a tutorial is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    format: u32,
    /// The step to do next; `None` after the last one.
    pub(super) step: Option<String>,
    /// Where the crate gets mlx-parity from.
    pub(super) source: CrateSource,
}

impl State {
    /// Returns the state of a tutorial whose next step is `step`.
    pub(super) fn at(step: Option<&str>, source: CrateSource) -> Self {
        Self { format: FORMAT, step: step.map(str::to_owned), source }
    }

    /// Reads the state in `folder`; `None` if no tutorial was started there.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, TutorialError> {
        let path = path(folder);
        let bytes = match read(&path, TEXT) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(TutorialError::read(&path, source)),
        };
        let wrong = |reason: String| TutorialError::State { path: path.clone(), reason };
        let state: Self = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        match state.format {
            FORMAT => Ok(Some(state)),
            other => Err(wrong(format!("its format is {other}, and this version reads {FORMAT}"))),
        }
    }

    /// Returns the error for a state in `folder` whose step is none of the `known` ones.
    pub(super) fn wrong_step(folder: &Path, found: &str, known: &[&str]) -> TutorialError {
        let reason = format!("its step is `{found}`, expected one of `{}`", known.join("`, `"));
        TutorialError::State { path: path(folder), reason }
    }

    /// Replaces the state in `folder`.
    pub(super) fn write(&self, folder: &Path) -> Result<(), TutorialError> {
        let path = path(folder);
        let text =
            serde_json::to_vec_pretty(self).map_err(|error| TutorialError::write(&path, error.into()))?;
        write_atomically(&path, |out| out.write_all(&text))
            .map_err(|source| TutorialError::write(&path, source))
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(State::read(folder.path()).unwrap(), None);
        for step in [Some("fix"), None] {
            let state = State::at(step, CrateSource::Git { url: "https://x.test".into(), revision: None });
            state.write(folder.path()).unwrap();
            assert_eq!(State::read(folder.path()).unwrap(), Some(state));
        }
    }

    #[test]
    fn what_is_no_state_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{}", r#"{"format": 2, "step": null, "source": {"path": "x"}}"#] {
            std::fs::write(path(folder.path()), text).unwrap();
            let error = State::read(folder.path()).unwrap_err();
            assert!(error.to_string().contains(FILE), "{error}");
        }
    }
}
