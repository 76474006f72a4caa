//! One side of a diff: a file or a folder of tensors, each under one name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::DiffError;
use crate::compare::Floor;
use crate::golden::{FixtureSet, MANIFEST, Role};
use crate::printable::clean;
use crate::spec::list::counted;
use crate::tensor::{EXTENSIONS, Tensor, TensorFile};

/// What is on one side, headers read and no tensor.
pub(super) struct Side {
    path: PathBuf,
    entries: Vec<Entry>,
    from: From,
}

enum From {
    File(TensorFile),
    Folder,
    Set(Box<FixtureSet>),
}

struct Entry {
    /// As it is shown and paired: what could drive a terminal, or pass for another line, is an escape.
    name: String,
    source: Source,
    floor: Option<Floor>,
}

enum Source {
    File {
        file: TensorFile,
        key: String,
    },
    /// Of the set, under its name in the manifest, in the order of that.
    Golden(String),
}

impl Side {
    /// Opens a file, a folder with files of tensors at any depth, or a fixture set, of which goldens count.
    ///
    /// A name is that in the file. In a folder the file's path without its extension stands before it, with dots between
    /// its parts, and alone for an npy file.
    pub(super) fn open(path: &Path) -> Result<Self, DiffError> {
        let made = if path.join(MANIFEST).is_file() {
            Self::set(path)?
        } else if path.is_dir() {
            Self::folder(path)?
        } else if path.exists() {
            let file = TensorFile::open(path)?;
            let entries = file.names().map(|name| Entry::of(&file, name, name.to_owned())).collect();
            Self { path: path.to_owned(), entries, from: From::File(file) }
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
            let source = Source::Golden(name.to_owned());
            Entry { name: clean(name).into_owned(), source, floor }
        };
        let entries = goldens.iter().map(|golden| entry(&golden.name, golden.floor)).collect();
        Ok(Self { path: path.to_owned(), entries, from: From::Set(Box::new(set)) })
    }

    fn folder(path: &Path) -> Result<Self, DiffError> {
        let mut entries = Vec::new();
        for found in WalkDir::new(path).sort_by_file_name() {
            let found = found.map_err(|source| DiffError::Walk { path: path.to_owned(), source })?;
            let extension = found.path().extension().unwrap_or_default();
            if !EXTENSIONS.iter().any(|known| extension == *known) || !found.path().is_file() {
                continue;
            }
            let file = TensorFile::open(found.path())?;
            let below = found.path().strip_prefix(path).unwrap_or(found.path()).with_extension("");
            let parts: Vec<String> =
                below.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            let stem = parts.join(".");
            let alone = extension == "npy";
            entries.extend(file.names().map(|key| {
                let name = if alone { stem.clone() } else { format!("{stem}.{key}") };
                Entry::of(&file, key, name)
            }));
        }
        let mut seen: HashMap<&str, &Entry> = HashMap::new();
        for entry in &entries {
            if let Some(first) = seen.insert(&entry.name, entry) {
                let (first, second) = (first.file(), entry.file());
                return Err(DiffError::TwoTensors { name: entry.name.clone(), first, second });
            }
        }
        Ok(Self { path: path.to_owned(), entries, from: From::Folder })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Names, in the order of the file or the manifest, by path in a folder.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The tensor at that place among the names.
    pub(super) fn tensor(&self, at: usize) -> Result<Tensor, DiffError> {
        let entry = &self.entries[at];
        match (&entry.source, &self.from) {
            (Source::File { file, key }, _) => Ok(file.get(key)?),
            (Source::Golden(name), From::Set(set)) => Ok(set.golden(name)?.tensor),
            (Source::Golden(_), _) => Err(DiffError::NotThere { path: self.path.clone() }),
        }
    }

    /// The floor of that name, where the side is a set that has one.
    pub(super) fn floor(&self, name: &str) -> Option<Floor> {
        self.entries.iter().find(|entry| entry.name == name).and_then(|entry| entry.floor)
    }

    pub(super) fn is_set(&self) -> bool {
        matches!(self.from, From::Set(_))
    }

    /// The file, when the side is one.
    pub(super) fn file(&self) -> Option<&TensorFile> {
        match &self.from {
            From::File(file) => Some(file),
            From::Folder | From::Set(_) => None,
        }
    }

    /// What it is, in a few words.
    pub(super) fn about(&self) -> String {
        let what = match &self.from {
            From::File(_) | From::Folder => counted(self.len(), "tensor"),
            From::Set(_) => format!("fixture set, {}", counted(self.len(), "golden")),
        };
        format!("{}  {what}", clean(&self.path.display().to_string()))
    }
}

impl Entry {
    fn of(file: &TensorFile, key: &str, name: String) -> Self {
        let source = Source::File { file: file.clone(), key: key.to_owned() };
        Self { name: clean(&name).into_owned(), source, floor: None }
    }

    fn file(&self) -> PathBuf {
        match &self.source {
            Source::File { file, .. } => file.path().to_owned(),
            Source::Golden(_) => PathBuf::new(),
        }
    }
}
