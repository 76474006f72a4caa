//! Where a repository keeps what the commands work on.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A repository's roots, given by its `xtask`; nothing is found by walking upwards.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
    suite_package: String,
    suite_target: String,
    exporter: Option<PathBuf>,
    specs: PathBuf,
}

impl Project {
    /// A project whose root is `root`, relative to the folder of the crate that calls this.
    ///
    /// The crate's folder is the one that Cargo names when it runs a binary (`CARGO_MANIFEST_DIR`), so that a moved
    /// checkout is found where it is now; outside Cargo it is the current folder.
    pub fn new(root: impl AsRef<Path>) -> Self {
        let crate_root =
            std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
        let root = crate_root.join(root);
        let root = std::path::absolute(root.canonicalize().as_ref().unwrap_or(&root)).unwrap_or(root);
        Self {
            root,
            suite_package: "parity-tests".into(),
            suite_target: "parity".into(),
            exporter: None,
            specs: "parity-specs".into(),
        }
    }

    /// Names the package and the test target that hold the parity suite; `parity-tests` and `parity` unless told.
    pub fn suite(mut self, package: impl Into<String>, target: impl Into<String>) -> Self {
        self.suite_package = package.into();
        self.suite_target = target.into();
        self
    }

    /// Names the folder of a Python exporter package whose own tests `cargo xtask test` also runs.
    pub fn exporter(mut self, folder: impl AsRef<Path>) -> Self {
        self.exporter = Some(self.root.join(folder));
        self
    }

    /// Names the folder of the specs, relative to the root; `parity-specs` unless told.
    pub fn specs(mut self, folder: impl AsRef<Path>) -> Self {
        self.specs = folder.as_ref().to_owned();
        self
    }

    /// Runs the command that this process was started with.
    pub fn main(self) -> ExitCode {
        super::run(&self)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the specs, as seen from the current folder where that is shorter to read.
    pub(crate) fn spec_root(&self) -> PathBuf {
        let root = self.root.join(&self.specs);
        let here = std::env::current_dir().ok();
        here.and_then(|here| root.strip_prefix(here).map(Path::to_owned).ok())
            .filter(|relative| !relative.as_os_str().is_empty())
            .unwrap_or(root)
    }

    /// What set-up makes, git-ignored: MLX for Linux, and private Python environments.
    pub(crate) fn private_folder(&self) -> PathBuf {
        self.root.join(".parity")
    }

    pub(crate) fn exporter_folder(&self) -> Option<&Path> {
        self.exporter.as_deref()
    }

    pub(crate) fn suite_package(&self) -> &str {
        &self.suite_package
    }

    pub(crate) fn suite_target(&self) -> &str {
        &self.suite_target
    }
}
