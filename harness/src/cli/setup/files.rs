//! The files that a finished set-up made or links against, so that one which changed since is noticed: a library that
//! somebody exchanged computes something else, and nothing else would tell.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::atomic::write_atomically;
use crate::hash::hex;
use crate::identity::FileIdentity;
use crate::regular;

const FILE: &str = "files.json";

/// A file as it was when the set-up finished.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    identity: FileIdentity,
    sha256: String,
}

type Record = BTreeMap<PathBuf, Known>;

/// Those of `paths` whose content is not what it was when [`record`] was called. A file that moved, or was copied, and has
/// the same bytes has not changed; one that was never recorded is not known to have.
pub(super) fn changed(home: &Path, paths: &[PathBuf]) -> Vec<PathBuf> {
    let record = read(home);
    let is_changed = |path: &&PathBuf| {
        record.get(below(home, path)).is_some_and(|known| {
            FileIdentity::at(path).ok() != Some(known.identity)
                && sha256(path).ok().as_ref() != Some(&known.sha256)
        })
    };
    paths.iter().filter(is_changed).cloned().collect()
}

/// Notes what the files are now, unless that is known.
pub(super) fn record(home: &Path, paths: &[PathBuf]) -> io::Result<()> {
    let known = read(home);
    let is_known = |path: &PathBuf| {
        let known = known.get(below(home, path)).map(|known| known.identity);
        known.is_some() && FileIdentity::at(path).ok() == known
    };
    if known.len() == paths.len() && paths.iter().all(is_known) {
        return Ok(());
    }
    let mut record = Record::new();
    for path in paths {
        let known = Known { identity: FileIdentity::at(path)?, sha256: sha256(path)? };
        record.insert(below(home, path).to_owned(), known);
    }
    let text = serde_json::to_vec_pretty(&record)?;
    write_atomically(&home.join(FILE), |out| out.write_all(&text))
}

fn below<'a>(home: &Path, path: &'a Path) -> &'a Path {
    path.strip_prefix(home).unwrap_or(path)
}

/// What was recorded; nothing when it cannot be read.
fn read(home: &Path) -> Record {
    let text = regular::read(&home.join(FILE), regular::TEXT).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// The hex SHA-256 of a file.
pub(super) fn sha256(path: &Path) -> io::Result<String> {
    let mut file: File = regular::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_with_other_bytes_is_changed_whatever_its_times_are() {
        let home = tempfile::tempdir().unwrap();
        let paths = ["a.so", "b/c.so"].map(|name| home.path().join(name));
        fs::create_dir(home.path().join("b")).unwrap();
        for path in &paths {
            fs::write(path, "old").unwrap();
        }
        assert_eq!(changed(home.path(), &paths), [""; 0].map(PathBuf::from), "nothing is known yet");
        record(home.path(), &paths).unwrap();
        assert!(changed(home.path(), &paths).is_empty());
        let time = fs::metadata(&paths[1]).unwrap().modified().unwrap();
        fs::write(&paths[1], "new").unwrap();
        File::open(&paths[1]).unwrap().set_modified(time).unwrap();
        assert_eq!(changed(home.path(), &paths), [paths[1].clone()]);
        // The same bytes again, in another file.
        fs::remove_file(&paths[1]).unwrap();
        assert_eq!(changed(home.path(), &paths), [paths[1].clone()]);
        fs::write(&paths[1], "old").unwrap();
        assert!(changed(home.path(), &paths).is_empty());
        record(home.path(), &paths).unwrap();
        assert_eq!(read(home.path()).len(), 2);
    }
}
