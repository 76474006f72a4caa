//! Errors of fixture sets.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::entry::Role;
use super::manifest::ManifestError;
use crate::external::ExternalError;
use crate::gate::Class;
use crate::recipe::RecipeError;
use crate::tensor::{Dtype, TensorError};
use crate::text::program::program;

/// Why a fixture set, or one of its tensors, cannot be used.
///
/// Each message ends with what to do next, usually a command. `set` is the folder, relative to the fixture root.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
#[non_exhaustive]
pub enum FixtureError {
    /// The spec names a folder outside the fixture root.
    #[error("fixture folder `{set}` is outside the fixture root `{}`; name a folder inside it", root.display())]
    Outside { set: String, root: PathBuf },
    /// The folder does not exist.
    #[error("no fixtures exist at `{}`; {}", path.display(), regenerate(set))]
    NoSet { set: String, path: PathBuf },
    /// The folder has no manifest.
    #[error("no manifest exists at `{}`; {}", path.display(), regenerate(set))]
    NoManifest { set: String, path: PathBuf },
    /// The manifest cannot be used.
    #[error("manifest `{}` cannot be used; {}", path.display(), next_step(set, source))]
    Manifest { set: String, path: PathBuf, source: ManifestError },
    /// The operating system cannot read the file.
    #[error("cannot read `{}`; make it readable, or {}", path.display(), regenerate(set))]
    Read { set: String, path: PathBuf, source: io::Error },
    /// The file is a Git LFS pointer instead of the data.
    #[error("`{}` is a Git LFS pointer: the data was not fetched; run `git lfs pull`", path.display())]
    LfsPointer { set: String, path: PathBuf },
    /// The set comes from an older reference than the one that the spec names now.
    #[error("fixtures `{set}` are stale: {changed} since they were made; {}", regenerate(set))]
    Stale { set: String, changed: String },
    /// The manifest does not list the tensor.
    #[error("fixtures `{set}` have no {} `{name}`{}; {}", role.name(), near.trim_end_matches('?'), regenerate(set))]
    NotListed { set: String, role: Role, name: String, near: String },
    /// A listed file does not exist.
    #[error("fixture file `{}` is missing; {}", path.display(), regenerate(set))]
    NoFile { set: String, path: PathBuf },
    /// A listed file is a link to a place outside the folder.
    #[error("fixture file `{}` is a link that leaves its folder; {}", path.display(), regenerate(set))]
    FileOutside { set: String, path: PathBuf },
    /// A listed tensor is missing from its file.
    #[error("tensor `{key}` is missing from `{}`; {}", path.display(), regenerate(set))]
    NoTensor { set: String, path: PathBuf, key: String },
    /// A file is too short.
    #[error("fixture file `{}` is truncated; {}", path.display(), regenerate(set))]
    Truncated { set: String, path: PathBuf, source: Box<TensorError> },
    /// A file is not a tensor file or contradicts itself.
    #[error("fixture file `{}` is corrupt; {}", path.display(), regenerate(set))]
    Unreadable { set: String, path: PathBuf, source: Box<TensorError> },
    /// A tensor's dtype differs from the manifest's.
    #[error("`{key}` of `{}` is {found}, but the manifest lists {expected}; {}", path.display(), regenerate(set))]
    Dtype { set: String, path: PathBuf, key: String, expected: Dtype, found: Dtype },
    /// A tensor's shape differs from the manifest's.
    #[error("`{key}` of `{}` has shape {found:?}, but the manifest lists {expected:?}; {}", path.display(), regenerate(set))]
    Shape { set: String, path: PathBuf, key: String, expected: Box<[usize]>, found: Box<[usize]> },
    /// A tensor's checksum differs from the manifest's.
    #[error("`{key}` of `{}` has SHA-256 {found}, but the manifest lists {expected}; {}", path.display(), regenerate(set))]
    Checksum { set: String, path: PathBuf, key: String, expected: Box<str>, found: Box<str> },
    /// The checksum of a file that holds no tensors differs from the manifest's.
    #[error("`{}` has SHA-256 {found}, but the manifest lists {expected}; {}", path.display(), regenerate(set))]
    FileChecksum { set: String, path: PathBuf, expected: Box<str>, found: Box<str> },
    /// The recipe cannot be used.
    #[error("recipe `{}` cannot be used; {}", path.display(), match **source {
        RecipeError::Future { .. } => "update mlx-parity".into(),
        _ => regenerate(set),
    })]
    Recipe { set: String, path: PathBuf, source: Box<RecipeError> },
    /// External weights cannot be used.
    #[error(transparent)]
    External(#[from] ExternalError),
    /// A file changed after it was opened or verified.
    #[error("fixture file `{}` changed while it was in use: {how}; stop whatever writes there, then rerun", path.display())]
    Changed { set: String, path: PathBuf, how: &'static str },
    /// The folder holds a file that is not listed.
    #[error("`{}` is not in the manifest; move it out of the folder of `{set}`", path.display())]
    ExtraFile { set: String, path: PathBuf },
    /// A file holds a tensor that is not listed.
    #[error("`{}` holds `{key}`, which is not in the manifest; {}", path.display(), regenerate(set))]
    ExtraTensor { set: String, path: PathBuf, key: String },
}

impl FixtureError {
    /// The class of the failure.
    ///
    /// A file whose dtype or shape differs from its manifest is *corrupt*. The classes *dtype* and *shape* are for actuals
    /// that differ from a golden.
    pub fn class(&self) -> Class {
        match self {
            Self::Outside { .. } => Class::Spec,
            Self::External(error) => error.class(),
            Self::NoSet { .. }
            | Self::NoManifest { .. }
            | Self::LfsPointer { .. }
            | Self::NotListed { .. }
            | Self::NoFile { .. }
            | Self::NoTensor { .. } => Class::Missing,
            Self::Stale { .. } => Class::Stale,
            Self::Manifest { .. }
            | Self::Read { .. }
            | Self::FileOutside { .. }
            | Self::Truncated { .. }
            | Self::Unreadable { .. }
            | Self::Dtype { .. }
            | Self::Shape { .. }
            | Self::Checksum { .. }
            | Self::FileChecksum { .. }
            | Self::Recipe { .. }
            | Self::Changed { .. }
            | Self::ExtraFile { .. }
            | Self::ExtraTensor { .. } => Class::Corrupt,
        }
    }

    /// The error for a tensor file of the set that cannot be read.
    pub(super) fn from_tensor(set: &str, path: &Path, error: TensorError) -> Self {
        let (set, path) = (set.to_owned(), path.to_owned());
        match error {
            TensorError::LfsPointer { .. } => Self::LfsPointer { set, path },
            TensorError::Absent { name: key, .. } => Self::NoTensor { set, path, key },
            TensorError::Truncated { .. } => Self::Truncated { set, path, source: error.into() },
            TensorError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Self::NoFile { set, path }
            }
            TensorError::Read { source, .. } => Self::Read { set, path, source },
            other => Self::Unreadable { set, path, source: other.into() },
        }
    }
}

fn regenerate(set: &str) -> String {
    format!("run `{} regenerate-fixtures {set}`", program())
}

fn next_step(set: &str, error: &ManifestError) -> String {
    match error {
        ManifestError::Future { .. } => "update mlx-parity".into(),
        _ => regenerate(set),
    }
}
