//! Where runs are kept, and what each is called.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::folder::FolderError;

/// How many runs are kept; older ones are removed when a new one starts.
const KEPT: usize = 10;

/// `target/parity` of a project, or the folder that `PARITY_OUT` names.
#[derive(Debug, Clone)]
pub(crate) struct Out(PathBuf);

impl Out {
    pub(crate) fn of(root: &Path) -> Self {
        Self(std::env::var_os("PARITY_OUT").map_or_else(|| root.join("target/parity"), PathBuf::from))
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

    /// The folder of the run with that key, made if need be, with `latest` pointing at it.
    pub(crate) fn start(&self, key: &str) -> Result<PathBuf, FolderError> {
        let runs = self.0.join("runs");
        let folder = self.run(key);
        let failed = |source| FolderError::Write { path: folder.clone(), source };
        let is_new = !folder.is_dir();
        fs::create_dir_all(&folder).map_err(failed)?;
        if is_new {
            // A link made aside and renamed: `latest` is never missing while runs follow each other.
            let aside = runs.join(format!(".latest-{}", std::process::id()));
            let _ = fs::remove_file(&aside);
            std::os::unix::fs::symlink(key, &aside)
                .and_then(|()| fs::rename(&aside, runs.join("latest")))
                .map_err(failed)?;
            prune(&runs, key).map_err(failed)?;
        }
        Ok(folder)
    }
}

/// Removes the oldest runs beyond [`KEPT`], never the one called `key`.
fn prune(runs: &Path, key: &str) -> io::Result<()> {
    let mut found = Vec::new();
    for entry in fs::read_dir(runs)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && entry.file_name() != key {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort();
    for (_, path) in found.iter().take((found.len() + 1).saturating_sub(KEPT)) {
        // Two runs may prune at once; what the other removed first is as good as removed.
        let _ = fs::remove_dir_all(path);
    }
    Ok(())
}

/// The key of this process's run: what `PARITY_RUN` says, or else one for all processes of a nextest run, or the time
/// and the process id.
pub(crate) fn key() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(key) = variable("PARITY_RUN") {
        return plain(&key);
    }
    if let Some(run) = variable("NEXTEST_RUN_ID") {
        let binary = variable("NEXTEST_BINARY_ID").unwrap_or_default();
        let stress = variable("NEXTEST_STRESS_CURRENT").unwrap_or_default();
        return plain(&format!("nextest-{run}-{binary}-{stress}"));
    }
    format!("{}-{}", chrono::Utc::now().format("%Y%m%dT%H%M%S%3fZ"), std::process::id())
}

/// A key as one file name: what could be a path or an option is replaced.
fn plain(text: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = text.chars().map(kept).take(150).collect();
    format!("{}{}", if name.starts_with(['.', '-']) { "run" } else { "" }, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_plain_file_name() {
        assert_eq!(plain("a::b/../c"), "a--b-..-c");
        assert_eq!(plain("../x"), "run..-x");
        assert_eq!(plain("latest run"), "latest-run");
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
        assert_eq!(out.start("run5").unwrap(), runs.join("run5"));
        assert_eq!(
            fs::read_link(runs.join("latest")).unwrap(),
            Path::new("run12"),
            "a run that goes on is not a new one"
        );
    }
}
