//! Results go to standard output, notes to standard error.

/// Writes a result to standard output.
pub(crate) fn say(text: &str) {
    print!("{text}");
}
