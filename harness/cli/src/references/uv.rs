//! uv as a child process: the one on the path, or a pinned one from PyPI.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{ReferencesError, last_lines};
use crate::Project;
use crate::python::Python;

/// The uv that is fetched if none is installed, with the checksums of all its wheels.
const PINNED: &str = include_str!("uv.txt");
/// The oldest uv that knows dependency groups and the lock's format.
const OLDEST: (u32, u32) = (0, 7);

pub(crate) struct Uv {
    program: OsString,
    version: String,
}

impl Uv {
    /// Returns the uv on the path if it is new enough, or else the pinned one, which is fetched if it is missing.
    pub(crate) fn find(project: &Project) -> Result<Self, ReferencesError> {
        if let Some(uv) = Self::on_path() {
            return Ok(uv);
        }
        let python = Python::find()?;
        let folder = python.installed(
            project,
            PINNED.as_bytes(),
            "uv (a download of about 20 MB), which makes the references' environments",
        )?;
        let program = folder.join("bin/uv");
        Self::named(program.clone().into())
            .map_err(|source| ReferencesError::NoUv { program: program.display().to_string(), source })
    }

    /// The uv on the path, if it is new enough.
    pub(crate) fn on_path() -> Option<Self> {
        let uv = Self::named("uv".into()).ok()?;
        let mut parts = uv.version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        ((parts.next()?, parts.next()?) >= OLDEST).then_some(uv)
    }

    /// The pinned uv, if it was fetched before.
    pub(crate) fn fetched(project: &Project) -> Option<Self> {
        let folder = Python::find().ok()?.folder_of(project, PINNED.as_bytes());
        Self::named(folder.join("bin/uv").into()).ok()
    }

    fn named(program: OsString) -> std::io::Result<Self> {
        let output = Command::new(&program).arg("--version").output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_whitespace().nth(1).unwrap_or_default().to_owned();
        Ok(Self { program, version })
    }

    /// Its name and version.
    pub(crate) fn name(&self) -> String {
        format!("uv {}", self.version)
    }

    /// The interpreter that uv uses for the project in `folder`.
    pub(super) fn python(&self, folder: &Path) -> Option<PathBuf> {
        let output = self.command(folder).args(["python", "find", "--no-python-downloads"]).output().ok()?;
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then(|| path.into())
    }

    /// The call that makes `environment` match the lock in `folder`.
    pub(super) fn sync(&self, folder: &Path, environment: &Path, group: Option<&str>) -> UvSync {
        let mut arguments: Vec<OsString> =
            vec!["sync".into(), "--frozen".into(), "--no-default-groups".into()];
        if let Some(group) = group {
            arguments.extend(["--group".into(), group.into()]);
        }
        // The exporter is imported from its folder, so no build tools are fetched for it, and no index can replace it.
        arguments.extend(["--no-install-package".into(), "parity-export".into()]);
        UvSync {
            program: self.program.clone(),
            folder: folder.into(),
            environment: environment.into(),
            arguments,
        }
    }

    /// Writes the lock of the project in `folder`, or updates it.
    pub(crate) fn lock(&self, folder: &Path) -> Result<(), ReferencesError> {
        let output = self.command(folder).arg("lock").output().map_err(|source| ReferencesError::NoUv {
            program: self.program.to_string_lossy().into(),
            source,
        })?;
        match output.status.success() {
            true => Ok(()),
            false => Err(ReferencesError::Sync { reason: last_lines(&output.stderr) }),
        }
    }

    fn command(&self, folder: &Path) -> Command {
        command(&self.program, folder)
    }
}

fn command(program: &OsString, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--project").arg(folder).current_dir(folder);
    // uv must not use a virtual environment that happens to be active.
    command.env_remove("VIRTUAL_ENV").env_remove("PYTHONPATH");
    if let Some(python) = mlx_parity_core::settings::variable("PARITY_PYTHON") {
        command.env("UV_PYTHON", python);
    }
    command
}

/// One call of `uv sync`.
pub(super) struct UvSync {
    program: OsString,
    folder: PathBuf,
    environment: PathBuf,
    arguments: Vec<OsString>,
}

/// What a call of `uv sync` would install and fetch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SyncPlan {
    /// How many packages are not in uv's cache.
    pub(super) downloads: usize,
    /// Name and version of every package that it would install.
    pub(super) packages: Vec<(String, String)>,
}

impl UvSync {
    /// Lists what would be installed and fetched, and does neither.
    pub(super) fn plan(&self) -> Result<SyncPlan, ReferencesError> {
        let output = self.command().arg("--dry-run").output().map_err(|source| self.not_started(source))?;
        if !output.status.success() {
            return Err(ReferencesError::Sync { reason: last_lines(&output.stderr) });
        }
        Ok(plan(&String::from_utf8_lossy(&output.stderr)))
    }

    /// Runs it, with uv's own progress if stderr is a terminal.
    pub(super) fn run(&self) -> Result<(), ReferencesError> {
        let mut command = self.command();
        if std::io::stderr().is_terminal() {
            command.stderr(Stdio::inherit());
        }
        let output = command.output().map_err(|source| self.not_started(source))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(ReferencesError::Sync { reason: last_lines(&output.stderr) }),
        }
    }

    fn command(&self) -> Command {
        let mut command = command(&self.program, &self.folder);
        command.args(&self.arguments).env("UV_PROJECT_ENVIRONMENT", &self.environment);
        command
    }

    fn not_started(&self, source: std::io::Error) -> ReferencesError {
        ReferencesError::NoUv { program: self.program.to_string_lossy().into(), source }
    }
}

fn plan(text: &str) -> SyncPlan {
    let mut plan = SyncPlan::default();
    for line in text.lines() {
        if let Some(rest) = line.trim().strip_prefix("Would download ") {
            plan.downloads = rest.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        } else if let Some((name, version)) =
            line.trim().strip_prefix("+ ").and_then(|rest| rest.split_once("=="))
        {
            plan.packages.push((name.to_owned(), version.to_owned()));
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_from_the_output_of_uv() {
        let printed = "Using CPython 3.11.7\nWould create project environment at: x\nWould download 2 packages\n\
            Would install 3 packages\n + ml-dtypes==0.6.0\n + numpy==2.4.6\n - old==1\n + safetensors==0.8.0\n";
        let plan = plan(printed);
        assert_eq!(plan.downloads, 2);
        assert_eq!(plan.packages.len(), 3);
        assert_eq!(plan.packages[1], ("numpy".to_owned(), "2.4.6".to_owned()));
    }

    #[test]
    fn the_pinned_uv_has_checksums() {
        assert!(PINNED.lines().any(|line| line.starts_with("uv==")));
        assert!(PINNED.lines().filter(|line| line.contains("--hash=sha256:")).count() > 10);
    }
}
