//! Wheels: fetched by pip, checked by SHA-256, unpacked. An interrupted step leaves nothing half done.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::SetupError;
use super::pins::PinnedWheel;
use crate::python::Python;

/// The folder in `home` for the unpacked `wheel`; it may not exist yet.
pub(super) fn folder(home: &Path, wheel: &PinnedWheel) -> PathBuf {
    home.join(format!("{}-{}-{}", wheel.package, wheel.version, &wheel.sha256[..12]))
}

/// Fetches the wheel with pip and checks it, unless that was done before. Returns the path of the file.
pub(super) fn fetch(home: &Path, wheel: &PinnedWheel, python: &Python) -> Result<PathBuf, SetupError> {
    let kept = home.join(format!("{}.whl", wheel.package));
    if kept.is_file() && sha256(&kept)? == wheel.sha256 {
        return Ok(kept);
    }
    let arriving = home.join(format!("{}.arriving", wheel.package));
    remove_folder(&arriving)?;
    fs::create_dir_all(&arriving).map_err(|source| SetupError::write(&arriving, source))?;
    let requirement = format!("{}=={}", wheel.package, wheel.version);
    let arguments: Vec<OsString> = vec![
        "download".into(),
        "--no-deps".into(),
        "--only-binary=:all:".into(),
        "--dest".into(),
        arriving.clone().into(),
        requirement.clone().into(),
    ];
    python.pip(&requirement, &arguments)?;
    let file = fs::read_dir(&arriving)
        .map_err(|source| SetupError::read(&arriving, source))?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| SetupError::NoWheel { requirement: requirement.clone() })?;
    let found = sha256(&file)?;
    if found != wheel.sha256 {
        return Err(SetupError::Checksum {
            file: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            found,
            wanted: wheel.sha256,
        });
    }
    fs::rename(&file, &kept).map_err(|source| SetupError::write(&kept, source))?;
    remove_folder(&arriving)?;
    Ok(kept)
}

/// Unpacks the fetched wheel at `file` into its folder and removes `file`.
pub(super) fn unpack(home: &Path, wheel: &PinnedWheel, file: &Path) -> Result<(), SetupError> {
    let unpacked = folder(home, wheel);
    let partial = partial(&unpacked);
    remove_folder(&partial)?;
    let bad = |source| SetupError::Unpack { file: file.to_owned(), source };
    let reader = File::open(file).map_err(|source| SetupError::read(file, source))?;
    let mut archive = zip::ZipArchive::new(reader).map_err(bad)?;
    archive.extract(&partial).map_err(bad)?;
    remove_folder(&unpacked)?;
    fs::rename(&partial, &unpacked).map_err(|source| SetupError::write(&unpacked, source))?;
    fs::remove_file(file).map_err(|source| SetupError::write(file, source))
}

/// Where something is made before one rename puts it into place.
pub(super) fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Removes a folder and everything in it; a missing folder is no error.
pub(super) fn remove_folder(folder: &Path) -> Result<(), SetupError> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(SetupError::write(folder, source)),
        _ => Ok(()),
    }
}

fn sha256(path: &Path) -> Result<String, SetupError> {
    super::installed_files::sha256(path).map_err(|source| SetupError::read(path, source))
}
