//! The fixture root during a command: its lock, the folder in which sets are made, and what an earlier run left there.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::error::RegenerateError;
use super::leftovers::{RunFolder, remove_folder, remove_runs};
use super::owned::{self, carry_over, remove_set};
use super::swap::{kept, rename_only, restore, swap};
use mlx_parity_core::files::atomic::{is_part, write_atomically};
use mlx_parity_core::files::regular;
use mlx_parity_core::files::size;
use mlx_parity_core::golden::{FixtureSet, MANIFEST};

/// The hidden folder under the fixture root in which sets are made, on the file system that they go to.
const ASIDE: &str = ".regenerating";
const JOURNAL: &str = "journal.json";

/// The set that is about to be replaced, written before it is.
#[derive(Debug, Serialize, Deserialize)]
struct Journal {
    set: String,
    /// The new set's folder, from the fixture root.
    new: PathBuf,
    /// The new set's manifest, by which it is known to be in place.
    manifest: String,
}

/// A locked fixture root, which no other command changes meanwhile, and a folder to make sets in.
pub(super) struct Workplace {
    root: PathBuf,
    run: RunFolder,
    /// Whether the lock is exclusive, so that sets may be replaced.
    alone: bool,
    /// The lock is on the root itself, so that it leaves no file behind.
    _lock: File,
}

impl Workplace {
    /// Waits until no other command uses the root, and removes what a killed run left there.
    pub(super) fn enter(root: &Path) -> Result<Self, RegenerateError> {
        fs::create_dir_all(root).map_err(|source| RegenerateError::write(root, source))?;
        let lock = lock_root(root, File::try_lock, File::lock)?;
        let home = root.join(ASIDE);
        clear(root, &home)?;
        fs::create_dir_all(&home)
            .and_then(|()| fs::write(home.join(".gitignore"), "*\n"))
            .map_err(|source| RegenerateError::write(&home, source))?;
        let run = RunFolder::make(&home).map_err(|source| RegenerateError::write(&home, source))?;
        Ok(Self { root: root.to_owned(), run, alone: true, _lock: lock })
    }

    /// Waits until no command changes the root. Sets are made in `private`, and none is replaced.
    pub(super) fn look_at(root: &Path, private: &Path) -> Result<Self, RegenerateError> {
        let lock = lock_root(root, File::try_lock_shared, File::lock_shared)?;
        let run = fs::create_dir_all(private).and_then(|()| {
            // Other commands may look at the same time; the lock separates leftovers from what they have just made.
            let gate = File::open(private)?;
            gate.lock()?;
            remove_runs(private);
            RunFolder::make(private)
        });
        let run = run.map_err(|source| RegenerateError::write(private, source))?;
        Ok(Self { root: root.to_owned(), run, alone: false, _lock: lock })
    }

    /// A folder of this run.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.run.path.join(name)
    }

    /// Puts the folder of a new set, made in this workplace, in the place of the old one.
    pub(super) fn replace(&self, set: &str, new: &Path) -> Result<(), RegenerateError> {
        let target = self.root.join(set);
        check_target(&self.root, set, Some(new))?;
        let parent = target.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent).map_err(|source| RegenerateError::write(parent, source))?;
        carry_over(&target, new).map_err(|source| RegenerateError::write(new, source))?;
        let journal = Journal {
            set: set.to_owned(),
            new: new.strip_prefix(&self.root).unwrap_or(new).to_owned(),
            manifest: manifest_hash(new).unwrap_or_default(),
        };
        let path = self.root.join(ASIDE).join(JOURNAL);
        let text = serde_json::to_vec(&journal).unwrap_or_default();
        write_atomically(&path, |out| out.write_all(&text))
            .map_err(|source| RegenerateError::write(&path, source))?;
        let old = swap(new, &target, true).map_err(|source| RegenerateError::write(&target, source))?;
        if old.is_none_or(|old| discard(&old, &target, set)) {
            let _ = fs::remove_file(&path);
        }
        Ok(())
    }
}

impl Workplace {
    /// Removes a set that nothing replaces: its folder vanishes in one step. Returns the folder with files that are not the
    /// set's own and appeared meanwhile, if there are any.
    pub(super) fn remove(&self, set: &str) -> Result<Option<PathBuf>, RegenerateError> {
        let (target, aside) = (self.root.join(set), self.path("removed"));
        rename_only(&target, &aside).map_err(|source| RegenerateError::write(&target, source))?;
        remove_set(&aside, &target).map_err(|source| RegenerateError::write(&aside, source))
    }
}

/// Removes a set that was replaced, prints where foreign files are kept, and returns whether it could be removed. If not,
/// the journal stays, and the next run tries again.
fn discard(old: &Path, target: &Path, set: &str) -> bool {
    match remove_set(old, target) {
        Ok(None) => true,
        Ok(Some(kept)) => {
            eprintln!(
                "note: files that are not part of the set appeared in `{set}` while it was replaced; they are kept in `{}`",
                kept.display()
            );
            true
        }
        Err(error) => {
            eprintln!(
                "note: the old fixtures `{set}` could not be removed: {error}; the next run removes them"
            );
            false
        }
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // After a replacement that failed half-way, the only copy of the old set may be in here. The next run puts it
        // back, and also removes what cannot be removed now.
        let home = self.root.join(ASIDE);
        if self.alone && home.join(JOURNAL).exists() {
            return;
        }
        let _ = remove_folder(&self.run.path, Instant::now() + LAST_MOMENTS);
        if self.alone {
            remove_home(&home);
        } else {
            // This succeeds only if no other command uses the folder.
            let _ = self.run.path.parent().map(fs::remove_dir);
        }
    }
}

