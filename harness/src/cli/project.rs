//! Where a repository keeps what the commands work on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::refused::RefusedError;
use crate::root::{Place, RootError};

/// A repository's roots, given by its `xtask`; nothing is found by walking upwards.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
    specs: PathBuf,
    fixtures: PathBuf,
    suite: String,
    exporter: Option<PathBuf>,
    references: Option<PathBuf>,
    sets_up: bool,
    bench: Option<Bench>,
    /// Why the root is not that of the checkout that runs.
    misplaced: Option<RootError>,
}

/// Where the faults of a project are.
#[derive(Debug, Clone)]
pub(crate) struct Bench {
    /// From the root.
    pub(crate) file: PathBuf,
    pub(crate) package: String,
    pub(crate) binary: String,
}

impl Project {
    /// A project whose root is `root`, relative to the folder of the crate that calls this, with its specs and its
    /// fixtures in these folders of the root.
    ///
    /// The crate's folder is the one that Cargo names when it runs a binary (`CARGO_MANIFEST_DIR`), so that a moved
    /// checkout is found where it is now; outside Cargo it is the current folder. An absolute root must contain the crate,
    /// or outside Cargo the running program: every command fails where it does not.
    pub fn new(root: impl AsRef<Path>, specs: impl Into<PathBuf>, fixtures: impl Into<PathBuf>) -> Self {
        let (root, misplaced) = match Place::here().project_root(root.as_ref()) {
            Ok(root) => (root, None),
            Err(error) => (root.as_ref().to_owned(), Some(error)),
        };
        let (specs, fixtures) = (specs.into(), fixtures.into());
        Self {
            root,
            specs,
            fixtures,
            suite: "parity".into(),
            exporter: None,
            references: None,
            sets_up: true,
            bench: None,
            misplaced,
        }
    }

    /// Names the test target of the workspace that is the parity suite; `parity` unless told.
    pub fn suite(mut self, target: impl Into<String>) -> Self {
        self.suite = target.into();
        self
    }

    /// Names the folder of a Python exporter package whose own tests `cargo xtask test` also runs.
    pub fn exporter(mut self, folder: impl AsRef<Path>) -> Self {
        self.exporter = Some(self.root.join(folder));
        self
    }

    /// Names the folder with the `pyproject.toml` and `uv.lock` of the environments that reference scripts run in;
    /// `exporter/references` unless told, if it has them.
    ///
    /// Without any, references run with the machine's own Python.
    pub fn references(mut self, folder: impl AsRef<Path>) -> Self {
        self.references = Some(self.root.join(folder));
        self
    }

    /// Names what `cargo xtask fault-bench` runs: the YAML file that lists faults, from the root, and the package and the
    /// binary whose suite has their ports.
    ///
    /// That suite is an ordinary one that says so with `Suite::fault_bench`, and registers each port as it is and, as
    /// `<port>/<fault>`, with each fault.
    pub fn fault_bench(
        mut self,
        file: impl Into<PathBuf>,
        package: impl Into<String>,
        binary: impl Into<String>,
    ) -> Self {
        self.bench = Some(Bench { file: file.into(), package: package.into(), binary: binary.into() });
        self
    }

    /// Leaves MLX to the repository: only `cargo xtask setup` itself, not every command, sees to it.
    pub fn without_setup(mut self) -> Self {
        self.sets_up = false;
        self
    }

    /// Runs the command that this process was started with.
    pub fn main(self) -> ExitCode {
        super::run(&self)
    }

    /// Whether the root is that of the checkout that runs.
    pub(super) fn placed(&self) -> Result<(), RefusedError> {
        self.misplaced.clone().map_or(Ok(()), |error| Err(error.into()))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What set-up makes, git-ignored: MLX for Linux, and private Python environments.
    pub(crate) fn private_folder(&self) -> PathBuf {
        self.root.join(".parity")
    }

    /// Has git ignore the private folder, which must be there.
    pub(crate) fn keep_git_away(&self) -> io::Result<()> {
        let ignore = self.private_folder().join(".gitignore");
        if ignore.exists() { Ok(()) } else { fs::write(ignore, "*\n") }
    }

    pub(crate) fn exporter_folder(&self) -> Option<&Path> {
        self.exporter.as_deref()
    }

    /// Where the references' environments are locked, if anywhere; one that was named need not be there.
    pub(crate) fn references_folder(&self) -> Option<PathBuf> {
        let default = self.root.join("exporter/references");
        self.references.clone().or_else(|| default.join("pyproject.toml").is_file().then_some(default))
    }

    pub(crate) fn spec_root(&self) -> PathBuf {
        self.root.join(&self.specs)
    }

    /// Where fixtures are, with the same override as the suite has.
    pub(crate) fn fixture_root(&self) -> PathBuf {
        self.root.join(std::env::var_os("PARITY_FIXTURES").unwrap_or_else(|| self.fixtures.clone().into()))
    }

    /// Whether the fixtures are the project's own, not a root that other projects may use too.
    pub(crate) fn has_own_fixtures(&self) -> bool {
        self.fixture_root() == self.root.join(&self.fixtures)
    }

    /// Whether commands that need MLX see to it first.
    pub(crate) fn sets_up(&self) -> bool {
        self.sets_up
    }

    pub(crate) fn bench(&self) -> Option<&Bench> {
        self.bench.as_ref()
    }

    pub(crate) fn suite_target(&self) -> &str {
        &self.suite
    }
}
