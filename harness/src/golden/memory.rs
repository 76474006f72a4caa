//! Which files were found sound before, so that they need not be hashed again.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::atomic::write_atomically;

/// Files whose checksums were right, each by its path, size and time of modification and what its manifest claimed.
///
/// It saves time and nothing else: when it is lost or damaged everything is hashed again.
#[derive(Debug, Default)]
pub struct ChecksumMemory {
    path: Option<PathBuf>,
    content: Content,
}

/// Version of the memory's own file.
const FORMAT: u32 = 1;
/// A larger file than this is not one that we wrote.
const MAX_LEN: u64 = 64 << 20;
/// A file that changed so short before it was hashed could change again without another time of modification.
const SETTLED: Duration = Duration::from_secs(2);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u32,
    files: BTreeMap<String, Known>,
}

impl Default for Content {
    fn default() -> Self {
        Self { format: FORMAT, files: BTreeMap::new() }
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    state: FileState,
    /// A digest of all that the manifest says about the file's tensors.
    claim: String,
}

/// What tells a file from the same file later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileState {
    size: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (u64, u32),
}

impl FileState {
    /// The state of a file, or `None` where the system does not tell.
    pub(super) fn of(metadata: &Metadata) -> Option<Self> {
        let since = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Self { size: metadata.len(), modified: (since.as_secs(), since.subsec_nanos()) })
    }

    fn is_settled(&self, now: SystemTime) -> bool {
        let modified = Duration::new(self.modified.0, self.modified.1);
        now.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|now| now >= modified.saturating_add(SETTLED))
    }
}

impl ChecksumMemory {
    /// The memory kept in that file; empty when there is none or it cannot be understood.
    pub fn load(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let content = read(&path)
            .and_then(|text| serde_json::from_slice::<Content>(&text).ok())
            .filter(|content| content.format == FORMAT)
            .unwrap_or_default();
        Self { path: Some(path), content }
    }

    /// Writes the memory back where it was loaded from, atomically; a memory from nowhere is not kept.
    pub fn save(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = serde_json::to_vec(&self.content)?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        write_atomically(path, |out| out.write_all(&text))
    }

    pub(super) fn knows(&self, path: &Path, state: &FileState, claim: &str) -> bool {
        path.to_str()
            .and_then(|path| self.content.files.get(path))
            .is_some_and(|known| known.state == *state && known.claim == claim)
    }

    /// Remembers a file that was hashed while in that state, unless it was changed just before `now`.
    pub(super) fn remember(&mut self, path: &Path, state: FileState, claim: String, now: SystemTime) {
        if let Some(path) = path.to_str()
            && state.is_settled(now)
        {
            self.content.files.insert(path.to_owned(), Known { state, claim });
        }
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_LEN).read_to_end(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(size: u64) -> FileState {
        FileState { size, modified: (1_000, 5) }
    }

    fn later() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_003)
    }

    #[test]
    fn what_is_remembered_survives_saving_and_only_it_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("new/memory.json");
        let file = Path::new("/fixtures/a.npy");
        let mut memory = ChecksumMemory::load(&kept);
        memory.remember(file, state(4), "claim".into(), later());
        memory.save().unwrap();
        let memory = ChecksumMemory::load(&kept);
        assert!(memory.knows(file, &state(4), "claim"));
        assert!(!memory.knows(Path::new("/fixtures/b.npy"), &state(4), "claim"));
        assert!(!memory.knows(file, &state(5), "claim"));
        assert!(!memory.knows(file, &state(4), "another claim"));
        assert!(!memory.knows(file, &FileState { size: 4, modified: (1_000, 6) }, "claim"));
    }

    #[test]
    fn a_file_that_has_not_settled_is_not_remembered() {
        let file = Path::new("/fixtures/a.npy");
        let mut memory = ChecksumMemory::default();
        memory.remember(file, state(4), "claim".into(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_002));
        assert!(!memory.knows(file, &state(4), "claim"));
        memory.remember(file, state(4), "claim".into(), later());
        assert!(memory.knows(file, &state(4), "claim"));
        memory.save().unwrap();
    }

    #[test]
    fn a_damaged_memory_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("memory.json");
        for text in
            ["", "{", "[1]", r#"{"format":2,"files":{}}"#, r#"{"format":1,"files":{"a":{"state":3}}}"#]
        {
            std::fs::write(&kept, text).unwrap();
            let memory = ChecksumMemory::load(&kept);
            assert_eq!(memory.content, Content::default(), "{text}");
            memory.save().unwrap();
        }
    }
}
