//! Where runs are kept: how one starts, who joins it, and which ones make room.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::folder::{FolderError, lock};
use super::key::{Join, LATEST, RunName};
use super::marker::{self, Marker};
use crate::regular;

/// How many runs without a name of their own are kept; older ones are removed when a new one starts.
const KEPT: usize = 10;
/// So many runs may have one name at once: `name`, `name-2`, and so on.
const MOST: usize = 1000;
/// Held while a run starts, so that two that start at once see each other.
const STARTING: &str = ".starting";
/// Held, in the run's folder, by every process that takes part.
const GOING: &str = ".going";
/// What was asked for in a run that processes share, one line each.
const ASKED: &str = ".asked";
/// Folders on their way in and out begin with these. Nobody looks into them.
const NEW: &str = ".aside-new";
const OLD: &str = ".aside-old";
const LINK: &str = ".aside-latest";

/// `target/parity` of a project, or the folder that `PARITY_OUT` names.
#[derive(Debug, Clone)]
pub(crate) struct Out(PathBuf);

/// A run that goes on while this is held.
#[derive(Debug)]
pub(crate) struct Going {
    pub(crate) folder: PathBuf,
    /// Who the run belongs to, for those that are to take part.
    pub(crate) owner: String,
    /// Why it has another name than was asked for, if it has.
    pub(crate) note: Option<String>,
    _held: File,
}

