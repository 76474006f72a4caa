//! Why a reference's environment cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::error::CommandError;
use crate::python::PythonError;

#[derive(Debug, Error)]
pub(crate) enum ReferencesError {
    #[error(transparent)]
    Python(#[from] PythonError),
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read `{path}`: {source}")]
    Toml { path: PathBuf, source: Box<toml::de::Error> },
    #[error("`{script}`, line {line}: `{found}` does not name an environment: {reason}")]
    Line { script: PathBuf, line: usize, found: String, reason: String },
    #[error("`{script}` asks for the environment `{found}`, but the groups are `{known}`")]
    UnknownGroup { script: PathBuf, found: String, known: String },
    #[error("`{}` has a `pyproject.toml`, but no `uv.lock`", folder.display())]
    NoLock { folder: PathBuf },
    #[error("cannot run `{program}`")]
    NoUv { program: String, source: io::Error },
    #[error("uv could not make the environment: {reason}")]
    Sync { reason: String },
    #[error("`{}` does not work: {reason}", program.display())]
    Broken { program: PathBuf, reason: String },
    #[error("the environment `{}` does not match its lock: {faults}", environment.display())]
    Drifted { environment: PathBuf, faults: String },
    #[error("nothing was downloaded, so the references cannot run")]
    Declined,
    #[error("references need {download}, but there is no terminal to ask on")]
    NotAsked { download: String },
}

impl ReferencesError {
    /// The error for an environment with these differences, of which the first few are named.
    pub(super) fn drifted(environment: &Path, faults: &[String]) -> Self {
        const NAMED: usize = 4;
        let mut text = faults[..faults.len().min(NAMED)].join(", ");
        if faults.len() > NAMED {
            text += &format!(" and {} more", faults.len() - NAMED);
        }
        Self::Drifted { environment: environment.to_owned(), faults: text }
    }
}

impl CommandError for ReferencesError {
    fn next(&self) -> Option<String> {
        Some(match self {
            Self::Python(error) => return error.next(),
            Self::Read { .. } => "restore the file (`uv lock` in that folder writes uv.lock), then rerun the command".into(),
            Self::Write { .. } => "free some space or fix the permissions, then rerun the command".into(),
            Self::Toml { path, .. } => format!("fix `{}`", path.display()),
            Self::Line { .. } => "write it as `# parity: environment = \"torch\"`".into(),
            Self::UnknownGroup { .. } => {
                "name one of them, or add the group to `[dependency-groups]` beside uv.lock and run `uv lock` there".into()
            }
            Self::NoLock { folder } => format!(
                "run `cargo xtask init`, which makes the lock with uv, or `uv lock` in `{}`",
                folder.display()
            ),
            Self::NoUv { .. } | Self::Sync { .. } => {
                "check that uv reaches its package index (network, proxy, UV_INDEX_URL) and that uv.lock belongs to \
                 pyproject.toml, then rerun the command; finished downloads are kept"
                    .into()
            }
            Self::Broken { .. } | Self::Drifted { .. } => {
                "remove `.parity/references`, then run `cargo xtask regenerate-fixtures`, which makes it from the lock"
                    .into()
            }
            Self::Declined => "rerun the command when you want to download them".into(),
            Self::NotAsked { .. } => "pass `--yes` to fetch them".into(),
        })
    }
}
