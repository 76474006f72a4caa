//! Where runs are kept, and what each is called.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::folder::FolderError;

/// The link to the newest run.
const LATEST: &str = "latest";
/// How many runs are kept; older ones are removed when a new one starts.
const KEPT: usize = 10;

/// `target/parity` of a project, or the folder that `PARITY_OUT` names.
#[derive(Debug, Clone)]
pub(crate) struct Out(PathBuf);

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
        self.0.join("runs").join(key)
    }

    /// Starts the run with that key, or takes part in it: its folder is made, and `latest` points at it.
    ///
    /// The run counts as going on while what comes back is held, and is not removed to make room for newer ones.
    pub(crate) fn start(&self, key: &str) -> Result<Going, FolderError> {
        let runs = self.0.join("runs");
        let folder = self.run(key);
        let is_new = !folder.is_dir();
        fs::create_dir_all(&folder).map_err(|source| FolderError::Write { path: folder.clone(), source })?;
        let path = folder.join(".going");
        let going = File::create(&path)
            .and_then(|file| file.lock_shared().map(|()| file))
            .map_err(|source| FolderError::Write { path, source })?;
        if is_new {
            // Neither a missing link nor an old run too many makes this one wrong.
            let _ = point_latest(&runs, key);
            prune(&runs, key);
        }
        Ok(Going { folder, _held: going })
    }
}

/// A run that goes on.
#[derive(Debug)]
pub(crate) struct Going {
    pub(crate) folder: PathBuf,
    _held: File,
}

/// Makes the link aside and renames it, so that `latest` is never missing while runs follow each other.
fn point_latest(runs: &Path, key: &str) -> io::Result<()> {
    let aside = runs.join(format!(".latest-{key}"));
    let _ = fs::remove_file(&aside);
    std::os::unix::fs::symlink(key, &aside)?;
    fs::rename(&aside, runs.join(LATEST)).inspect_err(|_| _ = fs::remove_file(&aside))
}

/// Removes the oldest runs beyond [`KEPT`], never the one called `key` nor one that goes on.
fn prune(runs: &Path, key: &str) {
    let entries = fs::read_dir(runs).into_iter().flatten().filter_map(Result::ok);
    // Two runs may prune at once; what the other removed first is as good as removed.
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != key)
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    found.sort();
    for (_, path) in found.iter().take((found.len() + 1).saturating_sub(KEPT)) {
        let ended = crate::regular::open(&path.join(".going")).map_or(true, |file| file.try_lock().is_ok());
        if ended {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// The key of this process's run: what `PARITY_RUN` says, or a [`fresh_key`]; under nextest one for all processes of the
/// same round of the same binary, which begins with what `PARITY_RUN` says.
pub(crate) fn key() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let named = variable("PARITY_RUN");
    if let Some(run) = variable("NEXTEST_RUN_ID") {
        let named = plain(&named.unwrap_or_else(|| "nextest".to_owned()));
        let binary = variable("NEXTEST_BINARY_ID").unwrap_or_default();
        let stress = variable("NEXTEST_STRESS_CURRENT").unwrap_or_default();
        // What tells rounds apart comes first: a long name loses its end.
        return plain(&format!("{}-{run}-{stress}-{binary}", &named[..named.len().min(40)]));
    }
    named.map_or_else(fresh_key, |named| plain(&named))
}

/// A key that no run had before: the time and the process id.
pub(crate) fn fresh_key() -> String {
    format!("{}-{}", chrono::Utc::now().format("%Y%m%dT%H%M%S%3fZ"), std::process::id())
}

/// A key as one file name: what could be a path or an option is replaced.
fn plain(text: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = text.chars().map(kept).take(150).collect();
    let taken = name.starts_with(['.', '-']) || name == LATEST;
    format!("{}{name}", if taken { "run-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_plain_file_name() {
        assert_eq!(plain("a::b/../c"), "a--b-..-c");
        assert_eq!(plain("../x"), "run-..-x");
        assert_eq!(plain("latest"), "run-latest");
        assert_eq!(plain("latest run"), "latest-run");
    }

    #[test]
    fn a_run_that_goes_on_is_kept_however_old() {
        let home = tempfile::tempdir().unwrap();
        let out = Out(home.path().to_owned());
        let going = out.start("first").unwrap();
        fs::File::open(&going.folder).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        for run in 0..2 * KEPT {
            out.start(&format!("run{run}")).unwrap();
        }
        assert!(going.folder.is_dir());
        drop(going);
        out.start("last").unwrap();
        assert!(!home.path().join("runs/first").exists());
    }

    #[test]
    fn latest_is_the_newest_and_old_runs_go() {
        let home = tempfile::tempdir().unwrap();
        let out = Out(home.path().to_owned());
        for run in 0..KEPT + 3 {
            out.start(&format!("run{run}")).unwrap();
            // Modification times must differ for the order to be known.
            let path = home.path().join(format!("runs/run{run}"));
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(run as u64);
            fs::File::open(path).unwrap().set_modified(time).unwrap();
        }
        let runs = home.path().join("runs");
        assert_eq!(fs::read_link(runs.join("latest")).unwrap(), Path::new("run12"));
        assert_eq!(fs::read_dir(&runs).unwrap().count(), KEPT + 1);
        assert!(!runs.join("run2").exists() && runs.join("run3").exists());
        assert_eq!(out.start("run5").unwrap().folder, runs.join("run5"));
        assert_eq!(
            fs::read_link(runs.join("latest")).unwrap(),
            Path::new("run12"),
            "a run that goes on is not a new one"
        );
    }
}
