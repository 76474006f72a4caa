//! The Python exporter that this program brings with it, for projects that have none of their own.
//!
//! Reference scripts import `parity_export`. The program contains the files of that package and unpacks them, so the exporter
//! always has the version of the commands, and nothing is installed from an index.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Project;
use mlx_parity_core::files::hash::hex;

/// Name and text of every file of the package.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/exporter_files.rs"));

const PACKAGE: &str = "parity_export";

/// Returns the folder to import the exporter from, once [`unpack`] made it.
pub(crate) fn folder(project: &Project) -> PathBuf {
    let mut hash = Sha256::new();
    for (name, text) in FILES {
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update(text.as_bytes());
    }
    project.private_folder().join("exporter").join(&hex(&hash.finalize())[..12])
}

/// Unpacks the exporter, unless its folder already has exactly these files.
pub(crate) fn unpack(project: &Project) -> io::Result<()> {
    let folder = folder(project);
    if is_whole(&folder) {
        return Ok(());
    }
    let home = project.private_folder().join("exporter");
    fs::create_dir_all(&home)?;
    project.keep_git_away()?;
    let made = tempfile::Builder::new().prefix(".").tempdir_in(&home)?;
    fs::create_dir(made.path().join(PACKAGE))?;
    for (name, text) in FILES {
        fs::write(made.path().join(PACKAGE).join(name), text)?;
    }
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    match fs::rename(made.path(), &folder) {
        // Another command unpacked the same files meanwhile.
        Err(_) if is_whole(&folder) => Ok(()),
        result => result,
    }
}

fn is_whole(folder: &Path) -> bool {
    let package = folder.join(PACKAGE);
    FILES.iter().all(|(name, text)| fs::read(package.join(name)).is_ok_and(|found| found == text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exporter_is_unpacked_once_and_restored_when_it_was_changed() {
        let root = tempfile::tempdir().unwrap();
        let project = Project::new(root.path(), "specs", "fixtures");
        unpack(&project).unwrap();
        let folder = folder(&project);
        let start = folder.join("parity_export/__init__.py");
        assert!(fs::read_to_string(&start).unwrap().contains("main"));
        assert!(folder.join("parity_export/py.typed").is_file());
        let file = || fs::metadata(&start).unwrap().modified().unwrap();
        let before = file();
        unpack(&project).unwrap();
        assert_eq!(file(), before);
        fs::write(&start, "changed").unwrap();
        unpack(&project).unwrap();
        assert!(fs::read_to_string(&start).unwrap().contains("main"));
        assert_eq!(fs::read_dir(folder.parent().unwrap()).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(root.path().join(".parity/.gitignore")).unwrap(), "*\n");
    }
}