/// How long the folder of this run may take to become empty when it ends.
const LAST_MOMENTS: Duration = Duration::from_millis(200);

/// Removes the folder in which sets are made, unless it holds more than our own files. The root must be locked.
fn remove_home(home: &Path) {
    let others = || fs::read_dir(home).into_iter().flatten().filter_map(Result::ok);
    // A journal that a killed command had not finished.
    for part in others().filter(|entry| is_part(&entry.file_name())) {
        let _ = fs::remove_file(part.path());
    }
    if others().all(|entry| entry.file_name() == ".gitignore") {
        let _ = fs::remove_file(home.join(".gitignore")).and_then(|()| fs::remove_dir(home));
        let _ = fs::remove_dir(home);
    }
}

fn lock_root(
    root: &Path,
    try_lock: fn(&File) -> Result<(), TryLockError>,
    wait_for_lock: fn(&File) -> io::Result<()>,
) -> Result<File, RegenerateError> {
    let lock = File::open(root).map_err(|source| RegenerateError::read(root, source))?;
    if try_lock(&lock).is_err() {
        eprintln!("waiting for another command that uses `{}` to finish", root.display());
        wait_for_lock(&lock).map_err(|source| RegenerateError::write(root, source))?;
    }
    Ok(lock)
}

/// The size of what a killed run left in a fixture root; none if a command still uses the root.
pub(crate) fn leftover_bytes(root: &Path) -> Option<u64> {
    let home = root.join(ASIDE);
    let unused = || File::open(root).is_ok_and(|lock| lock.try_lock_shared().is_ok());
    (home.is_dir() && unused()).then(|| size::of_folder(&home))
}

/// Removes what a killed run left in a fixture root, or puts the old set back. Waits until no command uses the root.
pub(crate) fn remove_leftovers(root: &Path) -> Result<(), RegenerateError> {
    // Entering clears, and leaving removes the folder that entering makes.
    Workplace::enter(root).map(drop)
}

/// Whether there is anything to clear in a fixture root.
pub(super) fn has_leftovers(root: &Path) -> bool {
    fs::symlink_metadata(root.join(ASIDE)).is_ok()
}

/// Restores or removes what a killed run left behind, and prints what was done.
fn clear(root: &Path, home: &Path) -> Result<(), RegenerateError> {
    if !fs::symlink_metadata(home).is_ok_and(|data| data.is_dir()) {
        return match fs::symlink_metadata(home) {
            Ok(_) => Err(RegenerateError::NotAFolder { path: home.to_owned() }),
            Err(_) => Ok(()),
        };
    }
    let journal = regular::read(&home.join(JOURNAL), regular::TEXT)
        .ok()
        .and_then(|text| serde_json::from_slice::<Journal>(&text).ok());
    let outcome = match journal.filter(|journal| is_plain(&journal.set) && is_plain_path(&journal.new)) {
        Some(journal) => {
            let target = root.join(&journal.set);
            let new = root.join(&journal.new);
            let back = restore(&new, &target).map_err(|source| RegenerateError::write(&target, source))?;
            if !back && manifest_hash(&target).is_some_and(|hash| hash == journal.manifest) {
                // Somebody may have put a file into the old set's folder just before the set was replaced.
                for old in [kept(&new), new] {
                    if old.is_dir() && !discard(&old, &target, &journal.set) {
                        return Err(RegenerateError::write(&old, io::ErrorKind::DirectoryNotEmpty.into()));
                    }
                }
                format!("fixtures `{}` had been replaced", journal.set)
            } else if back {
                format!("fixtures `{}` had not been replaced, and the old ones were restored", journal.set)
            } else {
                format!("fixtures `{}` had not been replaced", journal.set)
            }
        }
        None => "nothing had been replaced".to_owned(),
    };
    let bytes = size::of_folder(home);
    let gone = remove_runs(home);
    let _ = fs::remove_file(home.join(JOURNAL));
    remove_home(home);
    let left = match gone {
        true => format!("removed the {} that it left behind", size::words(bytes)),
        false => "removed its files, except where a script is still running".to_owned(),
    };
    eprintln!("an earlier run was interrupted: {outcome}; {left}");
    Ok(())
}

/// Whether a set of that name may be put into the root, and what is there may be replaced by it.
///
/// No link is on the way below the root, and nothing is there that is not the set's own. `new` is the folder of the set
/// that is to take its place, once there is one.
pub(super) fn check_target(root: &Path, set: &str, new: Option<&Path>) -> Result<(), RegenerateError> {
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
    owned::check(&path, set, new)
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
    Some(mlx_parity_core::files::hash::hex(&Sha256::digest(
        regular::read(&folder.join(MANIFEST), regular::TEXT).ok()?,
    )))
}

/// Opens the committed set, if there is one that can be read.
pub(super) fn committed(root: &Path, set: &str) -> Option<FixtureSet> {
    FixtureSet::open(root, set).ok()
}
