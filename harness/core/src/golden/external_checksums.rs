//! The checksums of external weights: each file is hashed once, and then remembered.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::ChecksumMemory;
use super::external::{EXTERNAL, ExternalWeights};
use super::external_record::ExternalRecord;
use crate::external::ExternalError;
use crate::files::hash::hex;
use crate::files::identity::FileIdentity;
use crate::files::{regular, size};
use crate::spec::FileHashes;
use crate::spec::list::counted;

/// Files of this many bytes take long enough to hash that a person wants to know why.
const LONG: u64 = 1 << 30;

/// The checksums that this process computed. In CI nothing from an earlier process counts, but several specs may share
/// one model.
static COMPUTED: LazyLock<Mutex<HashMap<FileIdentity, String>>> = LazyLock::new(Mutex::default);

impl ExternalWeights {
    /// The name, the size and the SHA-256 of each file, sorted by name. Files that `memory` knows in their present state
    /// are not read.
    ///
    /// # Errors
    /// When a file cannot be read, or changes meanwhile.
    pub fn records(&self, memory: &mut ChecksumMemory) -> Result<Vec<ExternalRecord>, ExternalError> {
        let mut records: Vec<Option<ExternalRecord>> = Vec::new();
        let mut unknown = Vec::new();
        for (name, file) in self.files() {
            let (path, identity) = (file.path(), file.identity());
            let known = identity.and_then(|identity| {
                let here = || computed().get(&identity).cloned();
                Some((identity, memory.file_hash(path, &identity).map(str::to_owned).or_else(here)?))
            });
            let name = name.trim_start_matches(EXTERNAL).to_owned();
            match known {
                Some((identity, sha256)) => {
                    records.push(Some(ExternalRecord { name, size: identity.size(), sha256 }));
                }
                None => {
                    unknown.push((records.len(), name, path));
                    records.push(None);
                }
            }
        }
        let bytes: u64 =
            unknown.iter().filter_map(|(_, _, path)| path.metadata().ok()).map(|data| data.len()).sum();
        if bytes >= LONG {
            let files = counted(unknown.len(), "file");
            eprintln!(
                "parity: hashing external weights, {} in {files}; later runs remember it",
                size::words(bytes)
            );
        }
        let started = SystemTime::now();
        let paths: Vec<&Path> = unknown.iter().map(|(_, _, path)| *path).collect();
        for ((at, name, path), hashed) in unknown.into_iter().zip(hash_all(&paths)) {
            let (identity, sha256) = hashed?;
            // The file that was mapped, not one that took its name since.
            let opened = self.files().nth(at).and_then(|(_, file)| file.identity());
            if opened != Some(identity) {
                return Err(ExternalError::Changed { path: path.to_owned() });
            }
            memory.remember_file_hash(path, identity, &sha256, started);
            if identity.was_settled(started) {
                computed().insert(identity, sha256.clone());
            }
            records[at] = Some(ExternalRecord { name, size: identity.size(), sha256 });
        }
        let mut records: Vec<ExternalRecord> = records.into_iter().flatten().collect();
        records.sort();
        Ok(records)
    }

    /// Checks that these are the files that the spec declares, and those that the manifest of the set `set` records.
    /// Returns every problem. A file for which neither has a checksum is one, too.
    pub fn verify(
        &self,
        set: &str,
        declared: Option<&FileHashes>,
        recorded: Option<&[ExternalRecord]>,
        memory: &mut ChecksumMemory,
    ) -> Vec<ExternalError> {
        let found = match self.records(memory) {
            Ok(found) => found,
            Err(error) => return vec![error],
        };
        let mut problems = self.differ(&found, declared, recorded.is_some());
        if let Some(difference) = recorded.and_then(|recorded| difference(recorded, &found))
            && problems.is_empty()
        {
            problems.push(ExternalError::Stale { set: set.to_owned(), difference });
        }
        problems
    }

