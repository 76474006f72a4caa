//! Index files such as `model.safetensors.index.json`, which say in which shard each weight is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::ExternalError;
use crate::files::regular;
use crate::text::suggest::did_you_mean;

/// An index file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightMap {
    /// The path of the index.
    pub path: PathBuf,
    /// The file of each weight, by the weight's name.
    pub files: BTreeMap<String, String>,
}

impl WeightMap {
    /// Reads the index at `path`. It opens no other file.
    ///
    /// # Errors
    /// When it cannot be read, has no `weight_map`, or names a file that is not a plain name ending in `.safetensors`.
    pub(super) fn read(path: &Path) -> Result<Self, ExternalError> {
        #[derive(Deserialize)]
        struct IndexFile {
            weight_map: BTreeMap<String, String>,
        }
        let text = regular::read(path, regular::TEXT)
            .map_err(|source| ExternalError::Read { path: path.to_owned(), source })?;
        let bad = |problem: String| ExternalError::Index { path: path.to_owned(), problem };
        if crate::tensor::is_lfs_pointer(&text) {
            return Err(bad("it is a Git LFS pointer".to_owned()));
        }
        let index: IndexFile = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        if index.weight_map.is_empty() {
            return Err(bad("its `weight_map` is empty".to_owned()));
        }
        if let Some(file) = index.weight_map.values().find(|file| !is_plain_name(file)) {
            return Err(ExternalError::Escapes { path: path.to_owned(), file: file.clone() });
        }
        Ok(Self { path: path.to_owned(), files: index.weight_map })
    }

    /// The names of the shards, sorted.
    pub fn shards(&self) -> BTreeSet<&str> {
        self.files.values().map(String::as_str).collect()
    }

    /// Checks that the shard `file` at `path` has exactly the weights that the index lists for it.
    ///
    /// # Errors
    /// The first weight that differs.
    pub(crate) fn check<'n>(
        &self,
        file: &str,
        path: &Path,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<(), ExternalError> {
        let names: BTreeSet<&str> = names.collect();
        if let Some(name) = names.iter().find(|name| self.files.get(**name).is_none_or(|other| other != file))
        {
            return Err(ExternalError::NotInIndex { path: path.to_owned(), name: (*name).to_owned() });
        }
        let mut listed = self.files.iter().filter(|(_, other)| *other == file).map(|(name, _)| name);
        match listed.find(|name| !names.contains(name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let near = did_you_mean(name, names.iter().copied());
                let name = format!("{name}{near}");
                Err(ExternalError::NotInFile { path: self.path.clone(), file: file.to_owned(), name })
            }
        }
    }
}

fn is_plain_name(file: &str) -> bool {
    file.ends_with(".safetensors")
        && file.len() <= 255
        && !file.starts_with('.')
        && !file.contains(['/', '\\'])
        && !file.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_names_files_beside_it_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors.index.json");
        let read = |file: &str| {
            let text = serde_json::json!({"metadata": {"total_size": 4}, "weight_map": {"w": file}});
            std::fs::write(&path, text.to_string()).unwrap();
            WeightMap::read(&path)
        };
        assert_eq!(read("a-1.safetensors").unwrap().shards(), BTreeSet::from(["a-1.safetensors"]));
        for file in
            ["../a.safetensors", "/a.safetensors", "x/a.safetensors", "a.bin", "..", "a\n.safetensors", ""]
        {
            assert!(matches!(read(file), Err(ExternalError::Escapes { .. })), "{file:?}");
        }
        for text in ["", "[]", "{}", r#"{"weight_map": {}}"#, r#"{"weight_map": {"w": 3}}"#] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(WeightMap::read(&path), Err(ExternalError::Index { .. })), "{text}");
        }
    }

    #[test]
    fn a_shard_has_what_the_index_lists() {
        let files = [("a", "1.safetensors"), ("b", "1.safetensors"), ("c", "2.safetensors")];
        let files = files.map(|(name, file)| (name.to_owned(), file.to_owned())).into();
        let map = WeightMap { path: "i".into(), files };
        let check = |names: &[&str]| map.check("1.safetensors", Path::new("p"), names.iter().copied());
        assert!(check(&["b", "a"]).is_ok());
        assert!(matches!(check(&["a"]), Err(ExternalError::NotInFile { .. })));
        assert!(matches!(check(&["a", "b", "c"]), Err(ExternalError::NotInIndex { .. })));
        assert!(matches!(check(&["a", "b", "d"]), Err(ExternalError::NotInIndex { .. })));
    }
}
