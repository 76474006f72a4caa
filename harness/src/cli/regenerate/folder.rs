//! The fixture root while it is worked on: who may, what is made aside, and what an earlier run left there.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::error::RegenerateError;
use super::swap::{restore, swap};
use crate::atomic::write_atomically;
use crate::cli::size;
use crate::golden::{FixtureSet, MANIFEST};
use crate::tensor::EXTENSIONS;

/// The hidden folder under the fixture root in which sets are made, on the file system that they go to.
const ASIDE: &str = ".regenerating";
const JOURNAL: &str = "journal.json";

/// What is about to be replaced, written before it is.
#[derive(Debug, Serialize, Deserialize)]
struct Journal {
    set: String,
    /// The new set's folder, from the fixture root.
    new: PathBuf,
    /// The new set's manifest, by which it is known to be in place.
    manifest: String,
}

/// A fixture root that nobody else changes while this is held, and a folder to make sets in.
pub(super) struct Workplace {
    root: PathBuf,
    aside: PathBuf,
    /// Whether sets may be replaced, and all that is made aside is ours.
    alone: bool,
    /// The lock is on the root itself, so that it leaves no file behind.
    _held: File,
}

impl Workplace {
    /// Waits until nobody else works on the root, and clears away what a run that was killed left there.
    pub(super) fn enter(root: &Path) -> Result<Self, RegenerateError> {
        fs::create_dir_all(root).map_err(|source| RegenerateError::write(root, source))?;
        let held = hold(root, File::try_lock, File::lock)?;
        let home = root.join(ASIDE);
        clear(root, &home)?;
        fs::create_dir_all(&home)
            .and_then(|()| fs::write(home.join(".gitignore"), "*\n"))
            .map_err(|source| RegenerateError::write(&home, source))?;
        Ok(Self { root: root.to_owned(), aside: aside(&home)?, alone: true, _held: held })
    }

    /// Waits until nobody changes the root. Sets are made in `private`, and none is replaced.
    pub(super) fn look_at(root: &Path, private: &Path) -> Result<Self, RegenerateError> {
        let held = hold(root, File::try_lock_shared, File::lock_shared)?;
        fs::create_dir_all(private).map_err(|source| RegenerateError::write(private, source))?;
        Ok(Self { root: root.to_owned(), aside: aside(private)?, alone: false, _held: held })
    }

    /// A folder of this run.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.aside.join(name)
    }

    /// Puts the folder of a new set, made in this workplace, in the place of the old one.
    pub(super) fn replace(&self, set: &str, new: &Path) -> Result<(), RegenerateError> {
        let target = self.root.join(set);
        check_target(&self.root, set)?;
        let parent = target.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent).map_err(|source| RegenerateError::write(parent, source))?;
        keep_hidden(&target, new).map_err(|source| RegenerateError::write(new, source))?;
        let journal = Journal {
            set: set.to_owned(),
            new: new.strip_prefix(&self.root).unwrap_or(new).to_owned(),
            manifest: manifest_hash(new).unwrap_or_default(),
        };
        let path = self.root.join(ASIDE).join(JOURNAL);
        let text = serde_json::to_vec(&journal).unwrap_or_default();
        write_atomically(&path, |out| out.write_all(&text))
            .map_err(|source| RegenerateError::write(&path, source))?;
        swap(new, &target, true).map_err(|source| RegenerateError::write(&target, source))?;
        let _ = fs::remove_file(&path);
        Ok(())
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // A replacement that failed half-way may have the only copy of the old set in here; the next run puts it back.
        // What cannot be removed now is removed by that run, too.
        let home = self.root.join(ASIDE);
        if !self.alone {
            let _ = fs::remove_dir_all(&self.aside);
            // Only if no other command looks on.
            let _ = self.aside.parent().map(fs::remove_dir);
        } else if !home.join(JOURNAL).exists() {
            let _ = fs::remove_dir_all(home);
        }
    }
}

fn hold(
    root: &Path,
    try_lock: fn(&File) -> Result<(), TryLockError>,
    lock: fn(&File) -> io::Result<()>,
) -> Result<File, RegenerateError> {
    let held = File::open(root).map_err(|source| RegenerateError::read(root, source))?;
    if try_lock(&held).is_err() {
        eprintln!("waiting for another command that works on `{}` to finish", root.display());
        lock(&held).map_err(|source| RegenerateError::write(root, source))?;
    }
    Ok(held)
}

/// A new folder in `home`. A script of a run that was killed may still be writing, so no two runs have one in common.
fn aside(home: &Path) -> Result<PathBuf, RegenerateError> {
    let folder = tempfile::Builder::new().prefix("run-").tempdir_in(home);
    Ok(folder.map_err(|source| RegenerateError::write(home, source))?.keep())
}

