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
    #[error(
        "`{}` is not known as a tensor file, its name must end in .npy, .npz or .safetensors{}",
        path.display(),
        convert_advice(&path.to_string_lossy())
    )]
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

/// What to do about a file that PyTorch pickled, to be added to a sentence; nothing for other files.
///
/// Such a file is a program, so nothing here reads it; torch itself does with `weights_only`, which runs none of it.
pub(crate) fn convert_advice(path: &str) -> String {
    let stem = ["pt", "pth", "bin", "ckpt"].iter().find_map(|end| path.strip_suffix(&format!(".{end}")));
    let Some(stem) = stem else { return String::new() };
    // What a shell or Python would take for more than a name is left for people to write.
    let is_plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "/._-+ ".contains(c));
    let (from, to) = match is_plain(path) {
        true => (path.to_owned(), format!("{stem}.safetensors")),
        false => ("FILE.pt".to_owned(), "FILE.safetensors".to_owned()),
    };
    format!(
        "; convert it with `python -c \"import torch; from safetensors.torch import save_file; save_file({{name: \
         tensor.contiguous().clone() for name, tensor in torch.load('{from}', map_location='cpu', weights_only=True).items()}}, \
         '{to}')\"`"
    )
}

fn all_dtypes() -> String {
    Dtype::ALL.map(Dtype::name).join(", ")
}
