//! Requests from one of our processes to a suite that it starts: run one spec as a worker, plant faults, and the like.
//!
//! A request replaces the tests, so a variable that somebody exported once must never be taken for one. Whoever asks
//! holds a lock on a file that names the request, and `PARITY_ASKED` names the file. The lock goes with the process, even
//! with one that is killed: a request without a lock is a leftover.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tempfile::NamedTempFile;
use thiserror::Error;

use crate::settings::names::{MUTATE, REQUESTS};

/// The variable that names the file of the request.
pub(crate) const ASKED: &str = "PARITY_ASKED";

/// A request that stands as long as this value is held.
#[derive(Debug)]
pub(crate) struct Asked {
    variable: &'static str,
    value: OsString,
    file: NamedTempFile,
}

impl Asked {
    /// Asks with `variable` set to `value`; the file is made in `folder`, which must be there.
    pub(crate) fn new(folder: &Path, variable: &'static str, value: impl Into<OsString>) -> io::Result<Self> {
        let value = value.into();
        let mut file = tempfile::Builder::new().prefix(".asked-").tempfile_in(folder)?;
        file.write_all(&content(variable, &value))?;
        file.as_file().lock()?;
        Ok(Self { variable, value, file })
    }

    /// What the environment of the suite must have.
    pub(crate) fn variables(&self) -> [(&'static str, &OsStr); 2] {
        [(self.variable, &self.value), (ASKED, self.file.path().as_os_str())]
    }
}

/// A variable that is set although nobody asks.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum StaleError {
    #[error(
        "{MUTATE} is `{found}`, expected it not to be set: `cargo xtask mutate` sets it for the suite that it starts, \
         and a suite that plants faults runs no test"
    )]
    Mutate { found: String },
    #[error(
        "{variable} is `{found}`, but the process that set it is gone: only our own processes set it, for each other, \
         and with it no test would run; run `unset {variable}`"
    )]
    Other { variable: &'static str, found: String },
}

/// What is asked of this process, the variable and its value, if anything is.
///
/// Of several variables only the one in the file counts: a worker inherits those that its parent was started with.
pub(crate) fn request() -> Result<Option<(&'static str, OsString)>, StaleError> {
    let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let set: Vec<_> = REQUESTS.iter().filter_map(|name| Some((*name, value(name)?))).collect();
    let file = std::env::var_os(ASKED);
    let stands = |variable: &str, value: &OsStr| {
        file.as_ref().is_some_and(|file| is_held(Path::new(file), &content(variable, value)))
    };
    match set.iter().find(|(variable, value)| stands(variable, value)) {
        Some(asked) => Ok(Some(asked.clone())),
        None => match set.into_iter().next() {
            None => Ok(None),
            Some((variable, value)) => Err(stale(variable, &value)),
        },
    }
}

fn stale(variable: &'static str, value: &OsStr) -> StaleError {
    let found = value.to_string_lossy().into_owned();
    if variable == MUTATE { StaleError::Mutate { found } } else { StaleError::Other { variable, found } }
}

fn content(variable: &str, value: &OsStr) -> Vec<u8> {
    [variable.as_bytes(), b"=", value.as_bytes()].concat()
}

/// Whether the file has this content, and some process holds its lock.
fn is_held(path: &Path, content: &[u8]) -> bool {
    let regular = fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() == content.len() as u64);
    regular
        && fs::read(path).is_ok_and(|found| found == content)
        && File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_stands_as_long_as_it_is_held_and_only_for_what_it_names() {
        let home = tempfile::tempdir().unwrap();
        let asked = Asked::new(home.path(), MUTATE, "a/b").unwrap();
        let [(variable, value), (_, file)] = asked.variables();
        assert_eq!((variable, value), (MUTATE, OsStr::new("a/b")));
        let file = std::path::PathBuf::from(file);
        assert!(is_held(&file, &content(MUTATE, value)));
        assert!(!is_held(&file, &content(MUTATE, OsStr::new("a/c"))));
        assert!(!is_held(home.path(), b""));
        // As a process that was killed leaves it.
        let copy = home.path().join("copy");
        fs::copy(&file, &copy).unwrap();
        assert!(!is_held(&copy, &content(MUTATE, value)));
        drop(asked);
        assert!(!is_held(&file, b"PARITY_MUTATE=a/b") && !file.exists());
    }
}
