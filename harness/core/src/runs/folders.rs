//! The folder of all runs: how a run starts, which processes join it, and which old runs are removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::marker::{self, Marker};
use super::name::{Join, LATEST, RunName};
use super::process::Process;
use crate::files::{regular, size};
use crate::run_folder::{FolderError, lock};
use crate::settings;
use crate::text::program::program;

/// How many unnamed runs are kept. A new run removes older ones.
const KEPT: usize = 10;
/// How many runs can share a name: `name`, `name-2`, and so on.
const MOST: usize = 1000;
/// The lock held while a run starts, so that two runs cannot start at once.
pub(super) const STARTING: &str = ".starting";
/// The lock in the run folder that every process of the run holds.
pub(super) const GOING: &str = ".going";
/// The file with the trials that the processes of a shared run were asked for, one per line.
const ASKED: &str = ".asked";
/// Prefixes of temporary names: folders that are being created or removed, and the new link. Readers ignore them.
const NEW: &str = ".aside-new";
const OLD: &str = ".aside-old";
const LINK: &str = ".aside-latest";
/// The prefix of a run that is written in full before it appears. Its process holds its lock meanwhile.
const STAGED: &str = ".aside-staged";

/// The output folder of a project: `target/parity`, or the folder that `PARITY_OUT` names.
#[derive(Debug, Clone)]
pub struct Out(PathBuf);

/// A running run. It ends when this value is dropped.
#[derive(Debug)]
pub struct Going {
    /// The run folder.
    pub folder: PathBuf,
    /// The owner of the run, for the processes that join it.
    pub owner: String,
    /// Why the run has another name than requested, if it has.
    pub note: Option<String>,
    _held: File,
}

