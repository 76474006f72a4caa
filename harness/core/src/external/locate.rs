//! Finding the files of external weights. Looks at names only, and reads an index if the path names one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::ExternalError;
use super::index::WeightMap;
use super::path::{ExternalPath, Segment};
use crate::text::glob;

/// How many names of folders are compared with wildcards, so that `/*/*/*` ends.
const MOST_NAMES: usize = 100_000;

/// A file of external weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalFile {
    /// Its name without folders.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
}

/// The files that a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedWeights {
    /// The files, sorted by name; at least one.
    pub files: Vec<ExternalFile>,
    /// The index that names them, if the path names an index.
    pub index: Option<WeightMap>,
}

/// Finds the files that `path` names. `variable` returns the value of an environment variable.
///
/// # Errors
/// One that [is absent](ExternalError::is_absent) when a variable is not set or no file is there; others when it is not
/// clear which files are meant, or when an index cannot be used or names a file that is not there.
pub fn locate(
    path: &ExternalPath,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<LocatedWeights, ExternalError> {
    let segments = path.expand(variable)?;
    let found = matching(&segments)?;
    let shown = || shown(&segments);
    let Some(first) = found.first() else { return Err(ExternalError::NoMatch { path: shown() }) };
    if !path.is_index() {
        return Ok(LocatedWeights { files: unique(&found)?, index: None });
    }
    if let Some(second) = found.get(1) {
        return Err(ExternalError::TwoIndexes { first: first.clone(), second: second.clone() });
    }
    check_link(first)?;
    let index = WeightMap::read(first)?;
    let folder = first.parent().unwrap_or(Path::new("/"));
    let mut files = Vec::new();
    for name in index.shards() {
        let path = folder.join(name);
        // A link to a file that does not exist counts as missing, too.
        if !path.exists() {
            return Err(ExternalError::Incomplete { path: first.clone(), file: name.to_owned() });
        }
        files.push(ExternalFile { name: name.to_owned(), path });
    }
    Ok(LocatedWeights { files, index: Some(index) })
}

/// The existing paths that the segments match, sorted.
fn matching(segments: &[Segment]) -> Result<Vec<PathBuf>, ExternalError> {
    let mut found = vec![PathBuf::from("/")];
    let mut names = 0;
    for segment in segments {
        let mut next = Vec::new();
        for folder in &found {
            match segment {
                Segment::Name(name) => {
                    let path = folder.join(name);
                    // Also a link that leads nowhere, which gets a message of its own.
                    if path.symlink_metadata().is_ok() {
                        next.push(path);
                    }
                }
                Segment::Pattern(pattern) => {
                    for name in entries(folder)? {
                        names += 1;
                        if names > MOST_NAMES {
                            let (path, allowed) = (shown(segments), MOST_NAMES);
                            return Err(ExternalError::TooMany { path, allowed });
                        }
                        let is_hidden = name.starts_with('.') && !pattern.starts_with('.');
                        if !is_hidden && glob::matches(pattern, &name) {
                            next.push(folder.join(name));
                        }
                    }
                }
            }
        }
        next.sort();
        found = next;
    }
    Ok(found)
}

/// The names in a folder; none if it is no folder. Names that are not UTF-8 are left out: no pattern matches them.
fn entries(folder: &Path) -> Result<impl Iterator<Item = String>, ExternalError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => Some(entries),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
        Err(source) => return Err(ExternalError::Read { path: folder.to_owned(), source }),
    };
    Ok(entries.into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok()))
}

/// The files by name, each name once.
fn unique(found: &[PathBuf]) -> Result<Vec<ExternalFile>, ExternalError> {
    let mut files: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in found {
        check_link(path)?;
        let name = file_name(path);
        if let Some(first) = files.insert(name.clone(), path.clone()) {
            return Err(ExternalError::TwoFiles { name, first, second: path.clone() });
        }
    }
    Ok(files.into_iter().map(|(name, path)| ExternalFile { name, path }).collect())
}

