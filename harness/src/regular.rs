//! Opening a file that somebody else chose: a regular one or nothing.
//!
//! A pipe under the name of a golden would block until somebody writes to it, and `/dev/zero` never ends. Links to regular
//! files are fine: the cache of Hugging Face consists of them.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Bytes of a text that people or our own commands write: manifests, records, snapshots, scripts.
pub(crate) const TEXT: u64 = 64 << 20;

/// Bytes of what a run wrote line by line, with a line of about a kilobyte per hit of a tap.
pub(crate) const RECORDS: u64 = 4 << 30;

/// Opens a regular file, or what a link says is one, for reading. Anything else is an error that names its kind, at once:
/// nothing blocks.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Looked at before it is opened, since opening alone can make a device do something, and again once it is open, since
    // another file can take the name in between.
    check(fs::metadata(path)?.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        // A pipe that took the name just now must not hold us; on regular files the flag does nothing.
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    }
    let file = options.open(path)?;
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// The bytes of a regular file that has at most `limit` of them.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("it has more than {limit} bytes, which is more than such a file can need");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// [`read`] of a text in UTF-8.
pub(crate) fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

fn check(found: FileType) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let kind = if found.is_dir() { io::ErrorKind::IsADirectory } else { io::ErrorKind::InvalidInput };
    Err(io::Error::new(kind, format!("it is {}, expected a regular file", name(found))))
}

#[cfg(unix)]
fn name(found: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match found {
        _ if found.is_dir() => "a folder",
        _ if found.is_fifo() => "a named pipe",
        _ if found.is_socket() => "a socket",
        _ if found.is_char_device() || found.is_block_device() => "a device",
        _ => "something else",
    }
}

#[cfg(not(unix))]
fn name(found: FileType) -> &'static str {
    if found.is_dir() { "a folder" } else { "something else" }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[track_caller]
    fn refused(path: &Path, words: &str) {
        let error = read(path, 10).unwrap_err();
        assert_eq!(error.to_string(), words);
    }

    #[test]
    fn only_regular_files_and_links_to_them_are_opened() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::write(at("file"), "0123456789").unwrap();
        symlink(at("file"), at("link")).unwrap();
        assert_eq!(read_text(&at("file"), 10).unwrap(), "0123456789");
        assert_eq!(read(&at("link"), 10).unwrap(), b"0123456789");
        refused(home.path(), "it is a folder, expected a regular file");
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
        assert!(made.success());
        refused(&at("pipe"), "it is a named pipe, expected a regular file");
        symlink(at("pipe"), at("to-pipe")).unwrap();
        refused(&at("to-pipe"), "it is a named pipe, expected a regular file");
        symlink("/dev/zero", at("zero")).unwrap();
        refused(&at("zero"), "it is a device, expected a regular file");
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        refused(&at("socket"), "it is a socket, expected a regular file");
        assert_eq!(read(&at("none"), 10).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_text_that_is_too_long_or_no_text_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        fs::write(&path, "0123456789a").unwrap();
        assert!(read(&path, 10).unwrap_err().to_string().starts_with("it has more than 10 bytes"));
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 10).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
