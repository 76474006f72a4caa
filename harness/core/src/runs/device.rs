//! The holder of the device lock, as its lock file names it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::folders::Out;
use crate::files::regular;
use crate::text::printable::clean;

/// The largest size of the lock file. A longer one is not ours.
const MAX_LEN: u64 = 4096;

/// The process that holds the device, and the spec that it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceHolder {
    /// The process id of the suite, which holds the lock for its worker.
    pub process: u32,
    /// The spec that the worker runs.
    pub spec: String,
    /// The process of the debug session for which the worker runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug: Option<u32>,
}

impl DeviceHolder {
    /// The holder of a usual run.
    pub fn new(process: u32, spec: &str) -> Self {
        Self { process, spec: spec.to_owned(), debug: None }
    }

    /// Reads the holder from the lock file; `None` if the file has other contents.
    pub fn read(file: &mut File) -> Option<Self> {
        read_holder(file)
    }

    /// Writes the holder to the locked file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, file: &mut File) -> io::Result<()> {
        write_holder(self, file)
    }
}

/// Prints `held by pid 7, which runs `a/b``.
impl fmt::Display for DeviceHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = clean(&self.spec);
        match self.debug {
            None => write!(f, "held by pid {}, which runs `{spec}`", self.process),
            Some(process) => write!(f, "held by pid {process}, a debug session of `{spec}`"),
        }
    }
}

/// Reads who holds a lock from the lock file; `None` if the file has other contents.
pub(super) fn read_holder<T: DeserializeOwned>(file: &mut File) -> Option<T> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    Read::by_ref(file).take(MAX_LEN).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Writes who holds a lock to the locked file.
pub(super) fn write_holder(holder: &impl Serialize, file: &mut File) -> io::Result<()> {
    let text = serde_json::to_vec(holder)?;
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&text)
}

impl Out {
    /// Returns who holds the device now; `None` if nobody does, or if the lock file does not name the holder.
    pub fn device_holder(&self) -> Option<DeviceHolder> {
        let mut file = regular::open(&self.device()).ok()?;
        // A shared lock that is released at once delays a worker by a moment at most.
        if file.try_lock_shared().is_ok() {
            return None;
        }
        DeviceHolder::read(&mut file)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_holder_counts_only_while_it_holds_the_lock() {
        let home = tempfile::tempdir().unwrap();
        let out = Out::at(home.path());
        assert_eq!(out.device_holder(), None);
        let options = || OpenOptions::new().create(true).truncate(false).read(true).write(true).clone();
        let mut file = options().open(out.device()).unwrap();
        file.lock().unwrap();
        assert_eq!(out.device_holder(), None, "the file does not name its holder yet");
        let holder = DeviceHolder::new(7, "a/b");
        holder.write(&mut file).unwrap();
        assert_eq!(out.device_holder(), Some(holder));
        drop(file);
        assert_eq!(out.device_holder(), None);
    }
}
