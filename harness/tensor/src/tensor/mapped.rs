//! Mapping files into memory.

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps a whole file for reading.
///
/// The file must not be truncated or rewritten in place while it is mapped. All our own writers rename a finished file
/// into place, which leaves older maps unchanged.
#[expect(
    unsafe_code,
    reason = "mapping is the only way to compare goldens larger than memory without a copy"
)]
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is private to this process and read-only. Its bytes are only read as plain numbers or as text that
    // is checked, so no content can break a type's invariant. Another process could still truncate the file; the
    // contract above excludes that, as for every reader of mapped files.
    unsafe { Mmap::map(file) }
}
