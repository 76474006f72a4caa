//! Verifying the files of a fixture set against its manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use walkdir::WalkDir;

use super::checksums::{in_parallel, sha256};
use super::entry::{Role, TensorEntry};
use super::set::{MANIFEST, real_file};
use super::{ChecksumMemory, FixtureError, FixtureSet, Golden};
use crate::files::hash::hex;
use crate::files::identity::FileIdentity;
use crate::tensor::{TensorFile, byte_len};

impl FixtureSet {
    /// Verifies all files and returns every problem: a file that is missing, truncated, corrupt, not listed or a Git LFS
    /// pointer, or whose dtype, shape or checksum differs from the manifest.
    ///
    /// Files that `memory` knows in their present state are not hashed again. All other checks run every time. Tensors are
    /// hashed on all cores.
    pub fn verify(&self, memory: &mut ChecksumMemory) -> Vec<FixtureError> {
        let mut files: BTreeMap<&str, Vec<&TensorEntry>> = BTreeMap::new();
        for entry in &self.manifest().tensors {
            files.entry(&entry.file).or_default().push(entry);
        }
        let opened: Vec<Result<OpenFile<'_>, FixtureError>> =
            files.iter().map(|(file, entries)| OpenFile::open(self, file, entries, memory)).collect();
        let tensors: Vec<(&OpenFile<'_>, &TensorEntry)> = opened
            .iter()
            .flatten()
            .flat_map(|file| file.entries.iter().map(move |&entry| (file, entry)))
            .collect();
        let read = |(file, entry): &(&OpenFile<'_>, &TensorEntry)| check_tensor(self, entry, file.known);
        let mut found = in_parallel(&tensors, |(file, entry)| file.bytes_to_hash(entry), read).into_iter();
        let mut problems = Vec::new();
        for file in opened {
            match file {
                Ok(file) => {
                    let before = problems.len();
                    problems.extend(found.by_ref().take(file.entries.len()).flatten());
                    problems.extend(file.unlisted_tensors(self));
                    file.conclude(memory, problems.len() == before);
                }
                Err(problem) => problems.push(problem),
            }
        }
        problems.extend(self.recipe().err());
        let recipes = self.manifest().recipes.as_ref().map(|recipes| recipes.file.as_str());
        extra_files(self, &files.into_keys().chain(recipes).collect(), &mut problems);
        problems
    }
}

impl FixtureSet {
    /// The golden with this name, whose elements were checked against the manifest.
    ///
    /// # Errors
    ///
    /// As [`golden`](Self::golden), and when the checksum of the elements differs.
    pub fn verified_golden(&self, name: &str) -> Result<Golden, FixtureError> {
        let golden = self.golden(name)?;
        let entry = self.entries(Role::Golden).find(|entry| entry.name == name);
        match entry.map(|entry| (entry, sha256(&golden.tensor.view()))) {
            Some((entry, found)) if found != entry.sha256 => Err(self.checksum(entry, found)),
            _ => Ok(golden),
        }
    }

    fn checksum(&self, entry: &TensorEntry, found: String) -> FixtureError {
        FixtureError::Checksum {
            set: self.name().to_owned(),
            path: self.path(&entry.file),
            key: entry.key().to_owned(),
            expected: entry.sha256.as_str().into(),
            found: found.into(),
        }
    }
}

/// A file of the set during its verification.
struct OpenFile<'a> {
    path: PathBuf,
    /// With links resolved.
    real: PathBuf,
    entries: &'a [&'a TensorEntry],
    open: TensorFile,
    /// The moment before the file was opened.
    started: SystemTime,
    /// The identity of the handle that tensors are read through, so no other file can slip in.
    identity: Option<FileIdentity>,
    claim: String,
    /// Whether its elements had the right checksums before, and it has not changed since.
    known: bool,
}

