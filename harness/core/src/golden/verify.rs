//! Verifying the files of a fixture set against its manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use walkdir::WalkDir;

use super::entry::{Role, TensorEntry};
use super::set::{MANIFEST, real_file};
use super::{ChecksumMemory, FixtureError, FixtureSet, Golden};
use crate::files::hash::hex;
use crate::files::identity::FileIdentity;
use crate::tensor::{TensorView, for_each_chunk};

impl FixtureSet {
    /// Verifies all files and returns every problem: a file that is missing, truncated, corrupt, not listed or a Git LFS
    /// pointer, or whose dtype, shape or checksum differs from the manifest.
    ///
    /// Files that `memory` knows in their present state are not hashed again. All other checks run every time.
    pub fn verify(&self, memory: &mut ChecksumMemory) -> Vec<FixtureError> {
        let mut files: BTreeMap<&str, Vec<&TensorEntry>> = BTreeMap::new();
        for entry in &self.manifest().tensors {
            files.entry(&entry.file).or_default().push(entry);
        }
        let mut problems = Vec::new();
        for (file, entries) in &files {
            verify_file(self, file, entries, memory, &mut problems);
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

fn verify_file(
    set: &FixtureSet,
    file: &str,
    entries: &[&TensorEntry],
    memory: &mut ChecksumMemory,
    problems: &mut Vec<FixtureError>,
) {
    let path = set.path(file);
    let real = match real_file(set.name(), &path, set.real_folder()) {
        Ok(real) => real,
        Err(problem) => return problems.push(problem),
    };
    let started = SystemTime::now();
    let open = match set.reopen(file) {
        Ok(open) => open,
        Err(problem) => return problems.push(problem),
    };
    let claim = claim(entries);
    // The identity belongs to the handle that tensors are read through, so no other file can slip in.
    let identity = open.identity();
    let known = identity.is_some_and(|identity| memory.knows(&real, &identity, &claim));

    let before = problems.len();
    for entry in entries {
        match set.read(entry) {
            Err(problem) => problems.push(problem),
            Ok(tensor) if !known => {
                let found = sha256(&tensor.view());
                if found != entry.sha256 {
                    problems.push(set.checksum(entry, found));
                }
            }
            Ok(_) => {}
        }
    }
    if !entries.iter().all(|entry| entry.is_npy()) {
        let listed: BTreeSet<&str> = entries.iter().map(|entry| entry.key()).collect();
        problems.extend(open.names().filter(|name| !listed.contains(name)).map(|name| {
            FixtureError::ExtraTensor { set: set.name().to_owned(), path: path.clone(), key: name.to_owned() }
        }));
    }
    // A file that changed during hashing is not remembered.
    let is_same = |identity| FileIdentity::at(&real).is_ok_and(|now| now == identity);
    match identity {
        Some(identity) if problems.len() == before && is_same(identity) => {
            if !known {
                memory.remember(&real, identity, claim, started);
            }
        }
        _ => memory.forget(&real),
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

/// The hex SHA-256 of the elements as row-major, little-endian bytes.
fn sha256(view: &TensorView<'_>) -> String {
    let mut hash = Sha256::new();
    let done: Result<(), Infallible> = for_each_chunk(view, |part| {
        hash.update(part);
        Ok(())
    });
    match done {
        Ok(()) => hex(&hash.finalize()),
    }
}
