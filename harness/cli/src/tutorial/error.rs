//! Why the tutorial cannot go on, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::error::CommandError;
use crate::init::InitError;
use mlx_parity_core::debug::TraceError;
use mlx_parity_core::run_folder::FolderError;
use mlx_parity_core::text::program::program;

/// Why the tutorial stopped. A wrong edit is no error: it gets a hint, and the step stays.
#[derive(Debug, Error)]
pub(crate) enum TutorialError {
    #[error("`{}` has files in it, but no tutorial", folder.display())]
    NotOurs { folder: PathBuf },
    #[error("`{}` has no tutorial to restart", folder.display())]
    NothingToRestart { folder: PathBuf },
    #[error("another tutorial is running in `{}`", folder.display())]
    Busy { folder: PathBuf },
    #[error(transparent)]
    Source(#[from] InitError),
    #[error("cannot find the folder of `--path`")]
    Checkout { source: io::Error },
    #[error("the tutorial in `{}` uses another mlx-parity than the options name", folder.display())]
    OtherSource { folder: PathBuf },
    #[error("the path `{}` is not valid Unicode, so `Cargo.toml` cannot contain it", path.display())]
    Unicode { path: PathBuf },
    #[error("`{}` does not hold the progress of a tutorial: {reason}", path.display())]
    State { path: PathBuf, reason: String },
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read the answer")]
    Answer { source: io::Error },
    #[error("cannot start `{program}`")]
    Start { program: String, source: io::Error },
    #[error("Cargo cannot find the dependencies of the tutorial's crate; its message is above")]
    Dependencies { folder: PathBuf },
    #[error("step `{step}` was done, but its check failed: {why}")]
    CheckFailed { step: &'static str, why: String },
    #[error(transparent)]
    Run(#[from] FolderError),
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl TutorialError {
    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}

impl CommandError for TutorialError {
    fn next(&self) -> Option<String> {
        match self {
            Self::NotOurs { .. } => Some("name a new or an empty folder".into()),
            Self::NothingToRestart { folder } => {
                Some(format!("start one with `{} tutorial {}`", program(), folder.display()))
            }
            Self::Busy { .. } => Some("continue there, or name another folder".into()),
            Self::Source(error) => error.next(),
            Self::OtherSource { .. } => Some("leave out `--path`, `--git` and `--rev` to continue, or add `--restart` to begin again".into()),
            Self::Unicode { .. } => Some("use a path of plain letters".into()),
            Self::State { path, .. } => {
                Some(format!("remove `{}` and start in another folder", path.parent().unwrap_or(path).display()))
            }
            Self::Start { .. } => Some("install Cargo (https://rustup.rs)".into()),
            Self::Dependencies { .. } => Some(
                "connect to the network, or name a local checkout of mlx-parity with `--path` and `--restart`".into(),
            ),
            Self::CheckFailed { .. } => Some("read the output above, then run the command again: it continues here".into()),
            Self::Checkout { .. } | Self::Read { .. } | Self::Write { .. } | Self::Answer { .. } | Self::Run(_) | Self::Trace(_) => None,
        }
    }
}
