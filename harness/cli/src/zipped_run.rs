//! Unpacks a zipped run folder into a temporary folder for a report.
//!
//! The file can come from anywhere and is not trusted. Names that lead out of the folder are refused, and so are archives
//! larger than any run folder.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;
use zip::ZipArchive;
use zip::result::ZipError as ArchiveError;

use mlx_parity_core::files::{regular, size};
use mlx_parity_core::runs::is_debug_session;

/// The largest number of bytes to unpack, without tensors.
const MOST_BYTES: u64 = 2 << 30;
/// The largest number of bytes to unpack with tensors. `PARITY_SIZE_LIMIT` stops a suite long before.
const MOST_WITH_TENSORS: u64 = 64 << 30;
/// The largest number of files to unpack.
const MOST_FILES: usize = 200_000;

/// Why a zip file cannot be reported.
#[derive(Debug, Error)]
pub(crate) enum ZipError {
    #[error("cannot open `{path}`")]
    Open { path: PathBuf, source: io::Error },
    #[error("`{path}` is not a readable zip file")]
    Archive { path: PathBuf, source: ArchiveError },
    #[error("`{path}` has the entry `{name}`, which leads out of its folder")]
    Outside { path: PathBuf, name: String },
    #[error(
        "`{path}` holds more than {} or {MOST_FILES} files, which is more than a run folder needs",
        size::words(*most)
    )]
    TooLarge { path: PathBuf, most: u64 },
    #[error(
        "`{path}` holds no run folder: expected a folder `suites`, or the trace of a debug session, at the top or in its only folder"
    )]
    NoRun { path: PathBuf },
    #[error("cannot unpack `{path}`")]
    Unpack { path: PathBuf, source: io::Error },
}

/// Unpacks the texts and pictures of a zipped run folder; returns the temporary folder and the run folder in it.
///
/// Tensors stay packed: a report only needs to know that they exist, so each becomes an empty file.
pub(super) fn unpack(path: &Path) -> Result<(tempfile::TempDir, PathBuf), ZipError> {
    let home = tempfile::tempdir().map_err(|source| ZipError::Unpack { path: path.to_owned(), source })?;
    let folder = unpack_into(path, home.path(), false)?;
    Ok((home, folder))
}

/// Unpacks everything in a zipped run folder, tensors too, into the folder `home`; returns the run folder in it.
pub(super) fn unpack_whole(path: &Path, home: &Path) -> Result<PathBuf, ZipError> {
    fs::create_dir_all(home).map_err(|source| ZipError::Unpack { path: path.to_owned(), source })?;
    unpack_into(path, home, true)
}

fn unpack_into(path: &Path, home: &Path, with_tensors: bool) -> Result<PathBuf, ZipError> {
    let file = regular::open(path).map_err(|source| ZipError::Open { path: path.to_owned(), source })?;
    let archive = |source| ZipError::Archive { path: path.to_owned(), source };
    let unpacking = |source| ZipError::Unpack { path: path.to_owned(), source };
    let mut zip = ZipArchive::new(file).map_err(archive)?;
    let most = if with_tensors { MOST_WITH_TENSORS } else { MOST_BYTES };
    let too_large = || ZipError::TooLarge { path: path.to_owned(), most };
    if zip.len() > MOST_FILES {
        return Err(too_large());
    }
    let mut left = most;
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).map_err(archive)?;
        let Some(name) = entry.enclosed_name() else {
            let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
            return Err(ZipError::Outside { path: path.to_owned(), name });
        };
        let target = home.join(name);
        if entry.is_dir() {
            fs::create_dir_all(&target).map_err(unpacking)?;
            continue;
        }
        if !entry.is_file() {
            continue;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(unpacking)?;
        }
        let mut out = File::create(&target).map_err(unpacking)?;
        if !with_tensors && is_tensor(&target) {
            continue;
        }
        left =
            left.checked_sub(copy(&mut entry, &mut out, left).map_err(unpacking)?).ok_or_else(too_large)?;
    }
    run_folder(home).ok_or_else(|| ZipError::NoRun { path: path.to_owned() })
}

/// Copies at most one byte more than `most`, so that the caller sees an excess.
fn copy(from: &mut impl Read, to: &mut impl Write, most: u64) -> io::Result<u64> {
    io::copy(&mut from.take(most.saturating_add(1)), to)
}

fn is_tensor(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    matches!(extension.as_deref(), Some("npy" | "npz" | "safetensors"))
}

/// The folder that has `suites` or is a debug session: the top of the archive, or the one folder at its top.
fn run_folder(home: &Path) -> Option<PathBuf> {
    let is_run = |folder: &Path| folder.join("suites").is_dir() || is_debug_session(folder);
    if is_run(home) {
        return Some(home.to_owned());
    }
    let mut folders =
        fs::read_dir(home).ok()?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let only = folders.next()?;
    (folders.next().is_none() && is_run(&only)).then_some(only)
}
