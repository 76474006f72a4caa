//! One side of a diff: the tensors of a file or a folder, each with its own name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::DiffError;
use mlx_parity_core::gate::Floor;
use mlx_parity_core::golden::{FixtureSet, MANIFEST, Role};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::tensor::{Tensor, TensorFile, TensorFormat};
use mlx_parity_core::text::printable::clean;

/// The tensors of one side. Only their headers are read at first.
pub(super) struct DiffSide {
    path: PathBuf,
    entries: Vec<SideEntry>,
    kind: SideKind,
}

enum SideKind {
    File(TensorFile),
    Folder,
    Set(Box<FixtureSet>),
}

struct SideEntry {
    /// Name that is shown and paired. Characters that could control a terminal or start another line are escaped.
    name: String,
    source: EntrySource,
    floor: Option<Floor>,
}

enum EntrySource {
    File {
        file: TensorFile,
        key: String,
    },
    /// Golden of the set, by its name in the manifest.
    Golden(String),
}

impl DiffSide {
    /// Opens a file, a folder with tensor files at any depth, or the goldens of a fixture set.
    ///
    /// A tensor has the name that it has in its file. In a folder, the path of the file comes first, without the extension and
    /// with dots between its parts. For an npy file, this path is the whole name.
    pub(super) fn open(path: &Path) -> Result<Self, DiffError> {
        let made = if path.join(MANIFEST).is_file() {
            Self::set(path)?
        } else if path.is_dir() {
            Self::folder(path)?
        } else if path.exists() {
            let file = TensorFile::open(path)?;
            let entries = file.names().map(|name| SideEntry::of(&file, name, name.to_owned())).collect();
            Self { path: path.to_owned(), entries, kind: SideKind::File(file) }
        } else {
            return Err(DiffError::NotThere { path: path.to_owned() });
        };
        match made.entries.is_empty() {
            true => Err(DiffError::NoTensors { path: path.to_owned() }),
            false => Ok(made),
        }
    }

    fn set(path: &Path) -> Result<Self, DiffError> {
        let real = path.canonicalize().map_err(|source| DiffError::Read { path: path.to_owned(), source })?;
        let (root, name) = (real.parent().unwrap_or(&real), real.file_name().unwrap_or_default());
        let set = FixtureSet::open(root, &name.to_string_lossy())?;
        let mut goldens: Vec<_> = set.entries(Role::Golden).collect();
        goldens.sort_by_key(|entry| entry.sequence);
        let entry = |name: &str, floor| {
            let source = EntrySource::Golden(name.to_owned());
            SideEntry { name: clean(name).into_owned(), source, floor }
        };
        let entries = goldens.iter().map(|golden| entry(&golden.name, golden.floor)).collect();
        Ok(Self { path: path.to_owned(), entries, kind: SideKind::Set(Box::new(set)) })
    }

    fn folder(path: &Path) -> Result<Self, DiffError> {
        let mut entries = Vec::new();
        for found in WalkDir::new(path).sort_by_file_name() {
            let found = found.map_err(|source| DiffError::Walk { path: path.to_owned(), source })?;
            // A folder may hold other files too; they are not part of the side.
            let Ok(format) = TensorFormat::of(found.path()) else { continue };
            if !found.path().is_file() {
                continue;
            }
            let file = TensorFile::open(found.path())?;
            let below = found.path().strip_prefix(path).unwrap_or(found.path()).with_extension("");
            let parts: Vec<String> =
                below.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            let stem = parts.join(".");
            let alone = format == TensorFormat::Npy;
            entries.extend(file.names().map(|key| {
                let name = if alone { stem.clone() } else { format!("{stem}.{key}") };
                SideEntry::of(&file, key, name)
            }));
        }
        let mut seen: HashMap<&str, &SideEntry> = HashMap::new();
        for entry in &entries {
            if let Some(first) = seen.insert(&entry.name, entry) {
                let (first, second) = (first.file(), entry.file());
                return Err(DiffError::TwoTensors { name: entry.name.clone(), first, second });
            }
        }
        Ok(Self { path: path.to_owned(), entries, kind: SideKind::Folder })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names in the order of the file or the manifest, or sorted by path in a folder.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the tensor at this position in the list of names.
    pub(super) fn tensor(&self, at: usize) -> Result<Tensor, DiffError> {
        let entry = &self.entries[at];
        match (&entry.source, &self.kind) {
            (EntrySource::File { file, key }, _) => Ok(file.get(key)?),
            (EntrySource::Golden(name), SideKind::Set(set)) => Ok(set.golden(name)?.tensor),
            (EntrySource::Golden(_), _) => Err(DiffError::NotThere { path: self.path.clone() }),
        }
    }

    /// Returns the floor of a name, if the side is a fixture set that has one.
    pub(super) fn floor(&self, name: &str) -> Option<Floor> {
        self.entries.iter().find(|entry| entry.name == name).and_then(|entry| entry.floor)
    }

    pub(super) fn is_set(&self) -> bool {
        self.fixture_set().is_some()
    }

    /// Returns the fixture set, if the side is one.
    pub(super) fn fixture_set(&self) -> Option<&FixtureSet> {
        match &self.kind {
            SideKind::Set(set) => Some(set),
            SideKind::File(_) | SideKind::Folder => None,
        }
    }

    /// Returns the goldens' names in the manifest, in the order of [`DiffSide::names`]; nothing for other sides.
    pub(super) fn goldens(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| match &entry.source {
            EntrySource::Golden(name) => Some(name.as_str()),
            EntrySource::File { .. } => None,
        })
    }

    /// Returns the file, if the side is one.
    pub(super) fn file(&self) -> Option<&TensorFile> {
        match &self.kind {
            SideKind::File(file) => Some(file),
            SideKind::Folder | SideKind::Set(_) => None,
        }
    }

    /// Returns the path and a short description.
    pub(super) fn about(&self) -> String {
        let what = match &self.kind {
            SideKind::File(_) | SideKind::Folder => counted(self.len(), "tensor"),
            SideKind::Set(_) => format!("fixture set, {}", counted(self.len(), "golden")),
        };
        format!("{}  {what}", clean(&self.path.display().to_string()))
    }
}

impl SideEntry {
    fn of(file: &TensorFile, key: &str, name: String) -> Self {
        let source = EntrySource::File { file: file.clone(), key: key.to_owned() };
        Self { name: clean(&name).into_owned(), source, floor: None }
    }

    fn file(&self) -> PathBuf {
        match &self.source {
            EntrySource::File { file, .. } => file.path().to_owned(),
            EntrySource::Golden(_) => PathBuf::new(),
        }
    }
}