/// What a run that was killed left in a fixture root, if no run goes on there.
pub(crate) fn left_behind(root: &Path) -> Option<u64> {
    let home = root.join(ASIDE);
    let nobody = || File::open(root).is_ok_and(|held| held.try_lock_shared().is_ok());
    (home.is_dir() && nobody()).then(|| size::of_folder(&home))
}

/// Whether there is anything to clear in a fixture root.
pub(super) fn is_littered(root: &Path) -> bool {
    fs::symlink_metadata(root.join(ASIDE)).is_ok()
}

/// Sees to what a run that was killed left behind, and says what became of it.
fn clear(root: &Path, home: &Path) -> Result<(), RegenerateError> {
    if !fs::symlink_metadata(home).is_ok_and(|data| data.is_dir()) {
        return match fs::symlink_metadata(home) {
            Ok(_) => Err(RegenerateError::NotAFolder { path: home.to_owned() }),
            Err(_) => Ok(()),
        };
    }
    let journal =
        fs::read(home.join(JOURNAL)).ok().and_then(|text| serde_json::from_slice::<Journal>(&text).ok());
    let told = match journal.filter(|journal| is_plain(&journal.set) && is_plain_path(&journal.new)) {
        Some(journal) => {
            let target = root.join(&journal.set);
            let back = restore(&root.join(&journal.new), &target)
                .map_err(|source| RegenerateError::write(&target, source))?;
            if !back && manifest_hash(&target).is_some_and(|hash| hash == journal.manifest) {
                format!("fixtures `{}` had been replaced", journal.set)
            } else if back {
                format!("fixtures `{}` had not been replaced, and the old ones are put back", journal.set)
            } else {
                format!("fixtures `{}` had not been replaced", journal.set)
            }
        }
        None => "nothing had been replaced".to_owned(),
    };
    let bytes = size::of_folder(home);
    fs::remove_dir_all(home).map_err(|source| RegenerateError::write(home, source))?;
    eprintln!("an earlier run was stopped: {told}; the {} that it left are removed", size::words(bytes));
    Ok(())
}

/// Whether a set of that name may be put into the root, and what is there may be replaced by it.
///
/// No link is on the way below the root, and nothing is there that a set does not have.
pub(super) fn check_target(root: &Path, set: &str) -> Result<(), RegenerateError> {
    if !is_plain(set) {
        return Err(RegenerateError::Outside { set: set.to_owned(), root: root.to_owned() });
    }
    let mut path = root.to_owned();
    for part in Path::new(set) {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Err(_) => return Ok(()),
            Ok(data) if data.is_symlink() => return Err(RegenerateError::Link { path }),
            Ok(data) if !data.is_dir() => return Err(RegenerateError::NotAFolder { path }),
            Ok(_) => {}
        }
    }
    let is_hidden = |name: &OsStr| name.to_string_lossy().starts_with('.');
    let walk = WalkDir::new(&path).min_depth(1).into_iter();
    for entry in walk.filter_entry(|entry| !is_hidden(entry.file_name())) {
        let entry = entry.map_err(|error| RegenerateError::read(&path, error.into()))?;
        let inside = entry.path().to_owned();
        if entry.file_type().is_symlink() {
            return Err(RegenerateError::Link { path: inside });
        }
        if entry.file_type().is_dir() {
            if inside.join(MANIFEST).exists() {
                return Err(RegenerateError::Nested { set: set.to_owned(), path: inside });
            }
            continue;
        }
        let is_tensor =
            inside.extension().is_some_and(|found| EXTENSIONS.iter().any(|known| found == *known));
        if !is_tensor && entry.file_name() != MANIFEST {
            return Err(RegenerateError::Foreign { path: inside });
        }
    }
    Ok(())
}

/// Copies the hidden files of the old folder, such as `.gitattributes`, into the new one.
fn keep_hidden(target: &Path, new: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(target) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.')
            && entry.file_type()?.is_file()
            && !new.join(&name).exists()
        {
            fs::copy(entry.path(), new.join(&name))?;
        }
    }
    Ok(())
}

fn is_plain(set: &str) -> bool {
    !set.is_empty() && !set.contains('\\') && is_plain_path(Path::new(set))
}

fn is_plain_path(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// The hex SHA-256 of a set's manifest.
fn manifest_hash(folder: &Path) -> Option<String> {
    use sha2::{Digest, Sha256};
    Some(crate::hash::hex(&Sha256::digest(fs::read(folder.join(MANIFEST)).ok()?)))
}

/// Opens the committed set, if there is one that can be read.
pub(super) fn committed(root: &Path, set: &str) -> Option<FixtureSet> {
    FixtureSet::open(root, set).ok()
}
