//! Packs a run folder into one zip file, which `report` reads on any machine.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;
use walkdir::WalkDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use mlx_parity_core::files::atomic::write_atomically;

/// Why a run cannot be packed.
#[derive(Debug, Error)]
pub(crate) enum PackError {
    #[error("cannot pack `{run}` into `{file}`")]
    Pack { run: PathBuf, file: PathBuf, source: io::Error },
    #[error("`{file}` does not end in `.zip`")]
    Name { file: PathBuf },
}

/// Writes the run in `folder` to the zip file `file`, below a folder with the name of the run. An older file is replaced.
///
/// Locks and temporary files stay out. Links are left out too: nothing in a run folder is one.
pub(crate) fn pack(folder: &Path, file: &Path) -> Result<(), PackError> {
    if file.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("zip")) {
        return Err(PackError::Name { file: file.to_owned() });
    }
    let failed = |source| PackError::Pack { run: folder.to_owned(), file: file.to_owned(), source };
    let name = folder.canonicalize().map_err(failed)?;
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    write_atomically(file, |out| {
        let mut zip = ZipWriter::new_stream(out);
        for entry in WalkDir::new(folder).sort_by_file_name() {
            let entry = entry?;
            let inside = entry.path().strip_prefix(folder).map_err(io::Error::other)?;
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            if !entry.file_type().is_file() || is_hidden || entry.file_name() == "lock" {
                continue;
            }
            let path = format!("{name}/{}", inside.display());
            // A tensor above 4 GiB needs the larger headers.
            let options =
                SimpleFileOptions::default().large_file(entry.metadata()?.len() > u64::from(u32::MAX));
            zip.start_file(path, options)?;
            io::copy(&mut File::open(entry.path())?, &mut zip)?;
        }
        zip.finish()?.flush()
    })
    .map_err(failed)
}
