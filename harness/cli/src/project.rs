//! Where a repository keeps what the commands work on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::error::CommandError;
use super::manifest::{FaultBenchTable, ManifestError, ParityTable, settings, workspace_manifest};
use mlx_parity_core::root::{ProcessPlace, RootError};
use mlx_parity_core::settings;
use mlx_parity_core::text::program::program;

/// The roots of a repository, and the commands that work on them.
///
/// An `xtask` crate builds one and calls [`Project::main`]. The program `cargo parity` builds its own from the
/// repository's `Cargo.toml`, as [`Project::from_manifest`] does. The [crate's page](crate) has an example of each.
#[derive(Debug)]
pub struct Project {
    layout: Layout,
    bench: Option<Bench>,
    /// Why no command can be run here.
    refused: Option<ProjectError>,
}

/// What the commands work on, and where it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layout {
    /// The folder of the project. Relative paths start there.
    root: PathBuf,
    specs: PathBuf,
    fixtures: PathBuf,
    /// The test target that is the parity suite.
    suite: String,
    exporter: Option<PathBuf>,
    references: Option<PathBuf>,
    /// Whether commands that need MLX set it up first.
    sets_up: bool,
}

/// Why no command can work on a project.
#[derive(Debug, Error)]
pub(crate) enum ProjectError {
    #[error(transparent)]
    Root(#[from] RootError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl CommandError for ProjectError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Root(_) => None,
            Self::Manifest(error) => error.next(),
        }
    }
}

/// A project for another process of ours.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// The version of mlx-parity that wrote this.
    pub(crate) version: String,
    /// The words that start a command: `cargo parity` or `cargo xtask`.
    pub(crate) program: String,
    layout: Layout,
}

/// Where the faults of a project are.
#[derive(Debug, Clone)]
pub(crate) struct Bench {
    /// From the root.
    pub(crate) file: PathBuf,
    /// Faults that no search for causes was tuned to, from the root. They are scored apart.
    pub(crate) unseen: Option<PathBuf>,
    pub(crate) package: String,
    pub(crate) binary: String,
}

impl Project {
    /// Returns a project with its specs and its fixtures in these folders of `root`.
    ///
    /// A relative `root` starts at the folder of the crate that calls this: the folder that Cargo names when it runs a
    /// binary (`CARGO_MANIFEST_DIR`), so that a moved checkout is found where it is now. Outside Cargo it starts at the
    /// current folder.
    ///
    /// # Errors
    ///
    /// An absolute `root` must contain that crate, or outside Cargo the running program. Where it does not, every command
    /// fails and names both paths.
    pub fn new(root: impl AsRef<Path>, specs: impl Into<PathBuf>, fixtures: impl Into<PathBuf>) -> Self {
        let (root, refused) = match ProcessPlace::here().project_root(root.as_ref()) {
            Ok(root) => (root, None),
            Err(error) => (root.as_ref().to_owned(), Some(error.into())),
        };
        let mut project = Self::at(root, ParityTable::default());
        (project.layout.specs, project.layout.fixtures) = (specs.into(), fixtures.into());
        Self { refused, ..project }
    }

    /// Returns the project at `root`, with the settings that the `Cargo.toml` there has in
    /// `[workspace.metadata.parity]`, or in `[package.metadata.parity]` where the root is a single package.
    ///
    /// A relative `root` starts where that of [`Project::new`] does. The [crate's page](crate) lists the keys and their
    /// defaults.
    ///
    /// # Errors
    ///
    /// Where the manifest cannot be read, has both tables, or has a key or a value that is not allowed, every command
    /// fails and names the file, the line and the keys that are allowed.
    pub fn from_manifest(root: impl AsRef<Path>) -> Self {
        let project = Self::new(root, "", "");
        let root = project.layout.root;
        let read = settings(&root.join("Cargo.toml"));
        match (project.refused, read) {
            (None, Ok(table)) => Self::at(root, table),
            (Some(refused), _) => Self { refused: Some(refused), ..Self::at(root, ParityTable::default()) },
            (None, Err(error)) => {
                Self { refused: Some(error.into()), ..Self::at(root, ParityTable::default()) }
            }
        }
    }

    /// Returns the project around `manifest_path`, or else around the current folder.
    pub(crate) fn around(manifest_path: Option<&Path>) -> Result<Self, ManifestError> {
        let manifest = workspace_manifest(manifest_path)?;
        let table = settings(&manifest)?;
        Ok(Self::at(manifest.parent().unwrap_or(Path::new("/")).to_owned(), table))
    }

    /// Returns a project at the current folder, with every default. For commands that need none.
    pub(crate) fn without_manifest() -> Self {
        Self::at(PathBuf::from("."), ParityTable::default())
    }

    fn at(root: PathBuf, table: ParityTable) -> Self {
        let ParityTable { specs, fixtures, suite, exporter, references, fault_bench, setup } = table;
        let layout = Layout {
            specs: specs.unwrap_or_else(|| "parity-specs".into()),
            fixtures: fixtures.unwrap_or_else(|| "fixtures".into()),
            suite: suite.unwrap_or_else(|| "parity".to_owned()),
            exporter: exporter.map(|folder| root.join(folder)),
            references: references.map(|folder| root.join(folder)),
            sets_up: setup.unwrap_or(true),
            root,
        };
        let bench = fault_bench.map(|FaultBenchTable { file, unseen, package, binary }| Bench {
            file,
            unseen,
            package,
            binary,
        });
        Self { layout, bench, refused: None }
    }