fn check_link(path: &Path) -> Result<(), ExternalError> {
    match path.exists() {
        true => Ok(()),
        false => Err(ExternalError::Dangling { path: path.to_owned() }),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn shown(segments: &[Segment]) -> String {
    let names = segments.iter().map(|segment| match segment {
        Segment::Name(text) | Segment::Pattern(text) => format!("/{text}"),
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Cache(tempfile::TempDir);

    impl Cache {
        fn with(files: &[&str]) -> Self {
            let cache = Self(tempfile::tempdir().unwrap());
            for file in files {
                let path = cache.0.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            cache
        }

        fn locate(&self, path: &str) -> Result<LocatedWeights, ExternalError> {
            let home = self.0.path().as_os_str().to_owned();
            locate(&ExternalPath::parse(path).unwrap(), &|name| (name == "CACHE").then(|| home.clone()))
        }

        fn names(&self, path: &str) -> Vec<String> {
            self.locate(path).unwrap().files.into_iter().map(|file| file.name).collect()
        }
    }

    #[test]
    fn wildcards_match_names_of_one_folder() {
        let cache =
            Cache::with(&["s/1/b.safetensors", "s/1/a.safetensors", "s/1/.c.safetensors", "s/1/x.json"]);
        assert_eq!(cache.names("${CACHE}/s/*/*.safetensors"), ["a.safetensors", "b.safetensors"]);
        assert_eq!(cache.names("${CACHE}/s/?/a.safetensors"), ["a.safetensors"]);
        for path in [
            "${CACHE}/*.safetensors",
            "${CACHE}/s/1/z.safetensors",
            "${CACHE}/s/1/a.safetensors/*.safetensors",
        ] {
            assert!(cache.locate(path).unwrap_err().is_absent(), "{path}");
        }
        assert!(matches!(cache.locate("${OTHER}/a.safetensors"), Err(ExternalError::Unset { .. })));
    }

    #[test]
    fn two_snapshots_are_not_one_set() {
        let cache = Cache::with(&["s/1/a.safetensors", "s/2/a.safetensors"]);
        let error = cache.locate("${CACHE}/s/*/*.safetensors").unwrap_err();
        assert!(matches!(&error, ExternalError::TwoFiles { name, .. } if name == "a.safetensors"), "{error}");
    }

    #[test]
    fn a_link_counts_as_what_it_leads_to() {
        let cache = Cache::with(&["blobs/1"]);
        let link =
            |to: &str, name: &str| symlink(cache.0.path().join(to), cache.0.path().join(name)).unwrap();
        link("blobs/1", "a.safetensors");
        assert_eq!(cache.names("${CACHE}/*.safetensors"), ["a.safetensors"]);
        link("blobs/2", "b.safetensors");
        assert!(matches!(cache.locate("${CACHE}/*.safetensors"), Err(ExternalError::Dangling { .. })));
        assert!(matches!(cache.locate("${CACHE}/b.safetensors"), Err(ExternalError::Dangling { .. })));
    }

    #[test]
    fn an_index_names_its_shards() {
        let cache = Cache::with(&["m/1.safetensors", "m/2.safetensors", "m/3.safetensors"]);
        let index = cache.0.path().join("m/model.safetensors.index.json");
        fs::write(
            &index,
            r#"{"weight_map": {"a": "2.safetensors", "b": "1.safetensors", "c": "2.safetensors"}}"#,
        )
        .unwrap();
        assert_eq!(cache.names("${CACHE}/m/*.index.json"), ["1.safetensors", "2.safetensors"]);
        fs::remove_file(cache.0.path().join("m/2.safetensors")).unwrap();
        let error = cache.locate("${CACHE}/m/*.index.json").unwrap_err();
        assert!(
            matches!(&error, ExternalError::Incomplete { file, .. } if file == "2.safetensors"),
            "{error}"
        );
        assert!(!error.is_absent());
        fs::write(cache.0.path().join("m/other.index.json"), "").unwrap();
        assert!(matches!(cache.locate("${CACHE}/m/*.index.json"), Err(ExternalError::TwoIndexes { .. })));
    }
}
