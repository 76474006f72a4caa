//! One fixture folder, opened.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::key::{canonical_json, made_by_key};
use super::manifest::{Manifest, ManifestError, Role, TensorEntry, is_plain_path};
use super::{FixtureError, verify};
use crate::compare::Floor;
use crate::golden::ChecksumMemory;
use crate::identity::FileIdentity;
use crate::near::did_you_mean;
use crate::regular;
use crate::tensor::{Tensor, TensorFile, is_lfs_pointer};

/// The name of the file that lists all others.
pub(crate) const MANIFEST: &str = "manifest.json";
/// How a file differs from the one that was verified.
const NOT_VERIFIED: &str = "another file is in place of the one that was verified";
/// A longer manifest would be one of a hundred thousand tensors.
const MAX_MANIFEST: u64 = 64 << 20;

/// A fixture folder whose manifest was read and checked. Tensor files are opened when they are asked for.
#[derive(Debug)]
pub struct FixtureSet {
    set: String,
    /// As it was given, for messages.
    folder: PathBuf,
    /// Without links, to tell whether a file lies in it.
    real: PathBuf,
    manifest: Manifest,
    /// Which file the manifest was read from.
    manifest_identity: FileIdentity,
    index: HashMap<(Role, String), usize>,
    files: Mutex<HashMap<String, TensorFile>>,
    /// The files that were verified before; where there are any, no other is read.
    verified: Option<BTreeMap<String, FileIdentity>>,
}

/// What a checkpoint is compared with, and what the reference said about it.
#[derive(Debug, Clone)]
pub struct Golden {
    /// The expected tensor.
    pub tensor: Tensor,
    /// How far the reference is from float64 here, if it was measured.
    pub floor: Option<Floor>,
    /// Place in the order of the reference's calls.
    pub sequence: u64,
    /// Where in the reference's source it comes from.
    pub place: Option<String>,
}

