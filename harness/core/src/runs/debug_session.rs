//! The folders of debug sessions, `debug/<key>/`, and the lock that allows one session at a time.
//!
//! A session is no run: its folder is not below `runs/`, `latest` never points at it, and no command judges it.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::device::{read_holder, write_holder};
use super::folders::{Out, folders};
use super::marker::{self, Marker, claim};
use super::name::fresh_key;
use crate::debug::DEBUG_TASK;
use crate::files::regular;
use crate::run_folder::FolderError;

/// How many sessions are kept. A new one removes older ones.
const KEPT: usize = 10;

/// How often the lock is tried, and the pause that grows with each try: 150 ms together.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(10);

/// The debug session that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugHolder {
    /// The process of the front.
    pub process: u32,
    /// The spec.
    pub spec: String,
    /// The folder of the session.
    pub folder: PathBuf,
}

/// The lock of the one session that goes on. It ends with its process.
#[derive(Debug)]
pub struct DebugLock(File);

/// Why a session cannot start.
#[derive(Debug, Error)]
pub enum DebugSessionError {
    /// Another session goes on.
    #[error("another debug session goes on: {}", holder_text(.0.as_ref()))]
    Held(Option<DebugHolder>),
    /// A file cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

fn holder_text(holder: Option<&DebugHolder>) -> String {
    match holder {
        Some(DebugHolder { process, spec, .. }) => format!("pid {process}, spec `{spec}`"),
        None => "its process is not known".to_owned(),
    }
}

impl Out {
    /// Returns the folder of all debug sessions.
    pub fn debug_sessions(&self) -> PathBuf {
        self.path().join("debug")
    }

    /// Creates the folder of a new session and removes old sessions. The caller holds the lock.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn new_debug_session(&self, _lock: &DebugLock) -> Result<PathBuf, FolderError> {
        let all = self.debug_sessions();
        claim(&all)?;
        let mut old: Vec<(Marker, PathBuf)> =
            folders(&all).filter_map(|path| Some((Marker::read(&path)?, path))).collect();
        old.sort_by_key(|(marker, path)| (marker.started, path.clone()));
        let excess = (old.len() + 1).saturating_sub(KEPT);
        old.iter().take(excess).for_each(|(_, path)| marker::remove(path));
        let folder = all.join(fresh_key());
        claim(&folder)?;
        Ok(folder)
    }

    /// Takes the lock of debug sessions.
    ///
    /// # Errors
    /// When another session goes on, or the lock file cannot be created.
    pub fn lock_debug(&self) -> Result<DebugLock, DebugSessionError> {
        let path = self.debug_lock();
        let failed = |source| FolderError::Write { path: path.clone(), source };
        fs::create_dir_all(self.path()).map_err(failed)?;
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = file.map_err(failed)?;
        // A command that asks who holds the lock holds it for a moment itself.
        let is_locked = (0..TRIES).any(|number| {
            std::thread::sleep(PAUSE * number);
            file.try_lock().is_ok()
        });
        if is_locked { Ok(DebugLock(file)) } else { Err(DebugSessionError::Held(read_holder(&mut file))) }
    }

    /// Returns the debug session that goes on, if there is one.
    pub fn debug_holder(&self) -> Option<DebugHolder> {
        let mut file = regular::open(&self.debug_lock()).ok()?;
        if file.try_lock_shared().is_ok() {
            return None;
        }
        read_holder(&mut file)
    }

    fn debug_lock(&self) -> PathBuf {
        self.path().join("debug.lock")
    }
}

impl DebugLock {
    /// Writes who holds the lock, for messages of other processes.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn name(&mut self, holder: &DebugHolder) -> std::io::Result<()> {
        write_holder(holder, &mut self.0)
    }
}

/// Returns whether a folder is that of a debug session, which no command may judge.
pub fn is_debug_session(folder: &Path) -> bool {
    folder.join(DEBUG_TASK).symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_goes_on_at_a_time_and_old_ones_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let out = Out::at(home.path());
        assert_eq!(out.debug_holder(), None);
        let mut lock = out.lock_debug().unwrap();
        let folder = out.new_debug_session(&lock).unwrap();
        let holder = DebugHolder { process: 7, spec: "a/b".into(), folder: folder.clone() };
        lock.name(&holder).unwrap();
        assert_eq!(out.debug_holder(), Some(holder));
        let error = out.lock_debug().unwrap_err();
        assert_eq!(error.to_string(), "another debug session goes on: pid 7, spec `a/b`");
        assert!(out.claimed().is_empty(), "the session is in use");
        drop(lock);
        let asks = File::open(out.debug_lock()).unwrap();
        asks.lock_shared().unwrap();
        let waits = std::thread::spawn(move || {
            std::thread::sleep(PAUSE);
            drop(asks);
        });
        drop(out.lock_debug().unwrap());
        waits.join().unwrap();
        assert_eq!(out.debug_holder(), None);
        assert_eq!(out.claimed(), [out.debug_sessions()]);
        assert!(!is_debug_session(&folder));
        fs::write(folder.join(DEBUG_TASK), "{}").unwrap();
        assert!(is_debug_session(&folder));
        for _ in 0..KEPT + 2 {
            let lock = out.lock_debug().unwrap();
            out.new_debug_session(&lock).unwrap();
        }
        assert_eq!(folders(&out.debug_sessions()).count(), KEPT);
        assert!(!folder.exists());
    }
}