impl<'a> OpenFile<'a> {
    fn open(
        set: &FixtureSet,
        file: &str,
        entries: &'a [&'a TensorEntry],
        memory: &ChecksumMemory,
    ) -> Result<Self, FixtureError> {
        let path = set.path(file);
        let real = real_file(set.name(), &path, set.real_folder())?;
        let started = SystemTime::now();
        let open = set.reopen(file)?;
        let claim = claim(entries);
        let identity = open.identity();
        let known = identity.is_some_and(|identity| memory.knows(&real, &identity, &claim));
        Ok(Self { path, real, entries, open, started, identity, claim, known })
    }

    fn bytes_to_hash(&self, entry: &TensorEntry) -> u64 {
        if self.known { 0 } else { byte_len(entry.dtype, &entry.shape).map_or(0, |bytes| bytes as u64) }
    }

    fn unlisted_tensors(&self, set: &FixtureSet) -> Vec<FixtureError> {
        if self.entries.iter().all(|entry| entry.is_npy()) {
            return Vec::new();
        }
        let listed: BTreeSet<&str> = self.entries.iter().map(|entry| entry.key()).collect();
        let unlisted = self.open.names().filter(|name| !listed.contains(name));
        unlisted
            .map(|name| FixtureError::ExtraTensor {
                set: set.name().to_owned(),
                path: self.path.clone(),
                key: name.to_owned(),
            })
            .collect()
    }

    /// Remembers a sound file, unless it changed during hashing, and forgets any other.
    fn conclude(&self, memory: &mut ChecksumMemory, is_sound: bool) {
        let is_same = |identity| FileIdentity::at(&self.real).is_ok_and(|now| now == identity);
        match self.identity {
            Some(identity) if is_sound && is_same(identity) => {
                if !self.known {
                    memory.remember(&self.real, identity, self.claim.clone(), self.started);
                }
            }
            _ => memory.forget(&self.real),
        }
    }
}

/// Reads one tensor, and hashes it unless its checksum is known. Returns what is wrong with it.
fn check_tensor(set: &FixtureSet, entry: &TensorEntry, known: bool) -> Option<FixtureError> {
    match set.read(entry) {
        Err(problem) => Some(problem),
        Ok(_) if known => None,
        Ok(tensor) => {
            let found = sha256(&tensor.view());
            (found != entry.sha256).then(|| set.checksum(entry, found))
        }
    }
}

/// Files in the folder that the manifest does not list. Hidden files, and folders with a manifest of their own, are
/// ignored.
fn extra_files(set: &FixtureSet, listed: &BTreeSet<&str>, problems: &mut Vec<FixtureError>) {
    let folder = set.path("");
    let walk = WalkDir::new(&folder).min_depth(1).sort_by_file_name().into_iter().filter_entry(|entry| {
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let other_set = entry.file_type().is_dir() && entry.path().join(MANIFEST).exists();
        !hidden && !other_set
    });
    for entry in walk {
        let (set, path) = match &entry {
            Ok(entry) if entry.file_type().is_dir() => continue,
            Ok(entry) => (set.name().to_owned(), entry.path().to_owned()),
            Err(error) => (set.name().to_owned(), error.path().unwrap_or(&folder).to_owned()),
        };
        match entry {
            Ok(entry) => {
                let name = relative(entry.path(), &folder);
                if name != MANIFEST && !listed.contains(name.as_str()) {
                    problems.push(FixtureError::ExtraFile { set, path });
                }
            }
            Err(error) => problems.push(FixtureError::Read { set, path, source: error.into() }),
        }
    }
}

/// The path relative to the folder, with `/` between its parts, as manifests write it.
fn relative(path: &Path, folder: &Path) -> String {
    let path = path.strip_prefix(folder).unwrap_or(path);
    path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// A digest of the manifest's entries for one file.
fn claim(entries: &[&TensorEntry]) -> String {
    let mut lines: Vec<String> = entries
        .iter()
        .map(|entry| format!("{:?} {} {:?} {}\n", entry.key(), entry.dtype, entry.shape, entry.sha256))
        .collect();
    lines.sort();
    hex(&Sha256::digest(lines.concat()))
}
