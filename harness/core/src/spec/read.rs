//! Reading the text of a spec or policy file, up to the limit.

use std::io::{ErrorKind, Read};
use std::path::Path;

use super::bounds;
use super::problem::Problem;
use super::yaml::place_at;
use crate::files::regular;

/// Why a file has no usable text.
pub(super) enum ReadError {
    /// The file does not exist.
    Missing,
    /// It cannot be read or is not UTF-8. The text before the bad byte is there to show the problem in.
    Bad(Box<Problem>, String),
}

/// The text of a regular file.
pub(super) fn read_text(path: &Path) -> Result<String, ReadError> {
    let bad = |message: String, allowed: &str| {
        ReadError::Bad(Box::new(Problem::whole(message, allowed)), String::new())
    };
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => ReadError::Missing,
        _ => bad(format!("the file cannot be read: {error}"), ""),
    };
    let mut bytes = Vec::new();
    let limit = bounds::FILE_BYTES as u64 + 1;
    regular::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() > bounds::FILE_BYTES {
        let message = format!("the file has more than {} bytes", bounds::FILE_BYTES);
        return Err(bad(message, "split the spec, or write repeated checkpoints as `for` loops"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let byte = error.as_bytes().get(at).copied().unwrap_or_default();
        let source = String::from_utf8_lossy(error.as_bytes().get(..at).unwrap_or_default()).into_owned();
        let place = place_at(&source, at, 0);
        let message = format!("byte 0x{byte:02x} is not UTF-8");
        ReadError::Bad(Box::new(Problem::new(&place, message, "save the file as UTF-8")), source)
    })
}
