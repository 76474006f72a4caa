//! What tells a file from every other, and from itself after a change.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// A file as the system knows it: which one it is, and when it was last changed.
///
/// Size and time of modification can be set by anyone (`cp -p` does). The time of the last status change cannot, and
/// a file that is put in another's place has another inode, so that all of them together are looked at, as git does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    /// When the content was last modified: seconds since 1970, and nanoseconds.
    modified: (i64, i64),
    /// When the content, the owner, the mode or the number of links last changed, in the same form.
    changed: (i64, i64),
}

impl FileIdentity {
    /// The identity of what the metadata are of.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The identity of an open file, whatever lies under its path by now.
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        Ok(Self::of(&file.metadata()?))
    }

    /// The identity of what a path leads to now; links are followed.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&fs::metadata(path)?))
    }

    /// Whether the file has been left alone for `time` before `now`: one that changed just before could change again
    /// without another time.
    pub(crate) fn is_settled(&self, time: Duration, now: SystemTime) -> bool {
        let Ok(now) = now.duration_since(SystemTime::UNIX_EPOCH) else { return false };
        [self.modified, self.changed].into_iter().all(|(seconds, nanos)| {
            let at = Duration::new(seconds.max(0).unsigned_abs(), nanos.clamp(0, 999_999_999) as u32);
            now >= at.saturating_add(time)
        })
    }

    /// What differs between a file and `later`, in a few words; nothing when both are the same.
    pub(crate) fn difference(&self, later: &Self) -> Option<&'static str> {
        if (self.device, self.inode) != (later.device, later.inode) {
            Some("another file is in its place")
        } else if self.size != later.size {
            Some("its size changed")
        } else if self.modified != later.modified {
            Some("it was written to")
        } else {
            (self.changed != later.changed).then_some("its status changed")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_put_in_anothers_place_is_another_though_size_and_time_agree() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.npy"), folder.path().join("b.npy"));
        fs::write(&path, b"1234").unwrap();
        let before = FileIdentity::at(&path).unwrap();
        assert_eq!(before.difference(&FileIdentity::of_file(&File::open(&path).unwrap()).unwrap()), None);
        fs::write(&other, b"5678").unwrap();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        fs::rename(&other, &path).unwrap();
        let after = FileIdentity::at(&path).unwrap();
        assert_eq!(before.difference(&after), Some("another file is in its place"));
    }

    #[test]
    fn a_file_is_settled_once_both_its_times_are_past() {
        let identity = FileIdentity { device: 1, inode: 2, size: 3, modified: (1_000, 5), changed: (2_000, 0) };
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert!(!identity.is_settled(Duration::from_secs(2), at(2_001)));
        assert!(identity.is_settled(Duration::from_secs(2), at(2_002)));
    }
}
