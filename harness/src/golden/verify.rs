//! Whether every file of a fixture set is what its manifest says.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use walkdir::WalkDir;

use super::manifest::TensorEntry;
use super::memory::FileState;
use super::set::{MANIFEST, real_file};
use super::{ChecksumMemory, FixtureError, FixtureSet};
use crate::hash::hex;
use crate::tensor::{TensorView, for_each_chunk};

pub(super) fn verify(set: &FixtureSet, memory: &mut ChecksumMemory) -> Vec<FixtureError> {
    let mut files: BTreeMap<&str, Vec<&TensorEntry>> = BTreeMap::new();
    for entry in &set.manifest().tensors {
        files.entry(&entry.file).or_default().push(entry);
    }
    let mut problems = Vec::new();
    for (file, entries) in &files {
        verify_file(set, file, entries, memory, &mut problems);
    }
    extra_files(set, &files.into_keys().collect(), &mut problems);
    problems
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
    // The state is taken before the file is opened and after it was hashed, so that a file which is replaced meanwhile
    // is not remembered as the one that was hashed.
    let state = state(&real);
    let open = match set.reopen(file) {
        Ok(open) => open,
        Err(problem) => return problems.push(problem),
    };
    let claim = claim(entries);
    let known = state.as_ref().is_some_and(|state| memory.knows(&real, state, &claim));

    let before = problems.len();
    for entry in entries {
        match set.read(entry) {
            Err(problem) => problems.push(problem),
            Ok(tensor) if !known => {
                let found = sha256(&tensor.view());
                if found != entry.sha256 {
                    problems.push(FixtureError::Checksum {
                        set: set.name().to_owned(),
                        path: path.clone(),
                        key: entry.key().to_owned(),
                        expected: entry.sha256.as_str().into(),
                        found: found.into(),
                    });
                }
            }
            Ok(_) => {}
        }
    }
    if !file.ends_with(".npy") {
        let listed: BTreeSet<&str> = entries.iter().map(|entry| entry.key()).collect();
        problems.extend(open.names().filter(|name| !listed.contains(name)).map(|name| {
            FixtureError::ExtraTensor { set: set.name().to_owned(), path: path.clone(), key: name.to_owned() }
        }));
    }
    if problems.len() == before
        && !known
        && self::state(&real) == state
        && let Some(state) = state
    {
        memory.remember(&real, state, claim, SystemTime::now());
    }
}

fn state(path: &Path) -> Option<FileState> {
    fs::metadata(path).ok().as_ref().and_then(FileState::of)
}

/// Files below the folder that the manifest does not list. Hidden ones are left alone, as are folders that have a
/// manifest of their own.
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

/// A path from the folder as manifests write it, with `/` between its parts.
fn relative(path: &Path, folder: &Path) -> String {
    let path = path.strip_prefix(folder).unwrap_or(path);
    path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// A digest of what the manifest says about the tensors of one file.
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
