//! Checksums of the files that a finished set-up made or links against. They reveal a library that was replaced later, which
//! could compute something else unnoticed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::files::hash::hex;
use mlx_parity_core::files::identity::FileIdentity;
use mlx_parity_core::files::regular;

const FILE: &str = "files.json";

/// A file as it was when the set-up finished.
#[derive(Debug, Serialize, Deserialize)]
struct KnownFile {
    identity: FileIdentity,
    sha256: String,
}

type FileRecord = BTreeMap<PathBuf, KnownFile>;

/// Returns those of `paths` whose content differs from when [`record`] was called. A file that was moved or copied and has
/// the same bytes has not changed. A file that was never recorded does not count as changed.
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

/// Records the checksums of the files, unless they are recorded already.
pub(super) fn record(home: &Path, paths: &[PathBuf]) -> io::Result<()> {
    let known = read(home);
    let is_known = |path: &PathBuf| {
        let known = known.get(below(home, path)).map(|known| known.identity);
        known.is_some() && FileIdentity::at(path).ok() == known
    };
    if known.len() == paths.len() && paths.iter().all(is_known) {
        return Ok(());
    }
    let mut record = FileRecord::new();
    for path in paths {
        let known = KnownFile { identity: FileIdentity::at(path)?, sha256: sha256(path)? };
        record.insert(below(home, path).to_owned(), known);
    }
    let text = serde_json::to_vec_pretty(&record)?;
    write_atomically(&home.join(FILE), |out| out.write_all(&text))
}

fn below<'a>(home: &Path, path: &'a Path) -> &'a Path {
    path.strip_prefix(home).unwrap_or(path)
}

/// The record; empty if it cannot be read.
fn read(home: &Path) -> FileRecord {
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
