//! Printing: text from files, names and settings can neither control the terminal nor imitate our own lines.
//!
//! This module replaces `print!`, `println!`, `eprint!` and `eprintln!` in all our crates. They print control
//! characters, and characters that reorder or hide text, as escapes such as `\u{1b}`. Line ends pass, because most texts
//! have several lines. Names and paths, which fill one line at most, also go through [`clean`], which escapes line ends.
//!
//! Only [`paint`] and [`coloured`] make colours. They write a mark that is random per process, and printing turns the
//! mark into the terminal's escape. An escape in a file, or the mark of another process, therefore has no effect.
//!
//! Painted text can always be printed: where colours are not wanted, `anstream` removes them. It decides per stream, by
//! `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, `TERM`, and whether the stream is a terminal; [`set_colours`] overrules all of
//! these.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::LazyLock;

/// Prints to standard output. A reader that stops early, such as `head`, is not an error.
#[macro_export]
macro_rules! print {
    ($($arguments:tt)*) => { $crate::text::printable::to_stdout(format_args!($($arguments)*), "") };
}
/// Prints a line to standard output.
#[macro_export]
macro_rules! println {
    ($($arguments:tt)*) => { $crate::text::printable::to_stdout(format_args!($($arguments)*), "\n") };
}
/// Prints to standard error.
#[macro_export]
macro_rules! eprint {
    ($($arguments:tt)*) => { $crate::text::printable::to_stderr(format_args!($($arguments)*), "") };
}
/// Prints a line to standard error.
#[macro_export]
macro_rules! eprintln {
    ($($arguments:tt)*) => { $crate::text::printable::to_stderr(format_args!($($arguments)*), "\n") };
}

/// What [`print!`](crate::print) and [`println!`](crate::println) expand to.
pub fn to_stdout(text: fmt::Arguments<'_>, end: &str) {
    let _ = anstream::stdout().write_all((printed(&text.to_string()) + end).as_bytes());
}

/// What [`eprint!`](crate::eprint) and [`eprintln!`](crate::eprintln) expand to.
pub fn to_stderr(text: fmt::Arguments<'_>, end: &str) {
    let _ = anstream::stderr().write_all((printed(&text.to_string()) + end).as_bytes());
}

/// Prints with colours from now on, or without any, whatever the environment and the terminal say.
pub fn set_colours(wanted: bool) {
    let choice = if wanted { anstream::ColorChoice::Always } else { anstream::ColorChoice::Never };
    choice.write_global();
}

/// `text` as one line: characters that could control a terminal, end a line, or reorder or hide text become escapes.
pub fn clean(text: &str) -> Cow<'_, str> {
    escaped(text, is_unsafe)
}

/// `text` as several lines: as [`clean`], but line ends and tabs stay.
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unsafe(c) && !matches!(c, '\n' | '\t'))
}

/// JSON in which unsafe characters are JSON escapes, so that printing does not add escapes that JSON lacks.
pub fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) && c != '\n' {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| shown += &format!("\\u{unit:04x}"));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Text below a label: as [`clean_lines`], with every line but the first indented by `spaces`, so that none of them can
/// imitate one of our own lines.
pub fn indented(text: &str, spaces: usize) -> String {
    clean_lines(text).replace('\n', &format!("\n{:spaces$}", ""))
}

/// `text` as one line in a colour, by the number of the terminal's own codes (`31`, `1;31`); plain without `colour`.
pub fn paint(colour: bool, code: &str, text: &str) -> String {
    let text = clean(text);
    if colour { format!("{}{code}m{text}{}0m", *MARK, *MARK) } else { text.into_owned() }
}

/// Text that a library has coloured, of parts that were clean, made ready for printing.
pub fn coloured(text: &str) -> String {
    text.replace("\x1b[", &MARK)
}

/// What stands for the beginning of a terminal's escape until it is printed.
static MARK: LazyLock<String> =
    LazyLock::new(|| format!("\u{1}{:016x}[", RandomState::new().hash_one("mark")));

fn printed(text: &str) -> String {
    let parts: Vec<Cow<'_, str>> = text.split(MARK.as_str()).map(clean_lines).collect();
    parts.join("\x1b[")
}

fn escaped(text: &str, escape: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&escape) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !escape(c) => shown.push(c),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c => shown.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(shown)
}

/// Control characters (C0, DEL, C1), separators of lines, marks of direction, what has no width, tags, and the two
/// characters that no text has, which XML refuses.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_drives_a_terminal_is_left() {
        let hostile = "a\x1b[2J\x07b\u{9b}31m\r\u{7f}\u{202e}\u{2066}\u{feff}\u{fffe}\u{e0041}";
        let shown = clean_lines(hostile);
        assert_eq!(
            shown,
            "a\\u{1b}[2J\\u{7}b\\u{9b}31m\\r\\u{7f}\\u{202e}\\u{2066}\\u{feff}\\u{fffe}\\u{e0041}"
        );
        assert_eq!(clean("x\n9 agree, 0 differ\ty"), "x\\n9 agree, 0 differ\\ty");
        assert_eq!(indented("x\n9 agree", 4), "x\n    9 agree");
        assert_eq!(clean("Größe · 漢字 👩‍💻"), "Größe · 漢字 👩‍💻", "other scripts stay");
    }

    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({"a\u{7f}": "\u{202e}\u{e0041}\u{9b}\n\u{1b}ü"});
        let text = json(&format!("{value:#}"));
        assert_eq!(printed(&text), text);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn only_our_own_colours_reach_the_terminal() {
        let line = format!("{} \x1b[32mforged\x1b[0m", paint(true, "31", "red\x1b[0m\n"));
        assert_eq!(printed(&line), "\x1b[31mred\\u{1b}[0m\\n\x1b[0m \\u{1b}[32mforged\\u{1b}[0m");
        assert_eq!(paint(false, "31", "a\nb"), "a\\nb");
        assert_eq!(printed(&coloured("\x1b[1merror\x1b[0m")), "\x1b[1merror\x1b[0m");
        let guessed = format!("\u{1}{:016x}[31m", 0);
        assert!(!printed(&guessed).contains('\x1b'));
    }
}
