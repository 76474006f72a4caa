//! Finds the run that a name, a path, a zip file or a commit means.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Project;
use super::lint::{Git, GitError};
use super::zipped_run::{ZipError, unpack, unpack_whole};
use crate::error::CommandError;
use mlx_parity_core::results::SuiteData;
use mlx_parity_core::runs::{Out, is_debug_session};
use mlx_parity_core::text::suggest::did_you_mean;

/// Why a run cannot be reported.
#[derive(Debug, Error)]
pub(crate) enum RunsError {
    #[error("there is no run `{run}` in `{runs}`{near}")]
    NoRun { run: String, runs: PathBuf, near: String },
    #[error("nothing has been run yet: `{runs}` does not exist")]
    NoRuns { runs: PathBuf },
    #[error("the run in `{run}` has no results")]
    Empty { run: PathBuf },
    #[error(
        "`{run}` has no folder `suites`: it was made by an earlier version, killed before its first test, or is not a run folder"
    )]
    NoSuites { run: PathBuf },
    #[error("`{run}` is a debug session, which judges nothing")]
    Debug { run: PathBuf, name: String },
    #[error("no run in `{runs}` was made at commit {commit}")]
    NoRunAt { commit: String, runs: PathBuf },
    #[error("`{name}` is neither a run in `{runs}`{near} nor a commit")]
    Neither { name: String, runs: PathBuf, near: String, source: Box<GitError> },
    #[error(transparent)]
    Zip(#[from] ZipError),
}

impl CommandError for RunsError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Zip(_) => None,
            Self::Debug { name, .. } => Some(format!(
                "print its trace with `cargo xtask report {name}`; make a run with `cargo xtask parity`"
            )),
            Self::NoRunAt { commit, runs } => {
                let short: String = commit.chars().take(12).collect();
                let out = runs.parent().unwrap_or(runs).display();
                Some(format!(
                    "make one with `git worktree add ../parity-{short} {short} && cd ../parity-{short} && \
                     PARITY_OUT='{out}' PARITY_RUN=at-{short} cargo xtask parity`"
                ))
            }
            Self::NoRun { run, .. } if run.ends_with(".html") => {
                Some(format!("to write the report to that file, use `--html={run}`"))
            }
            _ => Some("run the suite with `cargo xtask parity`, `cargo test` or `cargo nextest run`".into()),
        }
    }
}

/// A run that was found.
pub(super) enum FoundRun {
    /// A run folder.
    Folder(PathBuf),
    /// A zipped run folder, unpacked until this value is dropped.
    Zip { file: PathBuf, folder: PathBuf, _unpacked: tempfile::TempDir },
}

impl FoundRun {
    /// The folder with the files of the run.
    pub(super) fn folder(&self) -> &Path {
        match self {
            Self::Folder(folder) | Self::Zip { folder, .. } => folder,
        }
    }

    /// The path that messages show.
    pub(super) fn named(&self) -> &Path {
        match self {
            Self::Folder(folder) => folder,
            Self::Zip { file, .. } => file,
        }
    }
}

/// Finds the run with this name or path; `None` means the newest. A debug session is an error: nobody judges one.
pub(super) fn find(project: &Project, name: Option<&str>) -> Result<FoundRun, RunsError> {
    found(project, name, false)
}

/// Finds the run or the debug session with this name or path.
pub(super) fn find_with_sessions(project: &Project, name: Option<&str>) -> Result<FoundRun, RunsError> {
    found(project, name, true)
}

/// Finds the folder of the run or the debug session with this name or path. A zip file is unpacked into `home`, with its
/// tensors.
pub(super) fn find_whole(project: &Project, name: &str, home: &Path) -> Result<PathBuf, RunsError> {
    let path = Path::new(name);
    let is_run = !name.contains(['/', '\\']) && Out::of(project.root()).run(name).is_dir();
    match is_zip(path) && !is_run {
        true => Ok(unpack_whole(path, home)?),
        false => found(project, Some(name), true).map(|run| run.folder().to_owned()),
    }
}