impl FixtureSet {
    /// Opens the set in `folder`, a path like `gated_mlp/block` below `fixture_root`, and reads its manifest.
    ///
    /// A folder that is not below the root, also by way of a link, is refused. The root itself may be a link.
    pub fn open(fixture_root: &Path, folder: &str) -> Result<Self, FixtureError> {
        let set = folder.to_owned();
        let outside = || FixtureError::Outside { set: set.clone(), root: fixture_root.to_owned() };
        if !is_plain_path(folder) {
            return Err(outside());
        }
        let path = fixture_root.join(folder);
        let read = |path: &Path, source: io::Error| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                FixtureError::NoSet { set: set.clone(), path: path.to_owned() }
            }
            _ => FixtureError::Read { set: set.clone(), path: path.to_owned(), source },
        };
        let root = fs::canonicalize(fixture_root).map_err(|error| read(fixture_root, error))?;
        let real = fs::canonicalize(&path).map_err(|error| read(&path, error))?;
        if !real.starts_with(&root) {
            return Err(outside());
        }
        if !real.is_dir() {
            return Err(FixtureError::NoSet { set, path });
        }
        let (manifest, manifest_identity) = read_manifest(&set, &path, &real)?;
        let index = manifest
            .tensors
            .iter()
            .enumerate()
            .map(|(index, entry)| ((entry.role, entry.name.clone()), index))
            .collect();
        Ok(Self {
            set,
            folder: path,
            real,
            manifest,
            manifest_identity,
            index,
            files: Mutex::default(),
            verified: None,
        })
    }

    /// [`open`](Self::open) of a set that was verified before, perhaps by another process: each file that is read must be
    /// the very one that was, by its handle. `verified` are the [`identities`](Self::identities) from then.
    pub(crate) fn open_verified(
        fixture_root: &Path,
        folder: &str,
        verified: BTreeMap<String, FileIdentity>,
    ) -> Result<Self, FixtureError> {
        let set = Self::open(fixture_root, folder)?;
        if verified.get(MANIFEST) != Some(&set.manifest_identity) {
            let (name, path) = (set.set.clone(), set.path(MANIFEST));
            return Err(FixtureError::Changed { set: name, path, how: NOT_VERIFIED });
        }
        Ok(Self { verified: Some(verified), ..set })
    }

    /// The folder under the fixture root, as it was asked for.
    pub fn name(&self) -> &str {
        &self.set
    }

    /// What the manifest says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether the set was made by this `reference` block and this script; else it is stale, and the error says what
    /// changed.
    pub fn check_fresh(&self, reference: &Value, script: &[u8]) -> Result<(), FixtureError> {
        let made_by = &self.manifest.made_by;
        if made_by_key(reference, script) == made_by.key {
            return Ok(());
        }
        let then = [
            ("script", Some(Value::from(made_by.script.as_str()))),
            ("source", made_by.source.as_deref().map(Value::from)),
            ("params", made_by.params.clone()),
        ];
        let changed: Vec<String> = then
            .iter()
            .filter(|(key, then)| then.as_ref().map(canonical_json) != reference.get(key).map(canonical_json))
            .map(|(key, _)| format!("`{key}`"))
            .collect();
        let changed = match changed.as_slice() {
            [] => format!("the content of `{}` changed", made_by.script),
            keys => format!("{} of the reference block changed", keys.join(" and ")),
        };
        Err(FixtureError::Stale { set: self.set.clone(), changed })
    }

    /// The golden of that name; the second hit of a tap is `name@1`.
    ///
    /// Dtype and shape are checked against the manifest, the elements by [`verify`](Self::verify) only.
    pub fn golden(&self, name: &str) -> Result<Golden, FixtureError> {
        let entry = self.entry(Role::Golden, name)?;
        Ok(Golden {
            tensor: self.read(entry)?,
            floor: entry.floor,
            // The manifest's check sees to it that a golden has one.
            sequence: entry.sequence.unwrap_or_default(),
            place: entry.place.clone(),
        })
    }

    /// The input of that name, checked like a golden.
    pub fn input(&self, name: &str) -> Result<Tensor, FixtureError> {
        self.read(self.entry(Role::Input, name)?)
    }

    /// The weight of that name, checked like a golden.
    pub fn weight(&self, name: &str) -> Result<Tensor, FixtureError> {
        self.read(self.entry(Role::Weight, name)?)
    }

    /// What the manifest says about every weight, in its order.
    pub fn weights(&self) -> impl Iterator<Item = &TensorEntry> {
        self.entries(Role::Weight)
    }

    /// What the manifest says about every tensor of a role, in its order.
    pub fn entries(&self, role: Role) -> impl Iterator<Item = &TensorEntry> {
        self.manifest.tensors.iter().filter(move |entry| entry.role == role)
    }

    /// Everything that is wrong with the files: missing, truncated, corrupt, of another dtype or shape than the manifest
    /// says, not listed, or a Git LFS pointer. No problems is an empty list.
    ///
    /// Files that `memory` knows in their present state are not hashed again; all else is looked at every time.
    pub fn verify(&self, memory: &mut ChecksumMemory) -> Vec<FixtureError> {
        verify::verify(self, memory)
    }

    /// Which files the manifest and the tensors were read from so far, by their paths from the folder, as they were when
    /// they were opened.
    pub fn identities(&self) -> BTreeMap<String, FileIdentity> {
        let files = self.files();
        let tensors = files.iter().filter_map(|(file, open)| Some((file.clone(), open.identity()?)));
        tensors.chain([(MANIFEST.to_owned(), self.manifest_identity)]).collect()
    }

    /// A problem per file that was read, or verified before, and has been replaced, removed or written to since.
    ///
    /// What a mapped file holds may be other elements then than those that were verified.
    pub fn changed(&self) -> Vec<FixtureError> {
        let how = |file: &str, opened: &FileIdentity| match FileIdentity::at(&self.path(file)) {
            Ok(now) => opened.difference(&now),
            Err(_) => Some("it is gone"),
        };
        let files = self.verified.clone().unwrap_or_else(|| self.identities());
        files
            .into_iter()
            .filter_map(|(file, opened)| {
                let how = how(&file, &opened)?;
                Some(FixtureError::Changed { set: self.set.clone(), path: self.path(&file), how })
            })
            .collect()
    }

    /// The tensor of an entry, if its file has it with the dtype and the shape that the manifest says.
    pub(crate) fn read(&self, entry: &TensorEntry) -> Result<Tensor, FixtureError> {
        let file = self.file(&entry.file)?;
        let path = || self.path(&entry.file);
        let key = if entry.is_npy() { file.names().next().unwrap_or_default() } else { entry.key() };
        let tensor = file.get(key).map_err(|error| FixtureError::from_tensor(&self.set, &path(), error))?;
        let (set, key) = (self.set.clone(), entry.key().to_owned());
        if tensor.dtype() != entry.dtype {
            let (expected, found) = (entry.dtype, tensor.dtype());
            return Err(FixtureError::Dtype { set, path: path(), key, expected, found });
        }
        if tensor.shape() != entry.shape {
            let (expected, found) = (entry.shape.as_slice().into(), tensor.shape().into());
            return Err(FixtureError::Shape { set, path: path(), key, expected, found });
        }
        Ok(tensor)
    }

    fn file(&self, file: &str) -> Result<TensorFile, FixtureError> {
        let open = self.files().get(file).cloned();
        open.map_or_else(|| self.reopen(file), Ok)
    }

    /// A file of the set as it is now, which is the one that tensors come from afterwards.
    pub(super) fn reopen(&self, file: &str) -> Result<TensorFile, FixtureError> {
        let path = self.path(file);
        let opened = real_file(&self.set, &path, &self.real).and_then(|_| {
            TensorFile::open(&path).map_err(|error| FixtureError::from_tensor(&self.set, &path, error))
        });
        let is_other = |open: &TensorFile| {
            self.verified.as_ref().is_some_and(|verified| verified.get(file).copied() != open.identity())
        };
        let opened = match opened {
            Ok(open) if is_other(&open) => {
                Err(FixtureError::Changed { set: self.set.clone(), path, how: NOT_VERIFIED })
            }
            opened => opened,
        };
        match &opened {
            Ok(open) => self.files().insert(file.to_owned(), open.clone()),
            Err(_) => self.files().remove(file),
        };
        opened
    }

    fn files(&self) -> MutexGuard<'_, HashMap<String, TensorFile>> {
        // The map is whole between any two calls, so a panic elsewhere leaves nothing half done.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a file of the set is.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The folder without links.
    pub(super) fn real_folder(&self) -> &Path {
        &self.real
    }

    fn entry(&self, role: Role, name: &str) -> Result<&TensorEntry, FixtureError> {
        match self.index.get(&(role, name.to_owned())) {
            Some(&index) => Ok(&self.manifest.tensors[index]),
            None => Err(FixtureError::NotListed {
                set: self.set.clone(),
                role,
                name: name.to_owned(),
                near: did_you_mean(name, self.entries(role).map(|entry| entry.name.as_str())),
            }),
        }
    }
}

