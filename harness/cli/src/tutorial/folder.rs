//! The folder of a tutorial: how it is found, started, continued and restarted. Folders with anything else in them are
//! left alone.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::TutorialError;
use super::files::{self, Changes, SNAPSHOT, write};
use super::lessons::{LESSONS, changes_before};
use super::source::{checkout, resolve};
use super::state::State;
use crate::Project;
use crate::init::SourceArguments;
use crate::setup;

/// The beginning of the names of folders that the tutorial makes by itself.
const PREFIX: &str = "mlx-parity-tutorial-";
const LOCK: &str = ".parity-tutorial.lock";

/// How a tutorial begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    Started,
    Continued,
    Restarted,
}

/// A tutorial's folder, which no other process uses as long as this value lives.
#[derive(Debug)]
pub(super) struct OpenFolder {
    pub(super) root: PathBuf,
    pub(super) state: State,
    pub(super) beginning: Beginning,
    _lock: File,
}

/// What to open.
pub(super) struct Wanted<'a> {
    /// The folder; `None` is a temporary one.
    pub(super) folder: Option<&'a Path>,
    pub(super) source: &'a SourceArguments,
    /// Begin again.
    pub(super) restart: bool,
}

impl OpenFolder {
    /// Opens the folder, and writes the crate's files: all of them at the start, later only those that are missing.
    pub(super) fn open(wanted: &Wanted<'_>) -> Result<Self, TutorialError> {
        let root = match wanted.folder {
            Some(folder) => folder.to_owned(),
            None => find_temporary(wanted.restart).map_or_else(new_temporary, Ok)?,
        };
        let is_empty = is_empty(&root)?;
        let known = State::read(&root)?;
        let beginning = match (&known, wanted.restart) {
            (Some(_), true) => Beginning::Restarted,
            (Some(_), false) => Beginning::Continued,
            (None, _) if !is_empty => return Err(TutorialError::NotOurs { folder: root }),
            (None, true) if wanted.folder.is_some() => {
                return Err(TutorialError::NothingToRestart { folder: root });
            }
            (None, _) => Beginning::Started,
        };
        // Resolved before anything is written.
        let source = match known {
            Some(state) if !wanted.source.is_named() => state.source,
            known => {
                let named = resolve(wanted.source)?;
                if beginning == Beginning::Continued && known.is_some_and(|state| state.source != named) {
                    return Err(TutorialError::OtherSource { folder: root });
                }
                named
            }
        };
        fs::create_dir_all(&root).map_err(|source| TutorialError::write(&root, source))?;
        let root = root.canonicalize().map_err(|source| TutorialError::read(&root, source))?;
        let lock = lock(&root)?;
        let state = match (beginning, State::read(&root)?) {
            (Beginning::Continued, Some(state)) => State::at(state.step.as_deref(), source),
            _ => State::at(LESSONS.first().map(|lesson| lesson.id), source),
        };
        let open = Self { root, state, beginning, _lock: lock };
        // The state comes first: it marks the folder as ours, so that an interrupted start can be continued.
        open.state.write(&open.root)?;
        open.write_files()?;
        Ok(open)
    }

