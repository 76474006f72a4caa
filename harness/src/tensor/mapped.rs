//! The one place where a file becomes memory.

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps a whole file for reading.
///
/// The file must not be cut or rewritten in place while it is mapped. Everything here that writes a tensor file or a
/// fixture set puts a finished file in its place by renaming, which leaves an older map as it was.
#[expect(
    unsafe_code,
    reason = "mapping is the only way to compare goldens larger than memory without a copy"
)]
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is private to this process and read-only, and its bytes are never taken for anything but plain
    // numbers or text that is checked, so no content can break a type's invariant. What remains is another process
    // that shortens the file meanwhile; the contract above excludes it, as for every reader of mapped files.
    unsafe { Mmap::map(file) }
}
