//! The machine's own Python 3 and pip, which fetch wheels and run the exporter's tests.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::Project;
use super::steps::Steps;
use crate::error::CommandError;
use mlx_parity_core::files::hash::hex;
use mlx_parity_core::files::regular;

/// Why there is no usable Python, or what it could not do.
#[derive(Debug, Error)]
pub(crate) enum PythonError {
    #[error("cannot run `{program}`, which fetches MLX's wheels and runs the exporter")]
    NoPython { program: String, source: io::Error },
    #[error("`{program}` does not work: {reason}")]
    Broken { program: String, reason: String },
    #[error("`{program}` is Python {found}, but 3.10 or newer is needed")]
    OldPython { program: String, found: String },
    #[error("`{program}` has no pip: {reason}")]
    NoPip { program: String, reason: String },
    #[error("pip could not fetch {what}: {reason}")]
    Fetch { what: String, reason: String },
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{path}`")]
    Write { path: PathBuf, source: io::Error },
}

impl CommandError for PythonError {
    fn next(&self) -> Option<String> {
        Some(match self {
            Self::NoPython { .. } | Self::Broken { .. } | Self::OldPython { .. } => {
                "install Python 3.10 or newer with pip (Debian, Ubuntu: `sudo apt install python3-pip`), \
                 or name one in PARITY_PYTHON"
                    .into()
            }
            Self::NoPip { program, .. } => format!(
                "install pip for it (Debian, Ubuntu: `sudo apt install python3-pip`; elsewhere: `{program} -m ensurepip`)"
            ),
            Self::Fetch { .. } => {
                "check that pip reaches its package index (network, proxy, PIP_INDEX_URL), then rerun the command; \
                 finished downloads are kept"
                    .into()
            }
            Self::Read { .. } | Self::Write { .. } => "free some space or fix the permissions, then rerun the command".into(),
        })
    }
}

/// A Python 3 that has pip.
#[derive(Debug)]
pub(crate) struct Python {
    program: OsString,
    facts: PythonFacts,
}

#[derive(Debug, Deserialize)]
struct PythonFacts {
    version: (u32, u32),
    libc: (String, String),
    pip: Option<String>,
    #[serde(default)]
    executable: Option<String>,
}

const FACTS: &str = "import json, platform, sys
try:
    import pip
    has = pip.__version__
except Exception:
    has = None
print(json.dumps({'version': sys.version_info[:2], 'libc': platform.libc_ver(), 'pip': has,
    'executable': sys.executable}))";

impl Python {
    /// `$PARITY_PYTHON`, or else `python3`, if it is new enough and has pip. It is asked once per process.
    pub(crate) fn find() -> Result<&'static Self, PythonError> {
        static FOUND: OnceLock<Python> = OnceLock::new();
        match FOUND.get() {
            Some(python) => Ok(python),
            None => Self::ask().map(|python| FOUND.get_or_init(|| python)),
        }
    }

    fn ask() -> Result<Self, PythonError> {
        let program = mlx_parity_core::settings::variable("PARITY_PYTHON").unwrap_or("python3");
        let name = program.to_owned();
        let output = Command::new(program)
            .args(["-c", FACTS])
            .output()
            .map_err(|source| PythonError::NoPython { program: name.clone(), source })?;
        let facts: PythonFacts = serde_json::from_slice(&output.stdout)
            .map_err(|_| PythonError::Broken { program: name.clone(), reason: last_lines(&output.stderr) })?;
        if facts.version < (3, 10) {
            let found = format!("{}.{}", facts.version.0, facts.version.1);
            return Err(PythonError::OldPython { program: name, found });
        }
        if facts.pip.is_none() {
            return Err(PythonError::NoPip { program: name, reason: "`import pip` fails".into() });
        }
        Ok(Self { program: program.into(), facts })
    }

    pub(crate) fn command(&self) -> Command {
        Command::new(&self.program)
    }

    /// The program as PARITY_PYTHON names it, or `python3`.
    pub(crate) fn program(&self) -> &OsStr {
        &self.program
    }

    /// The path of the interpreter, as it reports itself.
    pub(crate) fn path(&self) -> String {
        self.facts.executable.clone().unwrap_or_else(|| self.program.to_string_lossy().into_owned())
    }

    /// The major and minor version, e.g. `3.11`.
    pub(crate) fn version(&self) -> String {
        format!("{}.{}", self.facts.version.0, self.facts.version.1)
    }

    /// Name and version of the C library, e.g. `glibc` and `2.36`, if Python knows it.
    pub(crate) fn libc(&self) -> Option<(&str, &str)> {
        let (name, version) = &self.facts.libc;
        (!name.is_empty()).then_some((name, version))
    }

    /// Runs pip with `arguments` to fetch `what`; an error has the last lines that pip printed.
    pub(crate) fn pip(&self, what: &str, arguments: &[OsString]) -> Result<(), PythonError> {
        let output = self
            .command()
            .args(["-m", "pip", "--no-input", "--disable-pip-version-check"])
            .args(arguments)
            .env("PIP_ROOT_USER_ACTION", "ignore")
            .output()
            .map_err(|source| PythonError::NoPython {
                program: self.program.to_string_lossy().into(),
                source,
            })?;
        if output.status.success() {
            return Ok(());
        }
        Err(PythonError::Fetch { what: what.to_owned(), reason: last_lines(&output.stderr) })
    }
}

/// The last lines that a child printed, which usually give the reason of its failure.
pub(crate) fn last_lines(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        "it printed nothing".into()
    } else {
        lines[lines.len().saturating_sub(3)..].join("; ")
    }
}

/// Runs the tests of the exporter in `folder`, with the packages that its lock pins. Returns everything that they printed,
/// and whether all passed.
pub(crate) fn test(project: &Project, folder: &Path) -> Result<(String, bool), PythonError> {
    let python = Python::find()?;
    let packages = python.packages(project, &folder.join("requirements-test.txt"))?;
    let path = std::env::join_paths([folder, &packages]).unwrap_or_else(|_| packages.clone().into());
    let output = python
        .command()
        .args(["-m", "pytest"])
        .current_dir(folder)
        .env("PYTHONPATH", path)
        .env("PYTHONNOUSERSITE", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // OpenBLAS's threads only wait here: the arrays are small, and the Rust tests run at the same time.
        .env("OPENBLAS_NUM_THREADS", "1")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| PythonError::NoPython { program: "python3".into(), source })?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Ok((text.into_owned(), output.status.success()))
}

impl Python {
    /// The folder with exactly the packages of a requirements file, each checked by the hashes in it.
    pub(crate) fn packages(&self, project: &Project, requirements: &Path) -> Result<PathBuf, PythonError> {
        let text = regular::read(requirements, regular::TEXT)
            .map_err(|source| PythonError::Read { path: requirements.to_owned(), source })?;
        self.installed(project, &text, "the exporter's packages")
    }

    /// Whether [`Python::packages`] would have nothing to fetch.
    pub(crate) fn has_packages(&self, project: &Project, requirements: &Path) -> Result<bool, PythonError> {
        let text = regular::read(requirements, regular::TEXT)
            .map_err(|source| PythonError::Read { path: requirements.to_owned(), source })?;
        Ok(self.folder_of(project, &text).is_dir())
    }

    /// The folder into which the packages that `requirements` pins are installed.
    pub(crate) fn folder_of(&self, project: &Project, requirements: &[u8]) -> PathBuf {
        let mut hasher = Sha256::new_with_prefix(self.version());
        hasher.update(requirements);
        project.private_folder().join("python").join(&hex(&hasher.finalize())[..12])
    }

    /// Returns the folder with exactly the packages that `requirements` pins; they are fetched if they are missing.
    pub(crate) fn installed(
        &self,
        project: &Project,
        requirements: &[u8],
        what: &str,
    ) -> Result<PathBuf, PythonError> {
        let write = |path: &Path| {
            let path = path.to_owned();
            move |source| PythonError::Write { path, source }
        };
        let home = project.private_folder().join("python");
        let folder = self.folder_of(project, requirements);
        if folder.is_dir() {
            return Ok(folder);
        }
        fs::create_dir_all(&home).map_err(write(&home))?;
        project.keep_git_away().map_err(write(&home))?;
        let lock = File::create(home.join("lock")).map_err(write(&home))?;
        lock.lock().map_err(write(&home))?;
        if folder.is_dir() {
            return Ok(folder);
        }
        let partial = folder.with_extension("partial");
        if partial.is_dir() {
            fs::remove_dir_all(&partial).map_err(write(&partial))?;
        }
        let list = folder.with_extension("txt");
        fs::write(&list, requirements).map_err(write(&list))?;
        let arguments: [OsString; 8] = [
            "install".into(),
            "--quiet".into(),
            "--only-binary=:all:".into(),
            "--require-hashes".into(),
            "--target".into(),
            partial.clone().into(),
            "--requirement".into(),
            list.into(),
        ];
        let steps = Steps::start(format_args!("setting up {what}"));
        steps.step("fetch with pip", || self.pip(what, &arguments))?;
        fs::rename(&partial, &folder).map_err(write(&folder))?;
        Ok(folder)
    }
}
