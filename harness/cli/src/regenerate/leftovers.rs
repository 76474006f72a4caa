//! Folders that killed commands left behind, one per run. A script may still be writing into such a folder.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::script::IN_USE;
use mlx_parity_core::files::regular;

/// Every run folder's name starts with this.
const PREFIX: &str = "run-";
/// The file in a run's folder that its command keeps locked.
const LOCK_FILE: &str = "held";
/// How long to wait until a script of a killed command ends by itself, and until its folder can be removed.
const PATIENCE: Duration = Duration::from_secs(2);

/// A folder of this run alone; nobody removes it while this is held.
pub(super) struct RunFolder {
    pub(super) path: PathBuf,
    _lock: File,
}

impl RunFolder {
    /// Makes a new folder in `home`. A script of a run that was killed may still be writing, so no two runs share one.
    pub(super) fn make(home: &Path) -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix(PREFIX).tempdir_in(home)?.keep();
        let lock = File::create(path.join(LOCK_FILE))?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }
}

/// Removes the run folders in `home` that no command and no script uses, and prints which stay. Returns whether all were
/// removed.
pub(super) fn remove_runs(home: &Path) -> bool {
    let entries = fs::read_dir(home).into_iter().flatten().filter_map(Result::ok);
    let runs = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let mut gone = true;
    for run in runs {
        gone &= remove(&run.path());
    }
    gone
}

fn remove(run: &Path) -> bool {
    if is_locked(&run.join(LOCK_FILE)) {
        return false;
    }
    let deadline = Instant::now() + PATIENCE;
    while is_locked(&run.join(IN_USE)) {
        if Instant::now() >= deadline {
            eprintln!(
                "a script of an interrupted run is still running in `{}`; a later run removes that folder",
                run.display()
            );
            return false;
        }
        pause();
    }
    match remove_folder(run, deadline) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("`{}` cannot be removed yet: {error}; a later run removes it", run.display());
            false
        }
    }
}

/// Removes a folder to which a process may still be adding files; a missing folder is no error.
pub(super) fn remove_folder(folder: &Path, deadline: Instant) -> io::Result<()> {
    loop {
        match fs::remove_dir_all(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.exists() => return Ok(()),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => pause(),
        }
    }
}

fn is_locked(path: &Path) -> bool {
    regular::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unused_run_folders_are_removed() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("mine"), "").unwrap();
        fs::create_dir_all(home.path().join("run-dead/first/model/part")).unwrap();
        let ours = RunFolder::make(home.path()).unwrap();
        assert!(!remove_runs(home.path()));
        assert!(ours.path.exists() && home.path().join("mine").exists());
        assert!(!home.path().join("run-dead").exists());
        let path = ours.path.clone();
        drop(ours);
        // The command is gone, and its script goes on.
        let script = File::create(path.join(IN_USE)).unwrap();
        script.lock_shared().unwrap();
        assert!(!remove_runs(home.path()));
        drop(script);
        assert!(remove_runs(home.path()));
        assert!(!path.exists() && home.path().join("mine").exists());
    }

    /// A process that left its group, and so outlived its command, may add files while the folder is removed.
    #[test]
    fn a_folder_that_somebody_adds_to_is_removed_once_it_stops() {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().join("run-x");
        fs::create_dir(&run).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for file in 0..2000 {
                    // It fails once the folder is gone.
                    let _ = fs::write(run.join(file.to_string()), "x");
                }
            });
            remove_folder(&run, Instant::now() + Duration::from_secs(60)).unwrap();
        });
        assert!(!run.exists());
    }
}
