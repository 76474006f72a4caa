//! Opening files from outside: only regular ones.
//!
//! A pipe with the name of a golden would block until something writes to it, and `/dev/zero` never ends. Links to
//! regular files are fine: the cache of Hugging Face consists of them.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a text that people or our own commands write: a manifest, a snapshot, a script.
pub const TEXT: u64 = 64 << 20;

/// The most bytes of a run's records: one line of about a kilobyte per hit of a tap.
pub const RECORDS: u64 = 4 << 30;

/// Opens a regular file, or a link to one, for reading. It never blocks.
///
/// # Errors
///
/// When the file cannot be opened or is not regular; the message names its kind.
pub fn open(path: &Path) -> io::Result<File> {
    // Checked before it is opened, because opening alone can make a device act, and again once it is open, because a
    // different file can take the name in between.
    check(fs::metadata(path)?.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        // Opening must not block on a pipe that just took the name. On regular files the flag has no effect.
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    }
    let file = options.open(path)?;
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// The bytes of a regular file.
///
/// # Errors
///
/// As [`open`], and when the file has more than `limit` bytes.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("it has more than {limit} bytes, the limit for such files");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// The text of a regular UTF-8 file.
///
/// # Errors
///
/// As [`read`], and when the bytes are not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
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