impl Out {
    /// Returns the output folder. A relative `PARITY_OUT` starts at `root`, because Cargo runs tests in the folder of their
    /// package.
    pub fn of(root: &Path) -> Self {
        Self(root.join(settings::variable("PARITY_OUT").unwrap_or("target/parity")))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the lock file for the device.
    pub fn device(&self) -> PathBuf {
        self.0.join("device.lock")
    }

    /// Returns the path of the file with known checksums, which saves hashing large sets each time.
    pub fn checksums(&self) -> PathBuf {
        self.0.join("checksums.json")
    }

    /// Returns the folder for the run with this key, which need not exist.
    pub fn run(&self, key: &str) -> PathBuf {
        self.runs().join(key)
    }

    /// Returns the output folder at this path, whatever `PARITY_OUT` is.
    #[cfg(test)]
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Returns the bytes that fixtures and runs take together, to be compared with the size limits.
    pub fn taken(&self, fixture_root: &Path) -> u64 {
        size::of_folder(fixture_root)
            + size::of_folder(&self.runs())
            + size::of_folder(&self.debug_sessions())
    }

    /// Returns the folder of all runs.
    pub(super) fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    /// Starts the run with this name, or joins it if the same owner has started it.
    ///
    /// A new run has an empty folder, and `latest` points at it. An ended run with the same name is replaced in one step.
    /// A running one, or a folder that mlx-parity did not create, stays, and the new run is called `name-2`. The run lasts
    /// until the returned value is dropped; until then newer runs do not remove it.
    ///
    /// # Errors
    /// When the folder cannot be created or locked.
    pub fn start(&self, name: &RunName) -> Result<Going, FolderError> {
        let runs = self.runs();
        fs::create_dir_all(&runs).map_err(|source| FolderError::Write { path: runs.clone(), source })?;
        let starting = starting(&runs)?;
        if let Some(going) = joined(&runs, name)? {
            return Ok(going);
        }
        let (folder, note) = free(&runs, name)?;
        let mut going = begin(&runs, &folder, name)?;
        going.note = note;
        appeared(&runs, &folder, name.named);
        remove_unfinished(&runs);
        drop(starting);
        sweep(&runs);
        Ok(going)
    }
}

/// Points `latest` at a run that has just appeared, and puts old runs aside. The caller holds the lock of [`starting`].
pub(super) fn appeared(runs: &Path, folder: &Path, is_named: bool) {
    // A missing link or a leftover old run does not make this run wrong.
    if let Err(error) = point_latest(runs, folder) {
        eprintln!(
            "`{}` does not point at this run: {error}; move it away, so that `{} report` finds the newest run",
            runs.join(LATEST).display(),
            program()
        );
    }
    make_room(runs, folder, is_named);
}

/// Waits until no other process starts or removes a run. The lock is held until the file is dropped.
pub(super) fn starting(runs: &Path) -> Result<File, FolderError> {
    lock(&runs.join(STARTING))
}

/// Removes folders and links that killed processes left unfinished. No other process creates one, because the caller holds
/// the lock of [`starting`].
pub(super) fn remove_unfinished(runs: &Path) {
    let is_unfinished = |path: &PathBuf| is_aside(path, NEW) || (is_aside(path, STAGED) && !is_held(path));
    folders(runs).filter(is_unfinished).for_each(|path| marker::remove(&path));
    links(runs).filter(|path| is_aside(path, LINK)).for_each(|path| _ = fs::remove_file(path));
}

/// The possible folders of a run, in order.
fn names(runs: &Path, key: &str) -> impl Iterator<Item = PathBuf> {
    (1..=MOST).map(move |count| runs.join(if count == 1 { key.to_owned() } else { format!("{key}-{count}") }))
}

/// Joins an existing run of the same owner, if the rule in `name` allows it.
fn joined(runs: &Path, name: &RunName) -> Result<Option<Going>, FolderError> {
    for folder in names(runs, &name.key).take_while(|folder| folder.is_dir()) {
        if Marker::read(&folder).is_none_or(|marker| marker.owner != name.owner) {
            continue;
        }
        let joins = match &name.join {
            Join::Never => false,
            Join::WhileGoing => is_held(&folder),
            Join::SameOwner => true,
            Join::Once(asked) => ask(&folder, asked)?,
        };
        if joins {
            return hold(folder, name).map(Some);
        }
    }
    Ok(None)
}

/// Records the request; returns whether it is new.
fn ask(folder: &Path, asked: &str) -> Result<bool, FolderError> {
    let path = folder.join(ASKED);
    let known = fs::read_to_string(&path).unwrap_or_default();
    if known.lines().any(|line| line == asked) {
        return Ok(false);
    }
    let mut file = OpenOptions::new().create(true).append(true).open(&path);
    let written = file.as_mut().map_err(|error| io::Error::from(error.kind()));
    written
        .and_then(|file| file.write_all(format!("{asked}\n").as_bytes()))
        .map_err(|source| FolderError::Write { path, source })?;
    Ok(true)
}

/// Returns the first free folder, and why it has another name than requested. An ended run of mlx-parity is put aside, so
/// its name is free.
fn free(runs: &Path, name: &RunName) -> Result<(PathBuf, Option<String>), FolderError> {
    let mut why = None;
    for folder in names(runs, &name.key) {
        let called = || folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let note = |why: String| format!("{why}, so this run is called `{}`", called());
        match Marker::read(&folder) {
            // This can also be a link or a file. It has no marker, so it is not ours.
            None if folder.symlink_metadata().is_ok() => {
                why.get_or_insert(format!("`{}` is not a run of mlx-parity", folder.display()));
            }
            Some(marker) if is_held(&folder) || is_owned_elsewhere(&marker, name) => {
                let by = marker.process.map(|process| format!(" under process {}", process.id()));
                let by = by.unwrap_or_default();
                why.get_or_insert(format!("a run called `{}` is still running{by}", name.key));
            }
            Some(marker) if marker.kept => {
                why.get_or_insert(format!("the run `{}` is kept", name.key));
            }
            Some(_) => {
                put_aside(runs, &folder)?;
                return Ok((folder.clone(), why.map(note)));
            }
            None => return Ok((folder.clone(), why.map(note))),
        }
    }
    Err(FolderError::Write { path: runs.join(&name.key), source: io::ErrorKind::AlreadyExists.into() })
}

/// Whether the run belongs to another process that is still running.
fn is_owned_elsewhere(marker: &Marker, name: &RunName) -> bool {
    marker.owner != name.owner && marker.process.as_ref().is_some_and(|process| process.is_alive())
}

/// Whether the run goes on: a process holds it, or its owner is alive.
pub(super) fn is_running(folder: &Path, marker: &Marker) -> bool {
    is_held(folder) || marker.process.as_ref().is_some_and(Process::is_alive)
}

/// Whether any process holds the run.
///
/// A lock can seem taken for an instant: another process asks the same question, or a child that was just forked still
/// has the descriptor of a lock that its parent released. Therefore only a lock that stays taken counts.
pub(super) fn is_held(folder: &Path) -> bool {
    let is_locked = |file: &File, attempt: u32| {
        if attempt > 0 {
            thread::sleep(Duration::from_millis(5));
        }
        file.try_lock().is_err()
    };
    regular::open(&folder.join(GOING)).is_ok_and(|file| (0..4).all(|attempt| is_locked(&file, attempt)))
}

/// Creates the folder of a new run. It appears under its name only once it has its marker and lock.
fn begin(runs: &Path, folder: &Path, name: &RunName) -> Result<Going, FolderError> {
    let going = made(aside(runs, NEW), name)?;
    fs::rename(&going.folder, folder)
        .map_err(|source| FolderError::Write { path: folder.to_owned(), source })?;
    Ok(Going { folder: folder.to_owned(), ..going })
}

/// Creates the folder of a new run under a temporary name, under which it stays while the lock is held.
pub(super) fn begin_staged(runs: &Path, name: &RunName) -> Result<Going, FolderError> {
    made(aside(runs, STAGED), name)
}

/// Creates a folder with its marker and lock.
fn made(folder: PathBuf, name: &RunName) -> Result<Going, FolderError> {
    fs::create_dir(&folder).map_err(|source| FolderError::Write { path: folder.clone(), source })?;
    let mut marker = Marker::new(&name.owner);
    marker.process = name.process.clone();
    (marker.named, marker.filtered) = (name.named, name.filtered);
    marker.write(&folder)?;
    if let Join::Once(asked) = &name.join {
        ask(&folder, asked)?;
    }
    hold(folder, name)
}

fn hold(folder: PathBuf, name: &RunName) -> Result<Going, FolderError> {
    let path = folder.join(GOING);
    let held = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let held = held.and_then(|file| file.lock_shared().map(|()| file));
    let held = held.map_err(|source| FolderError::Write { path, source })?;
    Ok(Going { folder, owner: name.owner.clone(), note: None, _held: held })
}

/// An unused path on the same file system.
fn aside(runs: &Path, what: &str) -> PathBuf {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    runs.join(format!("{what}-{}-{now}-{count}", std::process::id()))
}

/// Renames a run folder in one step; [`sweep`] removes its files later.
pub(super) fn put_aside(runs: &Path, folder: &Path) -> Result<(), FolderError> {
    fs::rename(folder, aside(runs, OLD))
        .map_err(|source| FolderError::Write { path: folder.to_owned(), source })
}

/// Points `latest` at the run. The link is created under another name and renamed, so `latest` always exists.
///
/// Only a link to a folder beside it is replaced, because nothing is lost with such a link. Anything else called `latest`
/// stays.
pub(super) fn point_latest(runs: &Path, folder: &Path) -> io::Result<()> {
    let latest = runs.join(LATEST);
    if let Ok(found) = latest.symlink_metadata() {
        let leads_elsewhere = || fs::read_link(&latest).is_ok_and(|to| to.components().count() != 1);
        if !found.is_symlink() || leads_elsewhere() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
    }
    let link = aside(runs, LINK);
    std::os::unix::fs::symlink(folder.file_name().unwrap_or_default(), &link)?;
    fs::rename(&link, latest).inspect_err(|_| _ = fs::remove_file(&link))
}

/// Puts the runs beyond [`KEPT`] aside: first the oldest filtered runs, then the oldest of all.
///
/// Folders without our marker, runs with a chosen name, running runs and the run in `newest` stay.
fn make_room(runs: &Path, newest: &Path, newest_is_named: bool) {
    let mut old: Vec<(Marker, PathBuf)> = folders(runs)
        .filter(|path| path != newest && !is_put_aside(path))
        .filter_map(|path| Some((Marker::read(&path)?, path)))
        .filter(|(marker, _)| !marker.named)
        .collect();
    old.sort_by_key(|(marker, path)| (!marker.filtered, marker.started, path.clone()));
    let mut excess = (old.len() + usize::from(!newest_is_named)).saturating_sub(KEPT);
    for (marker, path) in old {
        if excess > 0 && !is_running(&path, &marker) && put_aside(runs, &path).is_ok() {
            excess -= 1;
        }
    }
}

/// Removes the runs that were put aside, also those that a killed process could not remove.
pub(super) fn sweep(runs: &Path) {
    for path in folders(runs).filter(|path| is_aside(path, OLD)) {
        marker::remove(&path);
    }
}

pub(super) fn folders(runs: &Path) -> impl Iterator<Item = PathBuf> {
    entries(runs, |kind| kind.is_dir())
}

fn links(runs: &Path) -> impl Iterator<Item = PathBuf> {
    entries(runs, |kind| kind.is_symlink())
}

fn entries(runs: &Path, is_meant: fn(&fs::FileType) -> bool) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(runs).into_iter().flatten().filter_map(Result::ok);
    entries.filter(move |entry| entry.file_type().is_ok_and(|kind| is_meant(&kind))).map(|entry| entry.path())
}

/// Whether a folder is being created or removed, or was when its process was killed.
pub(super) fn is_put_aside(path: &Path) -> bool {
    [NEW, OLD, STAGED].iter().any(|what| is_aside(path, what))
}

fn is_aside(path: &Path, what: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(what))
}

#[cfg(test)]
mod tests;
