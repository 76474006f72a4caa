//! Comparing two files byte by byte.

use std::io::{BufRead, BufReader};
use std::path::Path;

use mlx_parity_core::files::regular;

/// Whether two files have the same bytes; they may be larger than memory.
pub(super) fn same_bytes(left: &Path, right: &Path) -> bool {
    let open = |path| regular::open(path).map(|file| BufReader::with_capacity(1 << 20, file));
    let (Ok(mut left), Ok(mut right)) = (open(left), open(right)) else { return false };
    loop {
        let (Ok(ours), Ok(theirs)) = (left.fill_buf(), right.fill_buf()) else { return false };
        let length = ours.len().min(theirs.len());
        if length == 0 {
            return ours.is_empty() && theirs.is_empty();
        }
        if ours[..length] != theirs[..length] {
            return false;
        }
        left.consume(length);
        right.consume(length);
    }
}
