//! Which files were found sound before, so that they need not be hashed again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::atomic::write_atomically;
use crate::ci::in_ci;
use crate::identity::FileIdentity;
use crate::regular;

/// Files whose checksums were right, each by its path, its [`FileIdentity`] and what its manifest claimed.
///
/// It saves time and nothing else: when it is lost or damaged everything is hashed again. Who can write the memory's own
/// file can have it vouch for anything, so what must not depend on it asks with [`Trust::Nothing`].
#[derive(Debug, Default)]
pub struct ChecksumMemory {
    path: Option<PathBuf>,
    trust: Trust,
    content: Content,
}

/// Whether a file that was hashed before may stand as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trust {
    /// It may, while its identity is the same.
    #[default]
    Remembered,
    /// Every file is hashed, and remembered for those who trust.
    Nothing,
}

impl Trust {
    /// What everyday commands trust: what was hashed before, and in CI nothing.
    pub fn here() -> Self {
        if in_ci() { Self::Nothing } else { Self::Remembered }
    }
}

/// Version of the memory's own file. The first knew a file by its size and time of modification alone.
const FORMAT: u32 = 2;
/// A larger file than this is not one that we wrote.
const MAX_LEN: u64 = 64 << 20;

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
    identity: FileIdentity,
    /// A digest of all that the manifest says about the file's tensors.
    claim: String,
}

impl ChecksumMemory {
    /// The memory kept in that file; empty when there is none or it cannot be understood.
    pub fn load(path: impl Into<PathBuf>, trust: Trust) -> Self {
        let path = path.into();
        let content = read(&path)
            .and_then(|text| serde_json::from_slice::<Content>(&text).ok())
            .filter(|content| content.format == FORMAT)
            .unwrap_or_default();
        Self { path: Some(path), trust, content }
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

    pub(super) fn knows(&self, path: &Path, identity: &FileIdentity, claim: &str) -> bool {
        self.trust == Trust::Remembered
            && path
                .to_str()
                .and_then(|path| self.content.files.get(path))
                .is_some_and(|known| known.identity == *identity && known.claim == claim)
    }

    /// Remembers a file that was opened and hashed from `started` on, unless it had been changed just before: it could
    /// change again and keep its identity.
    pub(super) fn remember(
        &mut self,
        path: &Path,
        identity: FileIdentity,
        claim: String,
        started: SystemTime,
    ) {
        self.forget(path);
        if let Some(path) = path.to_str()
            && identity.was_settled(started)
        {
            self.content.files.insert(path.to_owned(), Known { identity, claim });
        }
    }

    /// Vouches for the file no longer.
    pub(super) fn forget(&mut self, path: &Path) {
        if let Some(path) = path.to_str() {
            self.content.files.remove(path);
        }
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    regular::read(path, MAX_LEN).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use std::fs::File;

    fn identity(path: &Path) -> FileIdentity {
        FileIdentity::of(&File::create(path).unwrap()).unwrap()
    }

    fn later() -> SystemTime {
        SystemTime::now() + Duration::from_secs(60)
    }

    #[test]
    fn what_is_remembered_survives_saving_and_only_it_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("new/memory.json");
        let file = Path::new("/fixtures/a.npy");
        let (known, other) = (identity(&folder.path().join("a")), identity(&folder.path().join("b")));
        let mut memory = ChecksumMemory::load(&kept, Trust::Remembered);
        memory.remember(file, known, "claim".into(), later());
        memory.save().unwrap();
        let memory = ChecksumMemory::load(&kept, Trust::Remembered);
        assert!(memory.knows(file, &known, "claim"));
        assert!(!memory.knows(Path::new("/fixtures/b.npy"), &known, "claim"));
        assert!(!memory.knows(file, &other, "claim"));
        assert!(!memory.knows(file, &known, "another claim"));
        assert!(!ChecksumMemory::load(&kept, Trust::Nothing).knows(file, &known, "claim"));
    }

    #[test]
    fn a_file_that_has_not_settled_is_not_remembered() {
        let file = Path::new("/fixtures/a.npy");
        let mut memory = ChecksumMemory::default();
        let folder = tempfile::tempdir().unwrap();
        let identity = identity(&folder.path().join("a"));
        memory.remember(file, identity, "claim".into(), SystemTime::now());
        assert!(!memory.knows(file, &identity, "claim"));
        memory.remember(file, identity, "claim".into(), later());
        assert!(memory.knows(file, &identity, "claim"));
        memory.remember(file, identity, "claim".into(), SystemTime::UNIX_EPOCH);
        assert!(!memory.knows(file, &identity, "claim"), "the newest word counts");
        memory.save().unwrap();
    }

    #[test]
    fn a_damaged_or_older_memory_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("memory.json");
        let older = r#"{"format":1,"files":{"/a":{"state":{"size":4,"modified":[1,2]},"claim":"c"}}}"#;
        for text in [
            "",
            "{",
            "[1]",
            r#"{"format":3,"files":{}}"#,
            r#"{"format":2,"files":{"a":{"identity":3}}}"#,
            older,
        ] {
            std::fs::write(&kept, text).unwrap();
            let memory = ChecksumMemory::load(&kept, Trust::Remembered);
            assert_eq!(memory.content, Content::default(), "{text}");
            memory.save().unwrap();
        }
    }
}
