//! The settings of a project in its `Cargo.toml`, and where that file is.

use std::io;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use serde::Deserialize;
use thiserror::Error;

use super::cargo::cargo;
use crate::error::CommandError;
use mlx_parity_core::files::regular::{TEXT, read_text};

/// Why a project's settings cannot be known.
#[derive(Debug, Error)]
pub(crate) enum ManifestError {
    #[error("`{}` is not in a Cargo project: neither this folder nor one above it has a `Cargo.toml`", folder.display())]
    NoCargoProject { folder: PathBuf },
    #[error("cannot determine the current folder")]
    CurrentFolder { source: io::Error },
    #[error("cannot start Cargo to find the workspace of `{}`", manifest.display())]
    Start { manifest: PathBuf, source: io::Error },
    #[error("Cargo cannot find the workspace of `{}`: {output}", manifest.display())]
    Locate { manifest: PathBuf, output: String },
    #[error("the path of the workspace of `{}` is not valid UTF-8", manifest.display())]
    NotUtf8 { manifest: PathBuf, source: FromUtf8Error },
    #[error("cannot read `{}`", manifest.display())]
    Read { manifest: PathBuf, source: io::Error },
    #[error("`{}` has invalid settings", manifest.display())]
    Settings { manifest: PathBuf, source: Box<toml::de::Error> },
    #[error(
        "`{}` has both `[workspace.metadata.parity]` and `[package.metadata.parity]`, but only one is allowed",
        manifest.display()
    )]
    TwoTables { manifest: PathBuf },
    #[error(
        "`{}` has `[package.metadata.parity]`, but settings must be in the workspace's manifest `{}`",
        member.display(),
        manifest.display()
    )]
    InMember { member: PathBuf, manifest: PathBuf },
}

impl CommandError for ManifestError {
    fn next(&self) -> Option<String> {
        match self {
            Self::NoCargoProject { .. } => {
                Some("run it inside a Cargo project, or name one with `--manifest-path <PATH>`".into())
            }
            Self::Start { .. } => Some("install Cargo (https://rustup.rs)".into()),
            Self::Locate { .. } => {
                Some("correct the manifest; `cargo metadata --no-deps` shows the same error".into())
            }
            Self::Settings { .. } => Some("correct the line, or remove it to use the default".into()),
            Self::TwoTables { .. } => Some("keep `[workspace.metadata.parity]` and remove the other".into()),
            Self::InMember { manifest, .. } => {
                Some(format!("move it to `[workspace.metadata.parity]` in `{}`", manifest.display()))
            }
            Self::CurrentFolder { .. } | Self::NotUtf8 { .. } | Self::Read { .. } => None,
        }
    }
}

/// The table `parity` of a manifest; every key may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParityTable {
    pub(crate) specs: Option<PathBuf>,
    pub(crate) fixtures: Option<PathBuf>,
    pub(crate) suite: Option<String>,
    pub(crate) exporter: Option<PathBuf>,
    pub(crate) references: Option<PathBuf>,
    pub(crate) fault_bench: Option<FaultBenchTable>,
    pub(crate) setup: Option<bool>,
}

/// The key `fault_bench` of that table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultBenchTable {
    pub(crate) file: PathBuf,
    pub(crate) unseen: Option<PathBuf>,
    pub(crate) package: String,
    pub(crate) binary: String,
}

/// What is read of a manifest; Cargo checks everything else in it.
#[derive(Debug, Deserialize)]
struct CargoToml {
    workspace: Option<WithMetadata>,
    package: Option<WithMetadata>,
}

#[derive(Debug, Deserialize)]
struct WithMetadata {
    metadata: Option<Metadata>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    parity: Option<ParityTable>,
}

impl CargoToml {
    fn read(manifest: &Path) -> Result<Self, ManifestError> {
        let text = read_text(manifest, TEXT)
            .map_err(|source| ManifestError::Read { manifest: manifest.to_owned(), source })?;
        toml::from_str(&text).map_err(|source| ManifestError::Settings {
            manifest: manifest.to_owned(),
            source: Box::new(source),
        })
    }
}

fn parity(section: Option<WithMetadata>) -> Option<ParityTable> {
    section?.metadata?.parity
}

/// Returns the table of a workspace's manifest: `[workspace.metadata.parity]`, or `[package.metadata.parity]` of its root
/// package. Without either, every key has its default.
pub(crate) fn settings(manifest: &Path) -> Result<ParityTable, ManifestError> {
    let CargoToml { workspace, package } = CargoToml::read(manifest)?;
    match (parity(workspace), parity(package)) {
        (Some(_), Some(_)) => Err(ManifestError::TwoTables { manifest: manifest.to_owned() }),
        (workspace, package) => Ok(workspace.or(package).unwrap_or_default()),
    }
}

/// Returns the manifest of the workspace that `manifest_path` belongs to, or else the `Cargo.toml` nearest to the current
/// folder, upwards. Cargo decides which workspace that is.
///
/// A package of the workspace that has settings of its own, which nothing would read, is an error.
pub(crate) fn workspace_manifest(manifest_path: Option<&Path>) -> Result<PathBuf, ManifestError> {
    let folder = std::env::current_dir().map_err(|source| ManifestError::CurrentFolder { source })?;
    let nearest = match manifest_path {
        Some(path) => folder.join(path),
        None => folder
            .ancestors()
            .map(|folder| folder.join("Cargo.toml"))
            .find(|path| path.is_file())
            .ok_or_else(|| ManifestError::NoCargoProject { folder: folder.clone() })?,
    };
    let output = cargo(&folder)
        .args(["locate-project", "--workspace", "--message-format", "plain", "--manifest-path"])
        .arg(&nearest)
        .output()
        .map_err(|source| ManifestError::Start { manifest: nearest.clone(), source })?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr);
        let output = output.trim().strip_prefix("error: ").unwrap_or(output.trim()).to_owned();
        return Err(ManifestError::Locate { manifest: nearest, output });
    }
    let found = String::from_utf8(output.stdout)
        .map_err(|source| ManifestError::NotUtf8 { manifest: nearest.clone(), source })?;
    let manifest = PathBuf::from(found.trim_end_matches(['\r', '\n']));
    let is_member = nearest.canonicalize().ok() != manifest.canonicalize().ok();
    if is_member && parity(CargoToml::read(&nearest)?.package).is_some() {
        return Err(ManifestError::InMember { member: nearest, manifest });
    }
    Ok(manifest)
}
