//! The lines of a script from a pipe.

use std::io::{BufRead, Read};

/// The most bytes of a line with its end. No command is longer.
const MOST_BYTES: usize = 64 << 10;
/// What some editors write at the start of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns the lines of a script without their ends, or why a line cannot be read, which ends the script.
pub(super) fn lines(mut input: impl BufRead) -> impl Iterator<Item = Result<String, String>> {
    let mut is_first = true;
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        match input.by_ref().take(MOST_BYTES as u64 + 1).read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) if line.len() > MOST_BYTES => {
                return Some(Err(format!("has more than {MOST_BYTES} bytes")));
            }
            Ok(_) => {}
            Err(error) => return Some(Err(format!("cannot be read: {error}"))),
        }
        let Ok(line) = String::from_utf8(line) else { return Some(Err("is no UTF-8 text".to_owned())) };
        let line = line.trim_end_matches(['\r', '\n']);
        let is_start = std::mem::take(&mut is_first);
        Some(Ok(line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_start).unwrap_or(line).to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], expected: &[Result<&str, &str>]) {
        let found: Vec<Result<String, String>> = lines(text).collect();
        let found: Vec<Result<&str, &str>> =
            found.iter().map(|line| line.as_deref().map_err(String::as_str)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn scripts_of_every_system_and_editor_are_read() {
        check(b"next\n\nlocation", &[Ok("next"), Ok(""), Ok("location")]);
        check("\u{feff}next\r\nnote ü\r\n".as_bytes(), &[Ok("next"), Ok("note ü")]);
        check(b"note \xff\nnext\n", &[Err("is no UTF-8 text"), Ok("next")]);
    }

    #[test]
    fn a_line_without_an_end_is_not_read_into_memory() {
        let mut found = lines(std::io::BufReader::new(std::io::repeat(b'x')));
        assert_eq!(found.next(), Some(Err("has more than 65536 bytes".to_owned())));
    }
}
