//! Errors of tensor files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Dtype;
use super::view::ViewError;

/// A tensor file, or one tensor in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorPlace {
    /// The file.
    pub path: PathBuf,
    /// The tensor, when only one in the file is meant.
    pub tensor: Option<String>,
}

impl TensorPlace {
    pub(super) fn file(path: &Path) -> Self {
        Self { path: path.to_owned(), tensor: None }
    }

    pub(super) fn tensor(path: &Path, name: &str) -> Self {
        Self { path: path.to_owned(), tensor: Some(name.to_owned()) }
    }
}

impl fmt::Display for TensorPlace {
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
#[non_exhaustive]
pub enum TensorError {
    /// The operating system cannot read the file.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The operating system cannot write the file.
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The extension is that of no format in [`TensorFormat`](super::TensorFormat).
    #[error(
        "`{}` is not a tensor file: {}, expected .npy, .npz or .safetensors{}",
        path.display(),
        extension(path),
        convert_advice(&path.to_string_lossy())
    )]
    Extension { path: PathBuf },
    /// The file is a Git LFS pointer instead of the data.
    #[error("`{}` is a Git LFS pointer: the data was not fetched; run `git lfs pull`", path.display())]
    LfsPointer { path: PathBuf },
    /// The file ends too early.
    #[error("{place} is truncated: it ends after {found} bytes, {wanted} are needed")]
    Truncated { place: TensorPlace, wanted: u64, found: u64 },
    /// The file has more bytes than its header declares.
    #[error("{place} has {found} bytes, but its header declares {wanted}")]
    Longer { place: TensorPlace, wanted: u64, found: u64 },
    /// The header cannot be understood or contradicts itself.
    #[error("{place} has a bad header: {problem}")]
    Header { place: TensorPlace, problem: String },
    /// The elements have a type that is not a [`Dtype`].
    #[error("{place} holds {found}, expected one of {}", all_dtypes())]
    Dtype { place: TensorPlace, found: String },
    /// The shape and the bytes do not fit each other.
    #[error("{place} is not a valid tensor")]
    View { place: TensorPlace, source: ViewError },
    /// The archive around the tensors is damaged or ambiguous.
    #[error("{place} cannot be unpacked: {problem}")]
    Archive { place: TensorPlace, problem: String },
    /// The file has no tensor with this name.
    #[error("`{}` has no tensor `{name}`{near}", path.display())]
    Absent { path: PathBuf, name: String, near: String },
}

/// The end of a message about a PyTorch pickle: how to convert it. Empty for other files.
///
/// A pickle is a program, so we never read one. torch does, and with `weights_only` it runs no code from it.
pub fn convert_advice(path: &str) -> String {
    let stem = ["pt", "pth", "bin", "ckpt"].iter().find_map(|end| path.strip_suffix(&format!(".{end}")));
    let Some(stem) = stem else { return String::new() };
    // A name with characters that a shell or Python would interpret is replaced by a placeholder.
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

fn extension(path: &Path) -> String {
    match path.extension() {
        Some(found) => format!("its name ends in `.{}`", found.to_string_lossy().escape_debug()),
        None => "its name has no extension".to_owned(),
    }
}

fn all_dtypes() -> String {
    Dtype::ALL.map(Dtype::name).join(", ")
}