    /// Names the test target of the workspace that is the parity suite. The default is `parity`.
    pub fn suite(mut self, target: impl Into<String>) -> Self {
        self.layout.suite = target.into();
        self
    }

    /// Names the folder of a Python exporter package whose own tests the command `test` also runs.
    pub fn exporter(mut self, folder: impl AsRef<Path>) -> Self {
        self.layout.exporter = Some(self.layout.root.join(folder));
        self
    }

    /// Names the folder with the `pyproject.toml` and `uv.lock` of the environments that reference scripts run in. The
    /// default is `exporter/references`, if that has a `pyproject.toml`.
    ///
    /// Without such a folder, references run with the machine's own Python.
    pub fn references(mut self, folder: impl AsRef<Path>) -> Self {
        self.layout.references = Some(self.layout.root.join(folder));
        self
    }

    /// Names what the command `fault-bench` runs: the YAML file that lists faults, from the root, and the package and the
    /// binary whose suite has their ports.
    ///
    /// That binary is a suite that calls `Suite::fault_bench`. It registers each port as it is and, as `<port>/<fault>`,
    /// with each fault.
    pub fn fault_bench(
        mut self,
        file: impl Into<PathBuf>,
        package: impl Into<String>,
        binary: impl Into<String>,
    ) -> Self {
        let (file, package, binary) = (file.into(), package.into(), binary.into());
        self.bench = Some(Bench { file, unseen: None, package, binary });
        self
    }

    /// Names a second list for the command `fault-bench`, from the root: faults that no search for causes was tuned to.
    /// They are scored apart. Call it after [`Project::fault_bench`].
    pub fn unseen_faults(mut self, file: impl Into<PathBuf>) -> Self {
        if let Some(bench) = &mut self.bench {
            bench.unseen = Some(file.into());
        }
        self
    }

    /// Leaves MLX to the repository: only the command `setup` prepares it, and other commands do not check.
    pub fn without_setup(mut self) -> Self {
        self.layout.sets_up = false;
        self
    }

    /// Returns why no command can be run here, if that is so.
    pub(super) fn take_refusal(&mut self) -> Result<(), ProjectError> {
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Describes the project for another process of ours.
    pub(crate) fn description(&self) -> Description {
        Description {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            program: program().to_owned(),
            layout: self.layout.clone(),
        }
    }

    /// Returns the project that another process of ours described.
    pub(crate) fn of_description(description: Description) -> Self {
        Self { layout: description.layout, bench: None, refused: None }
    }

    /// Returns the same project, for a thread or a session of its own.
    pub(crate) fn duplicate(&self) -> Self {
        Self { layout: self.layout.clone(), bench: self.bench.clone(), refused: None }
    }

    /// Returns the folder of the project.
    pub fn root(&self) -> &Path {
        &self.layout.root
    }

    /// Returns the git-ignored folder of what set-up makes: MLX for Linux, and private Python environments.
    pub(crate) fn private_folder(&self) -> PathBuf {
        self.layout.root.join(".parity")
    }

    /// Makes git ignore the private folder, which must exist.
    pub(crate) fn keep_git_away(&self) -> io::Result<()> {
        let ignore = self.private_folder().join(".gitignore");
        if ignore.exists() { Ok(()) } else { fs::write(ignore, "*\n") }
    }

    pub(crate) fn exporter_folder(&self) -> Option<&Path> {
        self.layout.exporter.as_deref()
    }

    /// Returns the folder that locks the references' environments, if there is one. A folder that the project names need
    /// not exist.
    pub(crate) fn references_folder(&self) -> Option<PathBuf> {
        let default = self.layout.root.join("exporter/references");
        self.layout.references.clone().or_else(|| default.join("pyproject.toml").is_file().then_some(default))
    }

    pub(crate) fn spec_root(&self) -> PathBuf {
        self.layout.root.join(&self.layout.specs)
    }

    /// Returns the project's own folder of fixtures.
    pub(crate) fn own_fixture_root(&self) -> PathBuf {
        self.layout.root.join(&self.layout.fixtures)
    }

    /// Returns the folder of fixtures; `PARITY_FIXTURES` overrules the project's, as it does in the suite.
    pub(crate) fn fixture_root(&self) -> PathBuf {
        match settings::variable("PARITY_FIXTURES") {
            Some(other) => self.layout.root.join(other),
            None => self.own_fixture_root(),
        }
    }

    /// Returns whether commands that need MLX set it up first.
    pub(crate) fn sets_up(&self) -> bool {
        self.layout.sets_up
    }

    pub(crate) fn bench(&self) -> Option<&Bench> {
        self.bench.as_ref()
    }

    pub(crate) fn suite_target(&self) -> &str {
        &self.layout.suite
    }
}
