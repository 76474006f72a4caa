//! What a command said, and how it ended.

use std::process::Output;

/// The manifest of a package whose suite Cargo runs as it must; `tests/parity.rs` has to lie beside it.
#[allow(dead_code, reason = "each test binary uses a part of this")]
pub(crate) const CARGO_TOML: &str = "[package]\nname = \"p\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[[test]]\nname = \"parity\"\nharness = false\n\n[workspace]\n";

/// Expects the exit code and these words, and answers all that was said.
#[track_caller]
pub(crate) fn check(output: Output, code: i32, words: &[&str]) -> String {
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "does not say `{word}`:\n{said}");
    }
    said
}