/// A file's path without links, if it lies in the folder.
pub(super) fn real_file(set: &str, path: &Path, folder: &Path) -> Result<PathBuf, FixtureError> {
    let (set, named) = (set.to_owned(), path.to_owned());
    match fs::canonicalize(path) {
        Ok(real) if real.starts_with(folder) => Ok(real),
        Ok(_) => Err(FixtureError::FileOutside { set, path: named }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(FixtureError::NoFile { set, path: named })
        }
        Err(source) => Err(FixtureError::Read { set, path: named, source }),
    }
}

fn read_manifest(set: &str, folder: &Path, real: &Path) -> Result<(Manifest, FileIdentity), FixtureError> {
    let path = folder.join(MANIFEST);
    real_file(set, &path, real).map_err(|error| match error {
        FixtureError::NoFile { set, path } => FixtureError::NoManifest { set, path },
        other => other,
    })?;
    let set = set.to_owned();
    let mut text = Vec::new();
    let read = regular::open(&path).and_then(|file| {
        let identity = FileIdentity::of(&file)?;
        file.take(MAX_MANIFEST + 1).read_to_end(&mut text)?;
        Ok(identity)
    });
    let identity = match read {
        Ok(identity) => identity,
        Err(source) => return Err(FixtureError::Read { set, path, source }),
    };
    if is_lfs_pointer(&text) {
        return Err(FixtureError::LfsPointer { set, path });
    }
    let parsed = match text.len() as u64 {
        0..=MAX_MANIFEST => Manifest::parse(&text),
        _ => Err(ManifestError::TooLong { allowed: MAX_MANIFEST }),
    };
    let manifest = parsed.map_err(|source| FixtureError::Manifest { set, path, source })?;
    Ok((manifest, identity))
}
