//! Opened external weights: the headers of their files. Elements are mapped, and read by name on demand.

use std::collections::HashMap;
use std::path::Path;

use super::entry::{Role, TensorEntry};
use crate::external::{ExternalError, ExternalFile, WeightMap};
use crate::tensor::TensorFile;

/// What the names of external files begin with in entries. No path of a manifest may have a colon.
pub(super) const EXTERNAL: &str = "external:";

/// External weights whose headers were read.
#[derive(Debug)]
pub struct ExternalWeights {
    /// The files by their names in entries.
    files: Vec<(String, TensorFile)>,
    entries: Vec<TensorEntry>,
    /// The position of each weight in `entries`.
    index: HashMap<String, usize>,
}

impl ExternalWeights {
    /// Opens the files and reads their headers; no element. With an index, each file must have exactly the weights that
    /// the index lists for it.
    ///
    /// # Errors
    /// When a file is damaged or truncated, has a dtype that is never read, or when two files have one weight.
    pub fn open(files: &[ExternalFile], index: Option<&WeightMap>) -> Result<Self, ExternalError> {
        let mut found = Self { files: Vec::new(), entries: Vec::new(), index: HashMap::new() };
        for ExternalFile { name, path } in files {
            found.add(name, path, index)?;
        }
        Ok(found)
    }

    fn add(&mut self, name: &str, path: &Path, index: Option<&WeightMap>) -> Result<(), ExternalError> {
        let bad = |source| ExternalError::Tensor { path: path.to_owned(), source: Box::new(source) };
        let open = TensorFile::open(path).map_err(bad)?;
        if let Some(index) = index {
            index.check(name, path, open.names())?;
        }
        let file = format!("{EXTERNAL}{name}");
        for weight in open.names() {
            let tensor = open.get(weight).map_err(bad)?;
            if let Some(other) = self.index.insert(weight.to_owned(), self.entries.len()) {
                let first = self.entries[other].file.trim_start_matches(EXTERNAL).to_owned();
                let (name, second) = (weight.to_owned(), name.to_owned());
                return Err(ExternalError::TwoWeights { name, first, second });
            }
            self.entries.push(TensorEntry {
                name: weight.to_owned(),
                role: Role::Weight,
                file: file.clone(),
                key: None,
                dtype: tensor.dtype(),
                shape: tensor.shape().to_vec(),
                // The checksum of external weights is that of their file.
                sha256: String::new(),
                sequence: None,
                floor: None,
                floor_block: None,
                no_floor: None,
                spread: None,
                place: None,
                step: None,
            });
        }
        self.files.push((file, open));
        Ok(())
    }

    /// The weights of all files.
    pub fn entries(&self) -> impl Iterator<Item = &TensorEntry> {
        self.entries.iter()
    }

    /// The files with the names that each has without its folder and with its path.
    pub fn located(&self) -> Vec<ExternalFile> {
        let file = |(name, file): &(String, TensorFile)| ExternalFile {
            name: name.trim_start_matches(EXTERNAL).to_owned(),
            path: file.path().to_owned(),
        };
        self.files.iter().map(file).collect()
    }

    /// The files by their names in entries.
    pub(super) fn files(&self) -> impl ExactSizeIterator<Item = (&str, &TensorFile)> {
        self.files.iter().map(|(name, file)| (name.as_str(), file))
    }

    /// The weight with this name.
    pub(super) fn entry(&self, name: &str) -> Option<&TensorEntry> {
        self.index.get(name).map(|&at| &self.entries[at])
    }

    /// The path of a file by its name in entries.
    pub(super) fn path(&self, file: &str) -> Option<&Path> {
        self.files.iter().find(|(name, _)| name == file).map(|(_, file)| file.path())
    }
}

impl TensorEntry {
    /// Whether the tensor is in a file of external weights.
    pub fn is_external(&self) -> bool {
        self.file.starts_with(EXTERNAL)
    }
}