    /// Checks the files against the checksums of the spec alone.
    ///
    /// # Errors
    /// The first problem.
    pub fn check_declared(
        &self,
        declared: Option<&FileHashes>,
        found: &[ExternalRecord],
    ) -> Result<(), ExternalError> {
        self.differ(found, declared, true).into_iter().next().map_or(Ok(()), Err)
    }

    fn differ(
        &self,
        found: &[ExternalRecord],
        declared: Option<&FileHashes>,
        is_recorded: bool,
    ) -> Vec<ExternalError> {
        let (one, none);
        let declared: &BTreeMap<String, String> = match (declared, found) {
            (None, _) => {
                none = BTreeMap::new();
                &none
            }
            (Some(FileHashes::PerFile(files)), _) => files,
            (Some(FileHashes::One(hash)), [file]) => {
                one = BTreeMap::from([(file.name.clone(), hash.clone())]);
                &one
            }
            (Some(FileHashes::One(_)), files) => {
                let first = files.first().map(|file| file.name.clone()).unwrap_or_default();
                return vec![ExternalError::OneChecksum { count: files.len(), first }];
            }
        };
        let path = |name: &str| self.path(&format!("{EXTERNAL}{name}")).unwrap_or(Path::new(name)).to_owned();
        let mut problems: Vec<ExternalError> = Vec::new();
        for name in declared.keys().filter(|name| !found.iter().any(|file| file.name == **name)) {
            problems.push(ExternalError::NoSuchFile { name: name.clone() });
        }
        for file in found {
            let name = file.name.clone();
            match declared.get(&file.name) {
                Some(expected) if *expected != file.sha256 => problems.push(ExternalError::Checksum {
                    path: path(&name),
                    expected: expected.as_str().into(),
                    found: file.sha256.as_str().into(),
                }),
                None if !declared.is_empty() || !is_recorded => {
                    let found = file.sha256.clone();
                    problems.push(ExternalError::NoChecksum { path: path(&name), name, found });
                }
                _ => {}
            }
        }
        problems
    }
}

/// The first difference between the files that made goldens and those found now.
fn difference(recorded: &[ExternalRecord], found: &[ExternalRecord]) -> Option<String> {
    let of = |records: &[ExternalRecord], name: &str| records.iter().find(|one| one.name == name).cloned();
    let changed = recorded.iter().find_map(|then| match of(found, &then.name) {
        None => Some(format!("`{}` is not among the files now", then.name)),
        Some(now) if now.sha256 != then.sha256 => {
            Some(format!("`{}` had SHA-256 {}, and has {} now", then.name, then.sha256, now.sha256))
        }
        Some(_) => None,
    });
    changed.or_else(|| {
        let new = found.iter().find(|now| of(recorded, &now.name).is_none())?;
        Some(format!("`{}` was not among the files then", new.name))
    })
}

/// The identity and the checksum of each file. Several files are hashed at a time.
fn hash_all(paths: &[&Path]) -> Vec<Result<(FileIdentity, String), ExternalError>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<_>>> = Mutex::new(paths.iter().map(|_| None).collect());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(paths.len());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(at) else { break };
            let hashed = hash(path);
            results.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(hashed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

/// The checksum of a file, and its identity if that was the same before and after.
fn hash(path: &Path) -> Result<(FileIdentity, String), ExternalError> {
    let read = |source: io::Error| ExternalError::Read { path: path.to_owned(), source };
    let mut file = regular::open(path).map_err(read)?;
    let before = FileIdentity::of(&file).map_err(read)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => hash.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read(error)),
        }
    }
    if FileIdentity::at(path).map_err(read)? != before {
        return Err(ExternalError::Changed { path: path.to_owned() });
    }
    Ok((before, hex(&hash.finalize())))
}

fn computed() -> std::sync::MutexGuard<'static, HashMap<FileIdentity, String>> {
    // Every use leaves the map consistent, so a panic elsewhere does no harm.
    COMPUTED.lock().unwrap_or_else(PoisonError::into_inner)
}
