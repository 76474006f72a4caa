//! An open fixture folder.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::FixtureError;
use super::entry::{Role, TensorEntry, is_plain_path};
use super::external::ExternalWeights;
use super::key::{canonical_json, made_by_key};
use super::manifest::{Manifest, ManifestError};
use super::second_reference::SecondScript;
use crate::external::ExternalError;
use crate::files::identity::FileIdentity;
use crate::files::regular;
use crate::gate::Floor;
use crate::tensor::{Tensor, TensorFile, is_lfs_pointer};
use crate::text::suggest::did_you_mean;

/// The name of the manifest in a fixture folder.
pub const MANIFEST: &str = "manifest.json";
/// What [`FixtureError::Changed`] reports about a file other than the verified one.
const NOT_VERIFIED: &str = "it is not the file that was verified";
/// The longest manifest that is read; it would list about a hundred thousand tensors.
const MAX_MANIFEST: u64 = 64 << 20;

/// A fixture folder whose manifest was read and checked. Its tensor files are opened on first use.
#[derive(Debug)]
pub struct FixtureSet {
    set: String,
    /// As given, for messages.
    folder: PathBuf,
    /// With links resolved, to check that files lie in it.
    real: PathBuf,
    manifest: Manifest,
    /// The identity of the manifest's file when it was read.
    manifest_identity: FileIdentity,
    index: HashMap<(Role, String), usize>,
    /// The open files by their names in entries, those of external weights too.
    files: Mutex<HashMap<String, TensorFile>>,
    external: Option<ExternalWeights>,
    /// The verified files; when given, no other file is read.
    verified: Option<BTreeMap<String, FileIdentity>>,
}

/// The expected tensor of a checkpoint, with what the reference measured about it.
#[derive(Debug, Clone)]
pub struct Golden {
    /// The expected tensor.
    pub tensor: Tensor,
    /// How far the reference is from float64 here, when it was measured.
    pub floor: Option<Floor>,
    /// The block of the reference that a local floor was measured in, see [`TensorEntry::floor_block`].
    pub floor_block: Option<String>,
    /// Position in the order of the reference's calls.
    pub sequence: u64,
    /// The place in the reference's source that made it.
    pub place: Option<String>,
}

