//! An error with its causes on one line.

use std::error::Error;

/// The error and its causes on one line, outermost first, joined by `: `.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // A transparent wrapper has the message of its cause, which must not appear twice.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
