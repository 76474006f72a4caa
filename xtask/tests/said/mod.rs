//! What a command said, and how it ended.

use std::process::Output;

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