impl FixtureSet {
    /// Opens the set in `folder`, a path such as `gated_mlp/block` inside `fixture_root`, and reads its manifest.
    ///
    /// The root itself may be a link.
    ///
    /// # Errors
    ///
    /// When the folder or its manifest does not exist, when the folder is outside the root (also through a link), or when
    /// the manifest cannot be read or contradicts itself.
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
            external: None,
            verified: None,
        })
    }

    /// Opens a set that was verified before, possibly by another process.
    ///
    /// Only the verified files are read. `verified` has the [`identities`](Self::identities) from the verification.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and when the manifest is not the one that was verified.
    pub fn open_verified(
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

    /// The folder, relative to the fixture root.
    pub fn name(&self) -> &str {
        &self.set
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Checks that this `reference` block and this script made the set.
    ///
    /// # Errors
    ///
    /// [`FixtureError::Stale`], which names what changed, when another reference made it.
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
        let also = reference.get("also").and_then(|also| also.get("script")).and_then(Value::as_str);
        let also_then = made_by.also.as_ref().map(|also| also.script.as_str());
        let changed: Vec<String> = then
            .iter()
            .filter(|(key, then)| then.as_ref().map(canonical_json) != reference.get(key).map(canonical_json))
            .map(|(key, _)| format!("`{key}`"))
            .chain((also != also_then).then(|| "`also`".to_owned()))
            .collect();
        let sha256 = |also: &SecondScript| Some(Value::from(also.sha256.as_str()));
        let changed = match changed.as_slice() {
            [] if made_by.also.as_ref().and_then(sha256)
                != reference.get("also").and_then(|also| also.get("sha256").cloned()) =>
            {
                format!("the content of the second reference `{}` changed", also.unwrap_or_default())
            }
            [] => format!("the content of `{}` changed", made_by.script),
            keys => format!("{} of the reference block changed", keys.join(" and ")),
        };
        Err(FixtureError::Stale { set: self.set.clone(), changed })
    }

    /// The golden with this name; the second hit of a tap is `name@1`.
    ///
    /// Dtype and shape are checked against the manifest. Only [`verify`](Self::verify) checks the elements.
    ///
    /// # Errors
    ///
    /// When the manifest does not list it, or its file is missing, damaged or different from the manifest.
    pub fn golden(&self, name: &str) -> Result<Golden, FixtureError> {
        let entry = self.entry(Role::Golden, name)?;
        Ok(Golden {
            tensor: self.read(entry)?,
            floor: entry.floor,
            floor_block: entry.floor_block.clone(),
            // Reading a manifest checks that every golden has one.
            sequence: entry.sequence.unwrap_or_default(),
            place: entry.place.clone(),
        })
    }

    /// The input with this name, checked like a golden.
    ///
    /// # Errors
    ///
    /// As [`golden`](Self::golden).
    pub fn input(&self, name: &str) -> Result<Tensor, FixtureError> {
        self.read(self.entry(Role::Input, name)?)
    }

    /// The weight with this name, checked like a golden.
    ///
    /// # Errors
    ///
    /// As [`golden`](Self::golden).
    pub fn weight(&self, name: &str) -> Result<Tensor, FixtureError> {
        self.read(self.entry(Role::Weight, name)?)
    }

    /// The constant of recipes with this name, checked like a golden.
    ///
    /// # Errors
    ///
    /// As [`golden`](Self::golden).
    pub fn constant(&self, name: &str) -> Result<Tensor, FixtureError> {
        self.read(self.entry(Role::Constant, name)?)
    }

    /// The entries of all weights: those of the manifest in its order, then external ones.
    pub fn weights(&self) -> impl Iterator<Item = &TensorEntry> {
        self.entries(Role::Weight)
    }

    /// The manifest's entries with this role, in its order, then those of external weights.
    pub fn entries(&self, role: Role) -> impl Iterator<Item = &TensorEntry> {
        let external = self.external.iter().flat_map(ExternalWeights::entries);
        self.manifest.tensors.iter().chain(external).filter(move |entry| entry.role == role)
    }

    /// Adds external weights to those of the manifest. Their elements are read from their own files.
    ///
    /// # Errors
    ///
    /// When the manifest has a weight of the same name, or a file is not the one that was verified.
    pub fn with_external(mut self, external: ExternalWeights) -> Result<Self, FixtureError> {
        let in_set = |name: &String| self.index.contains_key(&(Role::Weight, name.clone()));
        let twice = external.entries().map(|entry| &entry.name).find(|name| in_set(name)).cloned();
        if let Some(name) = twice {
            return Err(ExternalError::InSet { name }.into());
        }
        for (name, file) in external.files() {
            let verified = self.verified.as_ref();
            if verified.is_some_and(|verified| verified.get(name).copied() != file.identity()) {
                let (set, path) = (self.set, file.path().to_owned());
                return Err(FixtureError::Changed { set, path, how: NOT_VERIFIED });
            }
        }
        self.files().extend(external.files().map(|(name, file)| (name.to_owned(), file.clone())));
        self.external = Some(external);
        Ok(self)
    }

    /// The external weights that were added.
    pub fn external(&self) -> Option<&ExternalWeights> {
        self.external.as_ref()
    }

    /// The identities of the files opened so far, the manifest among them, by their paths relative to the folder.
    pub fn identities(&self) -> BTreeMap<String, FileIdentity> {
        let files = self.files();
        let tensors = files.iter().filter_map(|(file, open)| Some((file.clone(), open.identity()?)));
        tensors.chain([(MANIFEST.to_owned(), self.manifest_identity)]).collect()
    }

    /// One problem per file that was replaced, removed or written to since it was read or verified.
    ///
    /// The map of such a file may hold elements other than the verified ones.
    pub fn changed(&self) -> Vec<FixtureError> {
        let how = |file: &str, opened: &FileIdentity| match FileIdentity::at(&self.path(file)) {
            Ok(now) => opened.difference(&now),
            Err(_) => Some("it was removed"),
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

    /// The tensor of an entry.
    ///
    /// # Errors
    ///
    /// When its file is missing or damaged, or has it with a dtype or shape other than the manifest's.
    pub fn read(&self, entry: &TensorEntry) -> Result<Tensor, FixtureError> {
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

    /// Opens a file of the set anew; later reads use the file opened here.
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
        // Every use leaves the map consistent, so a panic elsewhere does no harm.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of a file of the set, or of external weights.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        let external = self.external.as_ref().and_then(|external| external.path(file));
        external.map_or_else(|| self.folder.join(file), Path::to_owned)
    }

    /// The folder with links resolved.
    pub(super) fn real_folder(&self) -> &Path {
        &self.real
    }

    /// Whether the manifest lists a tensor with this role and name.
    pub(super) fn lists(&self, role: Role, name: &str) -> bool {
        self.find(role, name).is_some()
    }

    fn find(&self, role: Role, name: &str) -> Option<&TensorEntry> {
        let listed = self.index.get(&(role, name.to_owned())).map(|&index| &self.manifest.tensors[index]);
        let external = self.external.as_ref().filter(|_| role == Role::Weight);
        listed.or_else(|| external?.entry(name))
    }

    fn entry(&self, role: Role, name: &str) -> Result<&TensorEntry, FixtureError> {
        match self.find(role, name) {
            Some(entry) => Ok(entry),
            None => Err(FixtureError::NotListed {
                set: self.set.clone(),
                role,
                name: name.to_owned(),
                near: did_you_mean(name, self.entries(role).map(|entry| entry.name.as_str())),
            }),
        }
    }
}

/// A file's path with links resolved; an error when it is outside the folder.
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
