//! What can be wrong with a fixture set.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::manifest::{ManifestError, Role};
use crate::Class;
use crate::tensor::{Dtype, TensorError};

/// Why a fixture set, or a tensor of it, cannot be used.
///
/// Each message ends with what mends it, mostly a command; `set` is the folder under the fixture root.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum FixtureError {
    /// The spec names a folder that is not below the fixture root.
    #[error("fixtures `{set}` lead out of `{}`; name a folder below it", root.display())]
    Outside { set: String, root: PathBuf },
    /// There is no such folder.
    #[error("there are no fixtures at `{}`; {}", path.display(), regenerate(set))]
    NoSet { set: String, path: PathBuf },
    /// There is a folder without a manifest.
    #[error("there is no manifest at `{}`; {}", path.display(), regenerate(set))]
    NoManifest { set: String, path: PathBuf },
    /// The manifest is there and cannot be used.
    #[error("manifest `{}` cannot be used; {}", path.display(), mend_manifest(set, source))]
    Manifest { set: String, path: PathBuf, source: ManifestError },
    /// The operating system would not let us.
    #[error("cannot read `{}`; make it readable, or {}", path.display(), regenerate(set))]
    Read { set: String, path: PathBuf, source: io::Error },
    /// Git LFS left a note instead of the data.
    #[error("`{}` is a Git LFS pointer, the data was not fetched; run `git lfs pull`", path.display())]
    LfsPointer { set: String, path: PathBuf },
    /// The set was made by another reference than the one the spec now names.
    #[error("fixtures `{set}` are stale: {changed} since they were made; {}", regenerate(set))]
    Stale { set: String, changed: String },
    /// The manifest has no such tensor.
    #[error("fixtures `{set}` have no {} `{name}`{}; {}", role.name(), near.trim_end_matches('?'), regenerate(set))]
    NotListed { set: String, role: Role, name: String, near: String },
    /// A file that the manifest lists is not there.
    #[error("fixture file `{}` is missing; {}", path.display(), regenerate(set))]
    NoFile { set: String, path: PathBuf },
    /// A file that the manifest lists is a link to somewhere else.
    #[error("fixture file `{}` leads out of its folder; {}", path.display(), regenerate(set))]
    FileOutside { set: String, path: PathBuf },
    /// A tensor that the manifest lists is not in its file.
    #[error("tensor `{key}` is missing from `{}`; {}", path.display(), regenerate(set))]
    NoTensor { set: String, path: PathBuf, key: String },
    /// A file ends too early.
    #[error("fixture file `{}` is truncated; {}", path.display(), regenerate(set))]
    Truncated { set: String, path: PathBuf, source: Box<TensorError> },
    /// A file is no tensor file or contradicts itself.
    #[error("fixture file `{}` is corrupt; {}", path.display(), regenerate(set))]
    Unreadable { set: String, path: PathBuf, source: Box<TensorError> },
    /// A tensor is of another dtype than the manifest says.
    #[error("`{key}` of `{}` is {found}, but the manifest says {expected}; {}", path.display(), regenerate(set))]
    Dtype { set: String, path: PathBuf, key: String, expected: Dtype, found: Dtype },
    /// A tensor is of another shape than the manifest says.
    #[error("`{key}` of `{}` has shape {found:?}, but the manifest says {expected:?}; {}", path.display(), regenerate(set))]
    Shape { set: String, path: PathBuf, key: String, expected: Box<[usize]>, found: Box<[usize]> },
    /// A tensor's elements are not the ones the manifest was made for.
    #[error("`{key}` of `{}` has SHA-256 {found}, but the manifest says {expected}; {}", path.display(), regenerate(set))]
    Checksum { set: String, path: PathBuf, key: String, expected: Box<str>, found: Box<str> },
    /// A file is no longer the one that was opened.
    #[error("fixture file `{}` changed while it was in use: {how}; run again once nothing writes there", path.display())]
    Changed { set: String, path: PathBuf, how: &'static str },
    /// A file that the manifest does not list.
    #[error("`{}` is not in the manifest; move it out of the folder of `{set}`", path.display())]
    ExtraFile { set: String, path: PathBuf },
    /// A tensor that the manifest does not list.
    #[error("`{}` holds `{key}`, which is not in the manifest; {}", path.display(), regenerate(set))]
    ExtraTensor { set: String, path: PathBuf, key: String },
}

impl FixtureError {
    /// The class of a failure by this.
    ///
    /// A file that disagrees with its manifest about dtype or shape is *corrupt*: the classes *dtype* and *shape* are
    /// for actuals that disagree with a golden.
    pub fn class(&self) -> Class {
        match self {
            Self::Outside { .. } => Class::Spec,
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
            | Self::Changed { .. }
            | Self::ExtraFile { .. }
            | Self::ExtraTensor { .. } => Class::Corrupt,
        }
    }

    /// The error for a tensor file of the set that could not be read.
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
    format!("run `cargo xtask regenerate-fixtures {set}`")
}

fn mend_manifest(set: &str, error: &ManifestError) -> String {
    match error {
        ManifestError::Future { .. } => "update mlx-parity".into(),
        _ => regenerate(set),
    }
}
