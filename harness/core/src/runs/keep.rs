//! Pinning a run under a name, so that no newer run replaces or removes it.

use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::folders::{Out, STARTING, is_held, point_latest};
use super::marker::Marker;
use super::name::{LATEST, plain};
use crate::run_folder::{FolderError, SuiteFolder, lock};

/// Why a run cannot be kept.
#[derive(Debug, Error)]
pub enum KeepError {
    /// The name cannot be the name of a folder.
    #[error(
        "`{name}` cannot be the name of a run: use letters, digits, `.`, `_` and `-`, start with a letter or a digit, and \
         do not use `latest`"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The folder is not a run of this project.
    #[error("`{path}` is not a run in `{runs}`, so it cannot be kept there")]
    Elsewhere {
        /// The folder.
        path: PathBuf,
        /// The folder of all runs.
        runs: PathBuf,
    },
    /// The run has not ended.
    #[error("the run `{path}` is still running")]
    Running {
        /// The folder.
        path: PathBuf,
    },
    /// Another run has the name.
    #[error("there is already a run called `{name}`")]
    Taken {
        /// The name.
        name: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl Out {
    /// Pins the run in `folder` under `name`, and returns its new folder.
    ///
    /// A pinned run is never removed for newer ones, and a new run with the same name gets another name.
    ///
    /// # Errors
    /// When the name is not allowed or taken, the folder is not an ended run of this project, or a file cannot be written.
    pub fn keep(&self, folder: &Path, name: &str) -> Result<PathBuf, KeepError> {
        if name.is_empty() || plain(name) != name {
            return Err(KeepError::Name { name: name.to_owned() });
        }
        let runs = self.runs();
        let elsewhere = || KeepError::Elsewhere { path: folder.to_owned(), runs: runs.clone() };
        let real = folder.canonicalize().map_err(|_| elsewhere())?;
        let home = runs.canonicalize().map_err(|_| elsewhere())?;
        let mut marker =
            Marker::read(&real).filter(|_| real.parent() == Some(&home)).ok_or_else(elsewhere)?;
        let _starting = lock(&runs.join(STARTING))?;
        if is_held(&real) {
            return Err(KeepError::Running { path: folder.to_owned() });
        }
        let target = home.join(name);
        if target != real && target.symlink_metadata().is_ok() {
            return Err(KeepError::Taken { name: name.to_owned() });
        }
        (marker.named, marker.kept) = (true, true);
        marker.write(&real)?;
        if target == real {
            return Ok(target);
        }
        for suite in SuiteFolder::all(&real) {
            let shown = suite.read_plan()?.map(|plan| plan.folder.with_file_name(name));
            shown.map_or(Ok(()), |shown| suite.move_to(shown))?;
        }
        let was_latest = fs::read_link(runs.join(LATEST)).is_ok_and(|to| to.file_name() == real.file_name());
        fs::rename(&real, &target).map_err(|source| FolderError::Write { path: target.clone(), source })?;
        if was_latest {
            point_latest(&runs, &target)
                .map_err(|source| FolderError::Write { path: runs.join(LATEST), source })?;
        }
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::RunName;

    #[test]
    fn a_kept_run_stays_whatever_is_run_later() {
        let home = tempfile::tempdir().unwrap();
        let out = Out::of(home.path());
        let folder = out.start(&RunName::fresh(false)).unwrap().folder.clone();
        fs::write(folder.join("mine"), "x").unwrap();
        let kept = out.keep(&folder, "before-bump").unwrap();
        assert!(kept.ends_with("runs/before-bump") && !folder.exists());
        assert_eq!(fs::read_link(out.run("latest")).unwrap(), Path::new("before-bump"));
        for _ in 0..15 {
            out.start(&RunName::fresh(false)).unwrap();
        }
        assert!(kept.join("mine").exists(), "newer runs do not remove it");
        assert_eq!(out.keep(&kept, "before-bump").unwrap(), kept, "keeping it again changes nothing");
        let other = out.start(&RunName::fresh(false)).unwrap().folder.clone();
        assert!(matches!(out.keep(&other, "before-bump"), Err(KeepError::Taken { .. })));
        let running = out.start(&RunName::fresh(false)).unwrap();
        assert!(matches!(out.keep(&running.folder, "x"), Err(KeepError::Running { .. })));
        for name in ["", "latest", "../x", ".x", "a/b", "-x"] {
            assert!(matches!(out.keep(&other, name), Err(KeepError::Name { .. })), "{name}");
        }
        assert!(matches!(out.keep(home.path(), "x"), Err(KeepError::Elsewhere { .. })));
    }
}
