//! The file by which we know a folder for ours: nothing without it is ever removed.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::folder::FolderError;
use super::process::Process;
use crate::atomic::{is_part, write_atomically};
use crate::regular;

/// The file's name.
const MARKER: &str = ".parity-run.json";
/// What the file says it is. A name alone could be anybody's.
const WHAT: &str = "This folder is mlx-parity's: it may remove the folder or empty it.";
/// A longer file is not one that we wrote.
const MAX_LEN: u64 = 64 << 10;

/// Whose folder it is, and what is kept in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    what: String,
    /// Who the run belongs to: those that have the same take part in one run.
    pub(super) owner: String,
    /// The process that stands for the owner: while it runs, so does the run.
    pub(super) process: Option<Process>,
    /// Whether a person chose the name: such a run is never removed to make room.
    pub(super) named: bool,
    /// Whether only some of the trials were asked for.
    pub(super) filtered: bool,
    /// Nanoseconds since 1970.
    pub(super) started: u64,
}

impl Marker {
    pub(super) fn new(owner: &str) -> Self {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self {
            what: WHAT.to_owned(),
            owner: owner.to_owned(),
            process: None,
            named: false,
            filtered: false,
            started: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The marker of a folder; `None` for one that is not ours, or not known to be.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let path = folder.join(MARKER);
        // A link or a device under that name is not what we write.
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

/// Removes a folder that is ours, the marker last, so that one which is removed only in part is still known for ours.
///
/// Of a folder without a marker only what a process leaves that is killed while it writes one is removed.
pub(crate) fn remove(folder: &Path) {
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
    // Fails, as it should, where anything is left.
    let _ = fs::remove_dir(folder);
}

/// Makes a folder that may be emptied later, or sees that the one which is there is ours.
///
/// # Errors
/// When the folder holds anything and does not have our marker.
pub(crate) fn claim(folder: &Path) -> Result<(), FolderError> {
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
    fn only_what_is_empty_or_ours_is_claimed() {
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
