//! The packages of the project's workspace, as Cargo lists them.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use super::cargo::cargo;

/// Why Cargo could not list the packages.
#[derive(Debug, Error)]
pub(crate) enum WorkspaceError {
    #[error("cannot start Cargo")]
    Start { source: io::Error },
    #[error("Cargo cannot list the packages: {output}")]
    Metadata { output: String },
}

impl WorkspaceError {
    /// Returns what to do about it.
    pub(crate) fn next(&self) -> String {
        match self {
            Self::Start { .. } => "install Cargo (https://rustup.rs)".into(),
            Self::Metadata { .. } => {
                "run `cargo metadata --no-deps` in the project's root, and correct what it reports".into()
            }
        }
    }
}

/// One package of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) targets: Vec<Target>,
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
    pub(crate) name: String,
}

/// One dependency, as the manifest declares it.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// The versions that it allows, such as `^0.33`.
    pub(crate) req: String,
    /// The registry or the repository; none for a path.
    pub(crate) source: Option<String>,
}

impl Package {
    /// The folder of the package.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }

    /// Whether the package has a target of this kind, and of this name if one is given.
    pub(crate) fn has_target(&self, kind: &str, name: Option<&str>) -> bool {
        self.targets.iter().any(|target| {
            target.kind.iter().any(|one| one == kind) && name.is_none_or(|name| target.name == name)
        })
    }
}

/// Lists the packages of the workspace at `root`. Needs no network.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>, WorkspaceError> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let output = cargo(root)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .output()
        .map_err(|source| WorkspaceError::Start { source })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        return Err(WorkspaceError::Metadata { output: lines.join("; ") });
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| WorkspaceError::Metadata { output: error.to_string() })?;
    Ok(metadata.packages)
}
