//! What can be wrong with a tensor file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Dtype;
use super::view::ViewError;

/// A file, or one tensor in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The tensor in it, when the file can hold several.
    pub tensor: Option<String>,
}

impl Place {
    pub(super) fn file(path: &Path) -> Self {
        Self { path: path.to_owned(), tensor: None }
    }

    pub(super) fn tensor(path: &Path, name: &str) -> Self {
        Self { path: path.to_owned(), tensor: Some(name.to_owned()) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tensor {
            None => write!(f, "`{}`", self.path.display()),
            Some(name) => write!(f, "tensor `{}` of `{}`", name.escape_debug(), self.path.display()),
        }
    }
}

/// Why a tensor file cannot be read or written.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum TensorError {
    /// The operating system would not let us.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The operating system would not let us.
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The name does not say which kind of tensor file this is.
    #[error("`{}` is not known as a tensor file, its name must end in .npy, .npz or .safetensors", path.display())]
    Extension { path: PathBuf },
    /// Git LFS left a note instead of the data.
    #[error("`{}` is a Git LFS pointer, the data was not fetched; run `git lfs pull`", path.display())]
    LfsPointer { path: PathBuf },
    /// The file ends too early.
    #[error("{place} is truncated: it ends after {found} bytes, {wanted} are needed")]
    Truncated { place: Place, wanted: u64, found: u64 },
    /// There is more than the header accounts for.
    #[error("{place} has {found} bytes, but its header accounts for {wanted}")]
    Longer { place: Place, wanted: u64, found: u64 },
    /// The header cannot be understood or contradicts itself.
    #[error("{place} has a bad header: {problem}")]
    Header { place: Place, problem: String },
    /// The elements are of a type that no tensor here can have.
    #[error("{place} holds {found}, expected one of {}", all_dtypes())]
    Dtype { place: Place, found: String },
    /// The shape and the bytes do not go together.
    #[error("{place} cannot be seen as a tensor")]
    View { place: Place, source: ViewError },
    /// The archive around the tensors is broken or plays tricks.
    #[error("{place} cannot be unpacked: {problem}")]
    Archive { place: Place, problem: String },
    /// No tensor of that name.
    #[error("`{}` has no tensor `{name}`{near}", path.display())]
    Absent { path: PathBuf, name: String, near: String },
}

fn all_dtypes() -> String {
    Dtype::ALL.map(Dtype::name).join(", ")
}
