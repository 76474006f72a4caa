//! The marker file of folders that mlx-parity created. A folder without it is never removed.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::process::Process;
use crate::files::atomic::{is_part, write_atomically};
use crate::files::regular;
use crate::run_folder::FolderError;

/// The file's name.
const MARKER: &str = ".parity-run.json";
/// The sentence in the file. A file name alone would not prove who created the folder.
const WHAT: &str = "This folder is mlx-parity's: it may remove the folder or empty it.";
/// The largest size of a marker. A longer file is not ours.
const MAX_LEN: u64 = 64 << 10;

/// The owner of a run folder, and how long the folder is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    what: String,
    /// The owner of the run. Processes with the same owner can share the run.
    pub(super) owner: String,
    /// The process of the owner. The run lasts while this process runs.
    pub(super) process: Option<Process>,
    /// The id of the process that created the folder. Early versions did not record it.
    #[serde(default)]
    pub(super) pid: Option<u32>,
    /// Whether a person chose the name. Such a run is never removed for a newer one.
    pub(super) named: bool,
    /// Whether a person pinned the run. A new run with the same name does not replace it.
    #[serde(default)]
    pub(super) kept: bool,
    /// Whether only some trials were selected.
    pub(super) filtered: bool,
    /// The start of the run, in nanoseconds since 1970.
    pub(super) started: u64,
}

impl Marker {
    pub(super) fn new(owner: &str) -> Self {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self {
            what: WHAT.to_owned(),
            owner: owner.to_owned(),
            process: None,
            pid: Some(std::process::id()),
            named: false,
            kept: false,
            filtered: false,
            started: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// Reads the marker of a folder; `None` if the folder has no valid marker.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let path = folder.join(MARKER);
        // We write a regular file, so a link or a device is not ours.
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_LEN {
            return None;
        }
        let marker: Self = serde_json::from_slice(&regular::read(&path, MAX_LEN).ok()?).ok()?;
        (marker.what == WHAT).then_some(marker)
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), FolderError> {
        let path = folder.join(MARKER);
        let failed = |source| FolderError::Write { path: path.clone(), source };
        let text = serde_json::to_vec_pretty(self).map_err(|error| failed(error.into()))?;
        write_atomically(&path, |out| out.write_all(&text)).map_err(failed)
    }
}

/// Removes a folder with our marker. The marker goes last, so a partly removed folder keeps it.
///
/// From a folder without a marker, only the partial marker of a killed process is removed, and then the folder if it is
/// empty.
pub fn remove(folder: &Path) {
    let is_ours = Marker::read(folder).is_some();
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.file_name() != MARKER) {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true if is_ours => _ = fs::remove_dir_all(entry.path()),
            false if is_ours || is_part(&entry.file_name()) => {
                _ = fs::remove_file(entry.path());
            }
            _ => {}
        }
    }
    let rest = fs::read_dir(folder).map_or(usize::MAX, Iterator::count);
    if is_ours && rest == 1 {
        let _ = fs::remove_file(folder.join(MARKER));
    }
    // This fails on purpose if the folder is not empty.
    let _ = fs::remove_dir(folder);
}

/// Creates a folder with our marker, or checks that an existing folder has it.
///
/// # Errors
/// When the folder holds files and has no marker.
pub fn claim(folder: &Path) -> Result<(), FolderError> {
    let failed = |source| FolderError::Write { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    if Marker::read(folder).is_some() {
        return Ok(());
    }
    match fs::read_dir(folder).map_err(failed)?.next() {
        Some(_) => Err(FolderError::NotOurs { path: folder.to_owned() }),
        None => Marker::new("").write(folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_or_marked_folder_is_claimed() {
        let home = tempfile::tempdir().unwrap();
        let (ours, other) = (home.path().join("a/ours"), home.path().join("other"));
        claim(&ours).unwrap();
        fs::write(ours.join("x"), "x").unwrap();
        claim(&ours).unwrap();
        fs::create_dir(&other).unwrap();
        for content in ["", "{}", r#"{"what":"a run","owner":"","named":false,"filtered":false,"started":1}"#]
        {
            fs::write(other.join(MARKER), content).unwrap();
            assert!(matches!(claim(&other), Err(FolderError::NotOurs { .. })), "{content}");
        }
    }
}
