//! A memory of verified files, so that they are not hashed again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::ci::in_ci;
use crate::files::atomic::write_atomically;
use crate::files::identity::FileIdentity;
use crate::files::regular;

/// Files whose checksums were right, each with its path, its [`FileIdentity`] and its manifest's entries.
///
/// It only saves time: when it is lost or damaged, everything is hashed again. Anybody who can write the memory's own
/// file can make it accept any fixture, so checks that must not depend on it use [`Trust::Nothing`].
#[derive(Debug, Default)]
pub struct ChecksumMemory {
    path: Option<PathBuf>,
    trust: Trust,
    content: MemoryFile,
}

/// Whether a file that was hashed before is trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trust {
    /// It is, as long as its identity is the same.
    #[default]
    Remembered,
    /// No: every file is hashed, and then remembered.
    Nothing,
}

impl Trust {
    /// The trust of everyday commands: remembered files, but nothing in CI.
    pub fn here() -> Self {
        if in_ci() { Self::Nothing } else { Self::Remembered }
    }
}

/// Version of the memory's own file. Version 1 identified a file by its size and time of modification alone.
const FORMAT: u32 = 2;
/// What a claim begins with that is the SHA-256 of the whole file.
const WHOLE_FILE: &str = "file ";
/// The most bytes of the memory's own file; a larger one is not ours.
const MAX_LEN: u64 = 64 << 20;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryFile {
    format: u32,
    files: BTreeMap<String, SoundFile>,
}

impl Default for MemoryFile {
    fn default() -> Self {
        Self { format: FORMAT, files: BTreeMap::new() }
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SoundFile {
    identity: FileIdentity,
    /// A digest of the manifest's entries for the file, or for external weights the checksum of the whole file.
    claim: String,
}

impl ChecksumMemory {
    /// Reads the memory from a file. It is empty when the file does not exist or cannot be understood.
    pub fn load(path: impl Into<PathBuf>, trust: Trust) -> Self {
        let path = path.into();
        let content = read(&path)
            .and_then(|text| serde_json::from_slice::<MemoryFile>(&text).ok())
            .filter(|content| content.format == FORMAT)
            .unwrap_or_default();
        Self { path: Some(path), trust, content }
    }

    /// Writes the memory back to its file, atomically. A memory without a file is not kept.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
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

    /// Remembers a file that was opened and hashed from `started` on, unless it changed just before: it could then change
    /// again and keep its identity.
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
            self.content.files.insert(path.to_owned(), SoundFile { identity, claim });
        }
    }

    /// The checksum of the whole file, if it is remembered.
    pub(super) fn file_hash(&self, path: &Path, identity: &FileIdentity) -> Option<&str> {
        let known = self.content.files.get(path.to_str()?)?;
        let is_same = self.trust == Trust::Remembered && known.identity == *identity;
        known.claim.strip_prefix(WHOLE_FILE).filter(|_| is_same)
    }

    /// Remembers the checksum of a whole file, as [`remember`](Self::remember) does a claim. It may be a wrong one: then
    /// the next run says so without hashing the file again.
    pub(super) fn remember_file_hash(
        &mut self,
        path: &Path,
        identity: FileIdentity,
        hash: &str,
        started: SystemTime,
    ) {
        self.remember(path, identity, format!("{WHOLE_FILE}{hash}"), started);
    }

    /// Forgets the file.
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
            assert_eq!(memory.content, MemoryFile::default(), "{text}");
            memory.save().unwrap();
        }
    }
}