    fn write_files(&self) -> Result<(), TutorialError> {
        let begins_again = self.beginning == Beginning::Restarted;
        let source = &self.state.source;
        let mlx = checkout(source).and_then(finished_set_up);
        let changes = self.state.step.as_deref().map_or(Changes::FINISHED, changes_before);
        for (file, bytes) in files::all(changes, source, mlx.as_deref())? {
            let path = self.root.join(file);
            if begins_again || !path.exists() {
                write(&path, &bytes)?;
            }
        }
        let lock = self.root.join("Cargo.lock");
        // With the versions that the checkout was tested with, the tutorial needs no network if they are on this machine.
        let tested = checkout(source).map(|root| root.join("Cargo.lock")).filter(|tested| tested.is_file());
        if (begins_again || !lock.exists())
            && let Some(tested) = tested
        {
            let bytes = fs::read(&tested).map_err(|error| TutorialError::read(&tested, error))?;
            write(&lock, &bytes)?;
        }
        if begins_again {
            for snapshot in [SNAPSHOT.to_owned(), format!("{SNAPSHOT}.new")] {
                let path = self.root.join(snapshot);
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(TutorialError::write(&path, error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Returns the Cargo configuration of MLX in a checkout, if MLX is set up there. macOS needs none.
fn finished_set_up(checkout: &Path) -> Option<PathBuf> {
    let project = Project::around(Some(&checkout.join("Cargo.toml"))).ok()?;
    let configuration = setup::configuration(&project);
    let is_ready = cfg!(target_os = "linux") && setup::state(&project).is_ok_and(|(is_ready, _)| is_ready);
    (is_ready && configuration.is_file()).then_some(configuration)
}

/// Returns whether the folder has nothing in it or does not exist.
fn is_empty(folder: &Path) -> Result<bool, TutorialError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(source) => Err(TutorialError::read(folder, source)),
    }
}

fn lock(root: &Path) -> Result<File, TutorialError> {
    let path = root.join(LOCK);
    let lock = File::create(&path).map_err(|source| TutorialError::write(&path, source))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(_) => Err(TutorialError::Busy { folder: root.to_owned() }),
    }
}

fn new_temporary() -> Result<PathBuf, TutorialError> {
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir();
    folder.map(tempfile::TempDir::keep).map_err(|source| TutorialError::write(&std::env::temp_dir(), source))
}

/// Returns the newest temporary tutorial of this user; a finished one only if `finished` ones count.
fn find_temporary(finished: bool) -> Option<PathBuf> {
    let entries = fs::read_dir(std::env::temp_dir()).ok()?.flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let candidates = ours.filter_map(|entry| {
        // Not through a link, and not another user's: its crate would be built and run.
        let metadata = entry.metadata().ok().filter(|metadata| metadata.is_dir() && is_own(metadata))?;
        let state = State::read(&entry.path()).ok()??;
        (finished || state.step.is_some())
            .then(|| (metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path()))
    });
    candidates.max().map(|(_, path)| path)
}

#[cfg(unix)]
fn is_own(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.uid() == rustix::process::getuid().as_raw()
}

#[cfg(not(unix))]
fn is_own(_: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tutorial::files::PORT;

    fn open(folder: &Path, restart: bool) -> Result<OpenFolder, TutorialError> {
        let source = SourceArguments { git: Some("https://x.test".to_owned()), ..Default::default() };
        OpenFolder::open(&Wanted { folder: Some(folder), source: &source, restart })
    }

    #[test]
    fn a_new_folder_gets_the_crate_and_is_continued_later() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("new");
        let first = open(&folder, false).unwrap();
        assert_eq!(first.beginning, Beginning::Started);
        assert_eq!(first.state.step.as_deref(), Some("run"));
        assert!(matches!(open(&folder, false), Err(TutorialError::Busy { .. })));
        drop(first);
        fs::write(folder.join(PORT), "mine").unwrap();
        fs::remove_file(folder.join("tests/parity.rs")).unwrap();
        let again = open(&folder, false).unwrap();
        assert_eq!(again.beginning, Beginning::Continued);
        assert_eq!(fs::read_to_string(folder.join(PORT)).unwrap(), "mine");
        assert!(folder.join("tests/parity.rs").is_file(), "a missing file comes back");
        drop(again);
        let source = SourceArguments { git: Some("https://y.test".to_owned()), ..Default::default() };
        let other = Wanted { folder: Some(&folder), source: &source, restart: false };
        assert!(matches!(OpenFolder::open(&other), Err(TutorialError::OtherSource { .. })));
    }

    #[test]
    fn a_missing_file_comes_back_with_the_changes_so_far() {
        let folder = tempfile::tempdir().unwrap();
        let open_folder = open(folder.path(), false).unwrap();
        State::at(Some("record"), open_folder.state.source.clone()).write(folder.path()).unwrap();
        drop(open_folder);
        fs::remove_file(folder.path().join(PORT)).unwrap();
        open(folder.path(), false).unwrap();
        let changes = Changes { eps: true, gated: true, gate: false };
        assert_eq!(fs::read_to_string(folder.path().join(PORT)).unwrap(), changes.port());
    }

    #[test]
    fn a_restart_writes_everything_again_and_forgets_the_statistics() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path(), false).unwrap());
        write(&folder.path().join(PORT), b"mine").unwrap();
        write(&folder.path().join(SNAPSHOT), b"accepted").unwrap();
        let mine = folder.path().join("notes.txt");
        fs::write(&mine, "mine").unwrap();
        let again = open(folder.path(), true).unwrap();
        assert_eq!((again.beginning, again.state.step.as_deref()), (Beginning::Restarted, Some("run")));
        assert_eq!(fs::read_to_string(folder.path().join(PORT)).unwrap(), Changes::default().port());
        assert!(!folder.path().join(SNAPSHOT).exists() && mine.exists());
    }

    #[test]
    fn another_folder_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            open(&folder.path().join("none"), true),
            Err(TutorialError::NothingToRestart { .. })
        ));
        fs::write(folder.path().join("Cargo.toml"), "mine").unwrap();
        for restart in [false, true] {
            assert!(matches!(open(folder.path(), restart), Err(TutorialError::NotOurs { .. })));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(open(&folder.path().join("Cargo.toml"), false).is_err());
    }
}
