//! The identity of a file, which changes when the file does.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// Which file this is and when it last changed: device, inode, size, time of modification and time of change.
///
/// Two equal identities belong to the same, unchanged file. A copy with the old times (`cp -p`, `touch -r`, `rsync -t`)
/// has a different identity, because only the kernel sets the time of change. The one exception is a second change
/// before the clock moves on; see [`was_settled`](Self::was_settled).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: Time,
    changed: Time,
}

/// Seconds since 1970, and nanoseconds.
type Time = (i64, i64);

/// The coarsest step of a file system's clock: two seconds on FAT. Most others count nanoseconds.
const CLOCK_STEP: Duration = Duration::from_secs(2);

impl FileIdentity {
    /// The identity of an open file: of the bytes behind the handle, even if its path now names another file.
    ///
    /// # Errors
    ///
    /// When the operating system cannot read the file's metadata.
    pub fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::of_metadata(&metadata))
    }

    /// The identity of the file that is at `path` now, or that a link there leads to.
    ///
    /// # Errors
    ///
    /// When the file does not exist or its metadata cannot be read.
    pub fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|metadata| Self::of_metadata(&metadata))
    }

    /// The bytes of the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn of_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// What happened to this file until `later`, in a few words; `None` when it is the same, unchanged file.
    pub fn difference(&self, later: &Self) -> Option<&'static str> {
        if (self.device, self.inode) != (later.device, later.inode) {
            Some("a different file has replaced it")
        } else if self.size != later.size {
            Some("its size changed")
        } else if self.modified != later.modified {
            Some("it was written to")
        } else {
            (self.changed != later.changed).then_some(
                "its permissions, links or times changed, or it was written to and its times were reset",
            )
        }
    }

    /// Whether the last change was long enough before `moment` that any change after `moment` gives a new identity.
    ///
    /// If not, the file is what git calls racily clean: it can change again within one step of the file system's clock.
    pub fn was_settled(&self, moment: SystemTime) -> bool {
        let Ok(moment) = moment.duration_since(SystemTime::UNIX_EPOCH) else { return false };
        [self.modified, self.changed].iter().all(|&(seconds, nanoseconds)| {
            let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds)) else {
                return seconds < 0;
            };
            Duration::new(seconds, nanoseconds).saturating_add(CLOCK_STEP) <= moment
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str, modified: SystemTime) {
        fs::write(path, text).unwrap();
        File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    }

    #[test]
    fn a_copy_with_the_same_size_and_time_is_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        write(&path, "one", time);
        write(&other, "two", time);
        let open = File::open(&path).unwrap();
        let before = FileIdentity::of(&open).unwrap();
        assert_eq!(FileIdentity::at(&path).unwrap(), before);
        fs::rename(&other, &path).unwrap();
        assert_ne!(FileIdentity::at(&path).unwrap(), before);
        // The handle still has the file that was opened, which is now without a name.
        let now = FileIdentity::of(&open).unwrap();
        assert_eq!((now.device, now.inode, now.size), (before.device, before.inode, before.size));
    }

    #[test]
    fn every_part_counts_and_all_of_them_are_kept() {
        let identity =
            FileIdentity { device: 1, inode: 2, size: 3, modified: (1_000, 5), changed: (1_001, 6) };
        for (other, words) in [
            (FileIdentity { device: 9, ..identity }, "a different file has replaced it"),
            (FileIdentity { inode: 9, ..identity }, "a different file has replaced it"),
            (FileIdentity { size: 9, ..identity }, "its size changed"),
            (FileIdentity { modified: (1_000, 6), ..identity }, "it was written to"),
            (
                FileIdentity { changed: (1_001, 7), ..identity },
                "its permissions, links or times changed, or it was written to and its times were reset",
            ),
        ] {
            assert_ne!(other, identity);
            assert_eq!(identity.difference(&other), Some(words));
        }
        assert_eq!(identity.difference(&identity), None);
        let text = serde_json::to_string(&identity).unwrap();
        assert_eq!(serde_json::from_str::<FileIdentity>(&text).unwrap(), identity);
        assert!(serde_json::from_str::<FileIdentity>(r#"{"size":3,"modified":[1000,5]}"#).is_err());
    }

    #[test]
    fn a_file_is_settled_when_both_times_are_a_step_of_the_clock_ago() {
        let at = |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
        let identity = |modified, changed| FileIdentity { device: 1, inode: 2, size: 3, modified, changed };
        for (modified, changed, settled) in [
            ((1_000, 0), (1_000, 0), true),
            ((1_000, 0), (1_001, 0), false),
            ((1_001, 0), (1_000, 0), false),
            ((1_000, 0), (1_000, 1), false),
            ((1_000, 0), (5_000, 0), false),
            ((-7, 0), (1_000, 0), true),
        ] {
            assert_eq!(
                identity(modified, changed).was_settled(at(1_002)),
                settled,
                "{modified:?} {changed:?}"
            );
        }
    }
}
