//! A run folder that is written under another name, and appears complete or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use super::folders::{self, Out};
use super::marker;
use super::name::RunName;
use crate::run_folder::FolderError;

/// A run folder that nobody sees yet. It is removed if it is dropped before [`StagedRun::publish`]; what a killed process
/// leaves is removed when the next run starts.
#[derive(Debug)]
pub struct StagedRun {
    going: Option<folders::Going>,
    runs: PathBuf,
    target: PathBuf,
}

impl Out {
    /// Creates the folder of a new run under a hidden name, with its marker. No run has its final name.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn stage(&self) -> Result<StagedRun, FolderError> {
        let runs = self.runs();
        fs::create_dir_all(&runs).map_err(|source| FolderError::Write { path: runs.clone(), source })?;
        let name = RunName::fresh(false);
        let _starting = folders::starting(&runs)?;
        folders::remove_unfinished(&runs);
        let going = folders::begin_staged(&runs, &name)?;
        Ok(StagedRun { going: Some(going), target: runs.join(&name.key), runs })
    }
}

impl StagedRun {
    /// Returns the folder in which the run is written.
    pub fn folder(&self) -> &Path {
        self.going.as_ref().map_or(&self.target, |going| &going.folder)
    }

    /// Returns the folder that the run will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Gives the run its name in one step, and points `latest` at it. Then old runs make room, as for any new run.
    ///
    /// # Errors
    /// When the folder cannot be renamed. It is removed then.
    pub fn publish(mut self) -> Result<PathBuf, FolderError> {
        let starting = folders::starting(&self.runs)?;
        let failed = |source| FolderError::Write { path: self.target.clone(), source };
        if self.target.symlink_metadata().is_ok() {
            return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
        }
        fs::rename(self.folder(), &self.target).map_err(failed)?;
        self.going = None;
        folders::appeared(&self.runs, &self.target, false);
        drop(starting);
        folders::sweep(&self.runs);
        Ok(self.target.clone())
    }
}

impl Drop for StagedRun {
    fn drop(&mut self) {
        if let Some(going) = self.going.take() {
            marker::remove(&going.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(out: &Out) -> Vec<String> {
        let entries = fs::read_dir(out.runs()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_staged_run_appears_in_one_step_and_otherwise_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let out = Out::at(home.path());
        let staged = out.stage().unwrap();
        fs::write(staged.folder().join("file"), "x").unwrap();
        assert_eq!(out.all_runs(), [], "nobody sees it");
        assert_eq!(out.leftover_runs(), [], "nor is it a leftover");
        // A run that starts meanwhile does not touch it.
        let other = out.start(&RunName::fresh(false)).unwrap();
        let folder = staged.publish().unwrap();
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "x");
        assert_eq!(fs::read_link(out.run("latest")).unwrap(), Path::new(folder.file_name().unwrap()));
        assert_eq!(out.all_runs().len(), 2);
        drop(other);
        let before = entries(&out);
        drop(out.stage().unwrap());
        assert_eq!(entries(&out), before);
    }

    #[test]
    fn what_a_killed_process_staged_is_removed_with_the_next_run() {
        let home = tempfile::tempdir().unwrap();
        let out = Out::at(home.path());
        let mut staged = out.stage().unwrap();
        let folder = staged.folder().to_owned();
        // The lock ends with its process, and nothing else is done.
        staged.going = None;
        assert!(folder.is_dir() && out.leftover_runs().len() == 1);
        out.start(&RunName::fresh(false)).unwrap();
        assert!(!folder.exists());
    }
}
