//! The runs of a project, and the removal of those that nobody needs.

use std::fs;
use std::path::{Path, PathBuf};

use super::folders::{self, Out};
use super::marker::Marker;
use super::name::LATEST;
use crate::files::{regular, size};
use crate::run_folder::{FolderError, JOB, LOCAL};

/// How deep below a folder lock files are searched.
const LOCK_DEPTH: usize = 5;

/// A run that mlx-parity made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRun {
    /// The run folder.
    pub folder: PathBuf,
    /// Whether a person named or pinned the run, so that newer runs do not remove it.
    pub named: bool,
    /// Whether the run still goes on.
    pub running: bool,
    /// The process that started the run, if it is known.
    pub process: Option<u32>,
    /// The start of the run, in nanoseconds since 1970.
    started: u64,
}

impl KnownRun {
    /// Returns the name of the run's folder.
    pub fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the folders with the actuals and the pictures of the run, of both passes of every spec.
    pub fn tensor_folders(&self) -> Vec<PathBuf> {
        let walk = walkdir::WalkDir::new(&self.folder).min_depth(2).max_depth(8).sort_by_file_name();
        let folders = walk.into_iter().filter_map(Result::ok).filter(|entry| entry.file_type().is_dir());
        let is_ours = |path: &Path| {
            let above = path.parent().unwrap_or(path);
            let spec = if above.ends_with(LOCAL) { above.parent().unwrap_or(above) } else { above };
            matches!(path.file_name().and_then(|name| name.to_str()), Some("actual" | "images"))
                && spec.join(JOB).is_file()
        };
        folders.map(walkdir::DirEntry::into_path).filter(|path| is_ours(path)).collect()
    }
}

impl Out {
    /// Returns every run, newest first. A folder without our marker is not a run.
    pub fn all_runs(&self) -> Vec<KnownRun> {
        let runs = self.runs();
        let mut found: Vec<KnownRun> = folders::folders(&runs)
            .filter(|path| !folders::is_put_aside(path))
            .filter_map(|folder| {
                let marker = Marker::read(&folder)?;
                Some(KnownRun {
                    named: marker.named || marker.kept,
                    running: folders::is_running(&folder, &marker),
                    process: marker.process.as_ref().map(super::process::Process::id).or(marker.pid),
                    started: marker.started,
                    folder,
                })
            })
            .collect();
        found.sort_by(|a, b| (b.started, &b.folder).cmp(&(a.started, &a.folder)));
        found
    }

    /// Returns the size of what killed processes left in the folder of all runs.
    pub fn leftover_runs(&self) -> Vec<(PathBuf, u64)> {
        let runs = self.runs();
        let aside =
            folders::folders(&runs).filter(|path| folders::is_put_aside(path) && !folders::is_held(path));
        let ours = aside.filter(|path| Marker::read(path).is_some());
        ours.map(|path| (path.clone(), size::of_folder(&path))).collect()
    }

    /// Removes these runs, and what killed processes left behind. A run that goes on stays.
    ///
    /// Each run vanishes in one step: its folder is renamed first. `latest` then points at the newest run that is left.
    /// Returns the runs that stayed although they were to be removed.
    ///
    /// # Errors
    /// When a folder cannot be renamed.
    pub fn remove_runs(&self, doomed: &[KnownRun]) -> Result<Vec<KnownRun>, FolderError> {
        let runs = self.runs();
        if !runs.is_dir() {
            return Ok(Vec::new());
        }
        // No run starts or is removed meanwhile.
        let starting = folders::starting(&runs)?;
        let mut stayed = Vec::new();
        for run in doomed {
            match Marker::read(&run.folder) {
                Some(marker) if !folders::is_running(&run.folder, &marker) => {
                    folders::put_aside(&runs, &run.folder)?;
                }
                Some(_) => stayed.push(KnownRun { running: true, ..run.clone() }),
                // Another command has removed it.
                None => {}
            }
        }
        folders::remove_unfinished(&runs);
        let latest = runs.join(LATEST);
        let is_link = fs::symlink_metadata(&latest).is_ok_and(|data| data.is_symlink());
        if is_link && !latest.exists() {
            let pointed = match self.all_runs().first() {
                Some(newest) => folders::point_latest(&runs, &newest.folder),
                None => fs::remove_file(&latest),
            };
            pointed.map_err(|source| FolderError::Write { path: latest, source })?;
        }
        drop(starting);
        folders::sweep(&runs);
        Ok(stayed)
    }

    /// Returns whether a process works in this run folder, which may be anywhere.
    pub fn is_going(folder: &Path) -> bool {
        folders::is_held(folder)
    }

