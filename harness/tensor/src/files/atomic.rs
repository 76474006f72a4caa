//! Writing a file completely or not at all.

use std::ffi::OsStr;
#[cfg(any(unix, test))]
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a temporary file beside `path` and renames it into place, so that no reader sees a part of it.
///
/// # Errors
///
/// When `fill` fails, or the file cannot be made, written or renamed. Then `path` is unchanged and the temporary file is
/// removed.
pub fn write_atomically(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".").suffix(".part");
    #[cfg(unix)]
    {
        // Temporary files are private by default. This one becomes an ordinary file, so the user's umask applies.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder)?;
    let mut buffered = BufWriter::new(file.as_file_mut());
    fill(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Whether `name` is that of a temporary file, which [`write_atomically`] leaves behind when its process is killed.
pub fn is_part(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".") && name.ends_with(b".part")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_what_was_there_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_atomically(&path, |out| out.write_all(b"first")).unwrap();
        let error = write_atomically(&path, |out| {
            out.write_all(b"sec")?;
            Err(io::Error::other("full"))
        });
        assert_eq!(error.unwrap_err().to_string(), "full");
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        write_atomically(&path, |out| out.write_all(b"second")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
    }
}
