//! The holder of the device lock, as its lock file names it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use serde::{Deserialize, Serialize};

use super::folders::Out;
use crate::files::regular;

/// The largest size of the lock file. A longer one is not ours.
const MAX_LEN: u64 = 4096;

/// The process that holds the device, and the spec that it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceHolder {
    /// The process id of the suite, which holds the lock for its worker.
    pub process: u32,
    /// The spec that the worker runs.
    pub spec: String,
}

impl DeviceHolder {
    /// Reads the holder from the lock file; `None` if the file has other contents.
    pub fn read(file: &mut File) -> Option<Self> {
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).ok()?;
        Read::by_ref(file).take(MAX_LEN).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes the holder to the locked file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, file: &mut File) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&text)
    }
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
        let holder = DeviceHolder { process: 7, spec: "a/b".into() };
        holder.write(&mut file).unwrap();
        assert_eq!(out.device_holder(), Some(holder));
        drop(file);
        assert_eq!(out.device_holder(), None);
    }
}