impl Out {
    /// A relative `PARITY_OUT` is meant from the root, since Cargo runs tests in the folder of their package.
    pub(crate) fn of(root: &Path) -> Self {
        Self(root.join(std::env::var_os("PARITY_OUT").unwrap_or_else(|| "target/parity".into())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The lock file that stands for the device.
    pub(crate) fn device(&self) -> PathBuf {
        self.0.join("device.lock")
    }

    /// What was verified of the fixtures before, so that large sets are not hashed each time.
    pub(crate) fn checksums(&self) -> PathBuf {
        self.0.join("checksums.json")
    }

    /// The folder of the run with that key, whether or not it is there.
    pub(crate) fn run(&self, key: &str) -> PathBuf {
        self.runs().join(key)
    }

    fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    /// Starts the run of that name, or takes part in it if it is the same one: a new run has an empty folder, and
    /// `latest` points at it.
    ///
    /// A run of that name which has ended makes way in one step. One that goes on, or a folder that is not ours, stays,
    /// and the new run is called `name-2`. The run goes on while what comes back is held, and is not removed to make
    /// room for newer ones.
    pub(crate) fn start(&self, name: &RunName) -> Result<Going, FolderError> {
        let runs = self.runs();
        fs::create_dir_all(&runs).map_err(|source| FolderError::Write { path: runs.clone(), source })?;
        let starting = lock(&runs.join(STARTING))?;
        if let Some(going) = joined(&runs, name)? {
            return Ok(going);
        }
        let (folder, note) = free(&runs, name)?;
        let mut going = begin(&runs, &folder, name)?;
        going.note = note;
        // Neither a missing link nor an old run too many makes this one wrong.
        if let Err(error) = point_latest(&runs, &folder) {
            eprintln!(
                "`{}` does not point at this run: {error}; move it away for `cargo xtask report` to find the newest",
                runs.join(LATEST).display()
            );
        }
        make_room(&runs, &folder, name.named);
        // Nobody else makes a folder now, so that what is still on its way in was left by a process that was killed.
        folders(&runs).filter(|path| is_aside(path, NEW)).for_each(|path| marker::remove(&path));
        links(&runs).filter(|path| is_aside(path, LINK)).for_each(|path| _ = fs::remove_file(path));
        drop(starting);
        sweep(&runs);
        Ok(going)
    }
}

/// The names that a run may have, in order.
fn names(runs: &Path, key: &str) -> impl Iterator<Item = PathBuf> {
    (1..=MOST).map(move |count| runs.join(if count == 1 { key.to_owned() } else { format!("{key}-{count}") }))
}

/// Takes part in the run of the same owner, if there is one that the process is to take part in.
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

/// Notes what is asked for; whether it was not asked for before.
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

/// The first name that is free, or whose run has ended and is ours: that one is put aside. With it, why it is another
/// name than was asked for.
fn free(runs: &Path, name: &RunName) -> Result<(PathBuf, Option<String>), FolderError> {
    let mut why = None;
    for folder in names(runs, &name.key) {
        let called = || folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let note = |why: String| format!("{why}, so this run is called `{}`", called());
        match Marker::read(&folder) {
            // Also a link or a file: whatever it is, it is not ours.
            None if folder.symlink_metadata().is_ok() => {
                why.get_or_insert(format!("`{}` is no run of mlx-parity", folder.display()));
            }
            Some(marker) if is_held(&folder) || is_owned_elsewhere(&marker, name) => {
                let by = marker.process.map(|process| format!(" under process {}", process.id()));
                let by = by.unwrap_or_default();
                why.get_or_insert(format!("a run called `{}` goes on{by}", name.key));
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

/// Whether the run belongs to another process, which still runs.
fn is_owned_elsewhere(marker: &Marker, name: &RunName) -> bool {
    marker.owner != name.owner && marker.process.as_ref().is_some_and(|process| process.is_alive())
}

/// Whether a process takes part in the run.
fn is_held(folder: &Path) -> bool {
    regular::open(&folder.join(GOING)).is_ok_and(|file| file.try_lock().is_err())
}

/// Makes the folder of a new run, which is there only once it is marked and held.
fn begin(runs: &Path, folder: &Path, name: &RunName) -> Result<Going, FolderError> {
    let made = aside(runs, NEW);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| FolderError::Write { path, source }
    };
    fs::create_dir(&made).map_err(failed(&made))?;
    let mut marker = Marker::new(&name.owner);
    marker.process = name.process.clone();
    (marker.named, marker.filtered) = (name.named, name.filtered);
    marker.write(&made)?;
    if let Join::Once(asked) = &name.join {
        ask(&made, asked)?;
    }
    let going = hold(made.clone(), name)?;
    fs::rename(&made, folder).map_err(failed(folder))?;
    Ok(Going { folder: folder.to_owned(), ..going })
}

fn hold(folder: PathBuf, name: &RunName) -> Result<Going, FolderError> {
    let path = folder.join(GOING);
    let held = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let held = held.and_then(|file| file.lock_shared().map(|()| file));
    let held = held.map_err(|source| FolderError::Write { path, source })?;
    Ok(Going { folder, owner: name.owner.clone(), note: None, _held: held })
}

/// A path that nothing else has, on the same file system.
fn aside(runs: &Path, what: &str) -> PathBuf {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    runs.join(format!("{what}-{}-{now}-{count}", std::process::id()))
}

/// Takes a run away in one step; [`sweep`] removes what it left.
fn put_aside(runs: &Path, folder: &Path) -> Result<(), FolderError> {
    fs::rename(folder, aside(runs, OLD))
        .map_err(|source| FolderError::Write { path: folder.to_owned(), source })
}

/// Makes the link aside and renames it, so that `latest` is never missing while runs follow each other. What is called
/// so and is not a link to a folder beside it stays: such a link holds nothing that could be lost.
fn point_latest(runs: &Path, folder: &Path) -> io::Result<()> {
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

/// Puts the runs beyond [`KEPT`] aside: the oldest of those that were filtered first, then the oldest of all. What is
/// not ours, what has a name that a person chose, what goes on and the run in `newest` stay.
fn make_room(runs: &Path, newest: &Path, newest_is_named: bool) {
    let mut old: Vec<(Marker, PathBuf)> = folders(runs)
        .filter(|path| path != newest && !is_aside(path, NEW) && !is_aside(path, OLD))
        .filter_map(|path| Some((Marker::read(&path)?, path)))
        .filter(|(marker, _)| !marker.named)
        .collect();
    old.sort_by_key(|(marker, path)| (!marker.filtered, marker.started, path.clone()));
    let mut excess = (old.len() + usize::from(!newest_is_named)).saturating_sub(KEPT);
    for (marker, path) in old {
        let goes_on = is_held(&path) || marker.process.is_some_and(|process| process.is_alive());
        if excess > 0 && !goes_on && put_aside(runs, &path).is_ok() {
            excess -= 1;
        }
    }
}

/// Removes what was put aside, here or by a process that was killed before it came to that.
fn sweep(runs: &Path) {
    for path in folders(runs).filter(|path| is_aside(path, OLD)) {
        marker::remove(&path);
    }
}

fn folders(runs: &Path) -> impl Iterator<Item = PathBuf> {
    entries(runs, |kind| kind.is_dir())
}

fn links(runs: &Path) -> impl Iterator<Item = PathBuf> {
    entries(runs, |kind| kind.is_symlink())
}

fn entries(runs: &Path, is_meant: fn(&fs::FileType) -> bool) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(runs).into_iter().flatten().filter_map(Result::ok);
    entries.filter(move |entry| entry.file_type().is_ok_and(|kind| is_meant(&kind))).map(|entry| entry.path())
}

fn is_aside(path: &Path, what: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: &str, owner: &str) -> RunName {
        let fresh = RunName::fresh(false);
        RunName { key: key.into(), owner: owner.into(), named: false, ..fresh }
    }

    fn home() -> (tempfile::TempDir, Out) {
        let home = tempfile::tempdir().unwrap();
        let out = Out(home.path().to_owned());
        (home, out)
    }

    fn called(out: &Out) -> Vec<String> {
        let mut names: Vec<String> = folders(&out.runs())
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn latest(out: &Out) -> PathBuf {
        fs::read_link(out.run(LATEST)).unwrap()
    }

    #[test]
    fn latest_is_the_newest_and_old_runs_go() {
        let (_home, out) = home();
        for run in 0..KEPT + 3 {
            out.start(&name(&format!("run{run:02}"), "one")).unwrap();
        }
        assert_eq!(latest(&out), Path::new("run12"));
        assert_eq!(called(&out), (3..13).map(|run| format!("run{run:02}")).collect::<Vec<_>>());
    }

    #[test]
    fn latest_leaves_a_run_of_an_earlier_version_behind_and_what_is_no_link_alone() {
        let (_home, out) = home();
        fs::create_dir_all(out.run("unmarked")).unwrap();
        std::os::unix::fs::symlink("unmarked", out.run(LATEST)).unwrap();
        out.start(&name("first", "one")).unwrap();
        assert_eq!(latest(&out), Path::new("first"));
        assert!(out.run("unmarked").is_dir());
        fs::remove_file(out.run(LATEST)).unwrap();
        fs::create_dir(out.run(LATEST)).unwrap();
        out.start(&name("second", "one")).unwrap();
        assert!(out.run(LATEST).symlink_metadata().unwrap().is_dir());
    }

    #[test]
    fn a_run_that_goes_on_is_kept_however_old() {
        let (_home, out) = home();
        let going = out.start(&name("first", "one")).unwrap();
        for run in 0..2 * KEPT {
            out.start(&name(&format!("run{run:02}"), "one")).unwrap();
        }
        assert!(going.folder.is_dir());
        drop(going);
        out.start(&name("last", "one")).unwrap();
        assert!(!out.run("first").exists());
    }

    #[test]
    fn filtered_runs_make_room_first_and_named_ones_never() {
        let (_home, out) = home();
        out.start(&RunName { named: true, ..name("named", "one") }).unwrap();
        for run in 0..KEPT {
            let filtered = run >= KEPT - 2;
            out.start(&RunName { filtered, ..name(&format!("run{run:02}"), "one") }).unwrap();
        }
        out.start(&name("more1", "one")).unwrap();
        out.start(&name("more2", "one")).unwrap();
        assert!(out.run("run00").exists() && out.run("named").exists());
        assert!(!out.run("run08").exists() && !out.run("run09").exists());
        out.start(&name("more3", "one")).unwrap();
        assert!(!out.run("run00").exists() && out.run("named").exists());
    }

    #[test]
    fn what_is_not_ours_stays_whatever_it_is_called() {
        let (_home, out) = home();
        let runs = out.runs();
        for other in ["theirs", "taken", ".aside-old-theirs", ".aside-new-theirs"] {
            fs::create_dir_all(runs.join(other)).unwrap();
            fs::write(runs.join(other).join("work"), "a year of it").unwrap();
        }
        fs::write(runs.join(LATEST), "theirs").unwrap();
        for run in 0..2 * KEPT {
            out.start(&name(&format!("run{run:02}"), "one")).unwrap();
        }
        let going = out.start(&name("taken", "one")).unwrap();
        assert_eq!(going.folder, runs.join("taken-2"));
        assert!(going.note.unwrap().contains("is no run of mlx-parity, so this run is called `taken-2`"));
        for other in ["theirs", "taken", ".aside-old-theirs", ".aside-new-theirs"] {
            assert!(runs.join(other).join("work").is_file(), "{other}");
        }
        assert_eq!(fs::read_to_string(runs.join(LATEST)).unwrap(), "theirs");
    }

    #[test]
    fn a_name_used_again_starts_an_empty_run_and_latest_moves() {
        let (_home, out) = home();
        let first = out.start(&name("again", "one")).unwrap();
        fs::create_dir(first.folder.join("spec")).unwrap();
        drop(first);
        out.start(&name("other", "two")).unwrap();
        assert_eq!(latest(&out), Path::new("other"));
        let second = out.start(&name("again", "three")).unwrap();
        assert!(second.note.is_none() && !second.folder.join("spec").exists());
        assert_eq!(latest(&out), Path::new("again"));
        let third = out.start(&name("again", "four")).unwrap();
        assert_eq!(third.folder, out.run("again-2"));
        assert!(third.note.unwrap().contains("a run called `again` goes on"));
        assert_eq!(called(&out), ["again", "again-2", "other"]);
    }

    #[test]
    fn processes_of_one_owner_take_part_as_they_are_meant_to() {
        let (_home, out) = home();
        let join = |owner: &str, join: Join| out.start(&RunName { join, ..name("shared", owner) }).unwrap();
        let once = |asked: &str| Join::Once(asked.to_owned());
        let first = join("one", once("1 a")).folder;
        fs::write(first.join("spec"), "kept").unwrap();
        assert!(join("one", once("1 b")).folder.join("spec").exists());
        assert!(join("one", once("2 b")).folder.join("spec").exists());
        // Nobody asks twice in one run, so this is the next.
        assert!(!join("one", once("1 a")).folder.join("spec").exists());
        fs::write(first.join("spec"), "kept").unwrap();
        assert!(join("one", Join::SameOwner).folder.join("spec").exists());
        assert!(!join("one", Join::WhileGoing).folder.join("spec").exists(), "nobody held it");
        let going = join("two", Join::Never);
        fs::write(going.folder.join("spec"), "kept").unwrap();
        assert!(join("two", Join::WhileGoing).folder.join("spec").exists());
        drop(going);
        assert!(!join("two", Join::WhileGoing).folder.join("spec").exists());
    }

    #[test]
    fn what_a_killed_process_left_half_made_is_swept() {
        let (_home, out) = home();
        let runs = out.runs();
        for (left, file) in [(".aside-new-1-2-3", None), (".aside-new-1-2-4", Some(".abc.part"))] {
            fs::create_dir_all(runs.join(left)).unwrap();
            file.inspect(|file| fs::write(runs.join(left).join(file), "{").unwrap());
        }
        std::os::unix::fs::symlink("gone", runs.join(".aside-latest-1-2-6")).unwrap();
        let half = runs.join(".aside-old-1-2-5");
        fs::create_dir_all(half.join("spec")).unwrap();
        Marker::new("gone").write(&half).unwrap();
        out.start(&name("next", "one")).unwrap();
        assert_eq!(called(&out), ["next"]);
        assert_eq!(links(&runs).count(), 1, "only `latest`");
    }
}