    /// Returns the folders beside the runs that commands claimed and no longer use, such as the results of mutations.
    pub fn claimed(&self) -> Vec<PathBuf> {
        let ours = folders::folders(self.path()).filter(|path| Marker::read(path).is_some());
        ours.filter(|path| !is_in_use(path)).collect()
    }
}

/// Returns whether a process holds a lock in this folder, or on the lock file beside it.
pub fn is_in_use(folder: &Path) -> bool {
    let is_lock = |name: &str| {
        matches!(name, "lock" | "held" | folders::GOING)
            || name.ends_with(".lock")
            || name.starts_with(".asked-")
    };
    let walk = walkdir::WalkDir::new(folder).max_depth(LOCK_DEPTH).into_iter().filter_map(Result::ok);
    let files = walk.filter(|entry| entry.file_type().is_file());
    let locks = files.filter(|entry| entry.file_name().to_str().is_some_and(is_lock));
    let is_held = |path: &Path| regular::open(path).is_ok_and(|file| file.try_lock_shared().is_err());
    is_held(&folder.with_extension("lock")) || locks.into_iter().any(|entry| is_held(entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::RunName;

    fn start(out: &Out, name: &str) -> crate::runs::Going {
        out.start(&RunName { key: name.to_owned(), ..RunName::fresh(false) }).unwrap()
    }

    fn ended(out: &Out, name: &str) -> PathBuf {
        start(out, name).folder
    }

    #[test]
    fn runs_are_listed_newest_first_and_only_ours() {
        let home = tempfile::tempdir().unwrap();
        let out = Out::at(home.path());
        assert_eq!(out.all_runs(), []);
        assert_eq!(out.remove_runs(&[]).unwrap(), []);
        let first = ended(&out, "first");
        let going = start(&out, "going");
        fs::create_dir(home.path().join("runs/theirs")).unwrap();
        let found = out.all_runs();
        assert_eq!(found.iter().map(|run| &run.folder).collect::<Vec<_>>(), [&going.folder, &first]);
        assert_eq!((found[0].running, found[1].running), (true, false));
        assert_eq!(found[0].process, Some(std::process::id()));
    }

    #[test]
    fn a_run_that_goes_on_stays_and_latest_follows() {
        let home = tempfile::tempdir().unwrap();
        let out = Out::at(home.path());
        let (first, second) = (ended(&out, "first"), ended(&out, "second"));
        let found = out.all_runs();
        assert_eq!(out.remove_runs(&found[..1]).unwrap(), []);
        assert!(!second.exists() && first.exists());
        assert_eq!(fs::read_link(out.run(LATEST)).unwrap(), Path::new(first.file_name().unwrap()));
        let going = start(&out, "going");
        // The list is older than the run's start.
        let found: Vec<_> =
            out.all_runs().into_iter().map(|run| KnownRun { running: false, ..run }).collect();
        let stayed = out.remove_runs(&found).unwrap();
        assert_eq!(stayed.iter().map(|run| &run.folder).collect::<Vec<_>>(), [&going.folder]);
        assert!(!first.exists() && going.folder.exists());
        drop(going);
        assert_eq!(out.remove_runs(&out.all_runs()).unwrap(), []);
        let left: Vec<_> =
            fs::read_dir(home.path().join("runs")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, [folders::STARTING], "`latest` is gone too");
    }

    #[test]
    fn only_the_tensors_of_a_worker_are_tensor_folders() {
        let home = tempfile::tempdir().unwrap();
        let folder = ended(&Out::at(home.path()), "run");
        for path in ["m/c/actual", "m/c/local/actual", "m/c/images", "m/c/notes", "suites/actual", "actual"] {
            fs::create_dir_all(folder.join(path)).unwrap();
        }
        fs::write(folder.join("m/c/job.json"), "{}").unwrap();
        let run = &Out::at(home.path()).all_runs()[0];
        let found: Vec<_> =
            run.tensor_folders().iter().map(|path| path.strip_prefix(&folder).unwrap().to_owned()).collect();
        assert_eq!(found, ["m/c/actual", "m/c/images", "m/c/local/actual"].map(PathBuf::from));
    }

    #[test]
    fn a_claimed_folder_with_a_held_lock_is_in_use() {
        let home = tempfile::tempdir().unwrap();
        let out = Out::at(home.path());
        let folder = home.path().join("mutations");
        crate::runs::claim(&folder).unwrap();
        assert_eq!(out.claimed(), std::slice::from_ref(&folder));
        let lock = crate::run_folder::Folder::create(folder.join("a/b")).unwrap().lock().unwrap();
        assert!(out.claimed().is_empty());
        drop(lock);
        assert_eq!(out.claimed(), [folder]);
    }
}
