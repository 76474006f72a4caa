//! Requests from one of our processes to a suite that it starts, such as to run one spec as a worker or to make mutations.
//!
//! A request replaces the tests, so a variable left over in a shell must not count as one. The requesting process holds a
//! lock on a file that contains the request, and `PARITY_ASKED` names the file. The lock ends with the process, even if
//! the process is killed. A request without a lock is therefore a leftover.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tempfile::NamedTempFile;
use thiserror::Error;

use crate::settings::names::{ASKED, MUTATE, REQUESTS};
use crate::text::program::program;

/// A request, valid until this value is dropped.
#[derive(Debug)]
pub struct Asked {
    variable: &'static str,
    value: OsString,
    file: NamedTempFile,
}

impl Asked {
    /// Creates the request `variable=value`, with its file in the existing `folder`.
    ///
    /// # Errors
    /// When the file cannot be written or locked.
    pub fn new(folder: &Path, variable: &'static str, value: impl Into<OsString>) -> io::Result<Self> {
        let value = value.into();
        let mut file = tempfile::Builder::new().prefix(".asked-").tempfile_in(folder)?;
        file.write_all(&content(variable, &value))?;
        file.as_file().lock()?;
        Ok(Self { variable, value, file })
    }

    /// Returns the variables to set for the suite.
    pub fn variables(&self) -> [(&'static str, &OsStr); 2] {
        [(self.variable, &self.value), (ASKED, self.file.path().as_os_str())]
    }
}

/// A request variable that is set although no process makes the request.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum StaleError {
    /// `PARITY_MUTATE` is set.
    #[error(
        "{MUTATE} is `{found}`, expected it to be unset: `{} mutate` sets it for the suite that it starts, \
         and a suite that makes mutations runs no test",
        program()
    )]
    Mutate {
        /// The value of the variable.
        found: String,
    },
    /// Another request variable is set.
    #[error(
        "{variable} is `{found}`, but the process that set it has ended: mlx-parity sets it only for its own processes, \
         and with it no test would run; run `unset {variable}`"
    )]
    Other {
        /// The name of the variable.
        variable: &'static str,
        /// Its value.
        found: String,
    },
}

/// Returns the request to this process as variable and value, or `None` without a request.
///
/// If several variables are set, only the one in the file counts: a worker inherits the variables of its parent.
///
/// # Errors
/// When a variable is set without a valid request.
pub fn request() -> Result<Option<(&'static str, OsString)>, StaleError> {
    let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let set: Vec<_> = REQUESTS.iter().filter_map(|name| Some((*name, value(name)?))).collect();
    let file = std::env::var_os(ASKED);
    let is_valid = |variable: &str, value: &OsStr| {
        file.as_ref().is_some_and(|file| is_held(Path::new(file), &content(variable, value)))
    };
    match set.iter().find(|(variable, value)| is_valid(variable, value)) {
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

/// Whether the file has this content and a process holds its lock.
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
    fn a_request_is_valid_while_it_is_held_and_only_for_its_own_value() {
        let home = tempfile::tempdir().unwrap();
        let asked = Asked::new(home.path(), MUTATE, "a/b").unwrap();
        let [(variable, value), (_, file)] = asked.variables();
        assert_eq!((variable, value), (MUTATE, OsStr::new("a/b")));
        let file = std::path::PathBuf::from(file);
        assert!(is_held(&file, &content(MUTATE, value)));
        assert!(!is_held(&file, &content(MUTATE, OsStr::new("a/c"))));
        assert!(!is_held(home.path(), b""));
        // A killed process leaves the file without a lock.
        let copy = home.path().join("copy");
        fs::copy(&file, &copy).unwrap();
        assert!(!is_held(&copy, &content(MUTATE, value)));
        drop(asked);
        assert!(!is_held(&file, b"PARITY_MUTATE=a/b") && !file.exists());
    }
}
