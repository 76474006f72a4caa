//! Hashes as text.

use sha2::{Digest, Sha256};

/// The SHA-256 of all parts together, in lowercase hexadecimal digits.
pub fn sha256(parts: &[&[u8]]) -> String {
    let hash = parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part));
    hex(&hash.finalize())
}

/// Bytes as lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether `text` is a SHA-256 in lowercase hexadecimal digits.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
