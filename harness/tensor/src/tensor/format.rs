//! The file formats that hold tensors.

use std::path::Path;

use super::TensorError;

/// A format of tensor files, known by the extension of the file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorFormat {
    /// NumPy's format for one array.
    Npy,
    /// NumPy's archive of arrays.
    Npz,
    /// The safetensors format.
    Safetensors,
}

impl TensorFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Npy, Self::Npz, Self::Safetensors];

    /// The extension of such files, without its dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Safetensors => "safetensors",
        }
    }

    /// The format of a file, by the extension of its name alone.
    ///
    /// # Errors
    ///
    /// [`TensorError::Extension`] when the extension is none of those in [`TensorFormat::ALL`], in lower case.
    pub fn of(path: impl AsRef<Path>) -> Result<Self, TensorError> {
        let path = path.as_ref();
        let found = path.extension().unwrap_or_default();
        let format = Self::ALL.into_iter().find(|format| found == format.extension());
        format.ok_or_else(|| TensorError::Extension { path: path.to_owned() })
    }
}