fn found(project: &Project, name: Option<&str>, sessions_too: bool) -> Result<FoundRun, RunsError> {
    let runs = Out::of(project.root()).path().join("runs");
    let name = name.unwrap_or("latest");
    let plain = !name.is_empty() && !name.contains(['/', '\\']) && name != "." && name != "..";
    match debug_session(project, name) {
        Some(session) if sessions_too => return Ok(FoundRun::Folder(session)),
        Some(run) => return Err(RunsError::Debug { run, name: name.to_owned() }),
        None => {}
    }
    if let Some(run) = plain.then(|| runs.join(name)).and_then(|run| run.canonicalize().ok()) {
        return Ok(FoundRun::Folder(run));
    }
    let path = Path::new(name);
    if is_zip(path) {
        let (unpacked, folder) = unpack(path)?;
        if is_debug_session(&folder) && !sessions_too {
            return Err(RunsError::Debug { run: path.to_owned(), name: name.to_owned() });
        }
        return Ok(FoundRun::Zip { file: path.to_owned(), folder, _unpacked: unpacked });
    }
    if name.contains(['/', '\\']) && path.is_dir() {
        return Ok(FoundRun::Folder(path.to_owned()));
    }
    let entries = match std::fs::read_dir(&runs) {
        Ok(entries) => entries,
        Err(_) => return Err(RunsError::NoRuns { runs }),
    };
    let known: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let near = did_you_mean(name, known.iter().map(String::as_str));
    Err(RunsError::NoRun { run: name.to_owned(), runs, near })
}

/// Whether the path is that of an existing zip file, by its name.
fn is_zip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip")) && path.exists()
}

/// Finds the debug session with this name or path.
fn debug_session(project: &Project, name: &str) -> Option<PathBuf> {
    let is_path = name.contains(['/', '\\']);
    let folder = match is_path {
        true => PathBuf::from(name),
        false => Out::of(project.root()).debug_sessions().join(name),
    };
    (name != "." && name != ".." && is_debug_session(&folder)).then_some(folder)
}

/// Finds the run with this name or path, or else the newest run that was made at this commit. A run of a checkout without
/// changes comes before one with changes. `reported` is the run that it is compared with, and is not found.
pub(super) fn find_earlier(project: &Project, name: &str, reported: &Path) -> Result<FoundRun, RunsError> {
    let (runs, near) = match find(project, Some(name)) {
        Err(RunsError::NoRun { runs, near, .. }) => (runs, near),
        found => return found,
    };
    let commit = Git::of(project.root()).and_then(|git| git.commit(name));
    let commit = commit.map_err(|source| RunsError::Neither {
        name: name.to_owned(),
        runs: runs.clone(),
        near,
        source: Box::new(source),
    })?;
    let reported = reported.canonicalize().unwrap_or_else(|_| reported.to_owned());
    let entries = std::fs::read_dir(&runs).into_iter().flatten().flatten();
    let made_here = entries.map(|entry| entry.path()).filter_map(|path| {
        let is_run = path.symlink_metadata().is_ok_and(|data| data.is_dir());
        let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if !is_run || is_hidden || path.canonicalize().is_ok_and(|path| path == reported) {
            return None;
        }
        // A run that cannot be read is no answer, and `report` shows why when it is asked for that run.
        let suites = SuiteData::read_all(&path).ok()?;
        let plan = &suites.first()?.plan;
        let checkout = plan.checkout.as_ref().filter(|checkout| checkout.revision == commit)?;
        Some((!checkout.dirty, plan.started.clone(), path))
    });
    match made_here.max() {
        Some((_, _, path)) => Ok(FoundRun::Folder(path)),
        None => Err(RunsError::NoRunAt { commit, runs }),
    }
}
