//! Errors of expressions, with the place in the text.

use std::fmt;
use std::ops::Range;

use crate::text::printable::clean;

/// What is wrong with an expression, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalculateError {
    /// What was found, as a lowercase fragment.
    pub message: String,
    /// What is allowed, or what to do; may be empty.
    pub allowed: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The line of the text, and how many of its characters are marked.
    source: (String, usize),
}

/// Characters of a long line that are shown on each side of the marked place.
const SIDE: usize = 60;

impl CalculateError {
    /// An error at these bytes of `text`.
    pub(super) fn at(text: &str, fault: Mistake) -> Self {
        let start = floor_boundary(text, fault.at.start);
        let end = floor_boundary(text, fault.at.end.max(start));
        let line_start = text[..start].rfind('\n').map_or(0, |end| end + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |end| start + end);
        let marked = text[start..end.min(line_end).max(start)].chars().count().max(1);
        Self {
            message: fault.message,
            allowed: fault.allowed,
            line: 1 + text[..line_start].matches('\n').count(),
            column: 1 + text[line_start..start].chars().count(),
            source: (text[line_start..line_end].to_owned(), marked),
        }
    }
}

impl std::error::Error for CalculateError {}

/// Prints the message, the line, and marks below the place.
impl fmt::Display for CalculateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        let (line, marked) = &self.source;
        let before = self.column - 1;
        let skipped = before.saturating_sub(SIDE);
        let shown: String = line.chars().skip(skipped).take(before - skipped + SIDE).collect();
        // A character that is escaped takes more columns, so the marks are counted in shown characters.
        let indent: usize = shown.chars().take(before - skipped).map(|c| width(&c.to_string())).sum();
        let wide: usize =
            shown.chars().skip(before - skipped).take(*marked).map(|c| width(&c.to_string())).sum();
        let number = self.line.to_string();
        let dots = if skipped > 0 { "…" } else { "" };
        let shift = indent + dots.chars().count();
        let place = format!("column {}", self.column);
        write!(f, "\n{number} | {dots}{}", clean(&shown))?;
        write!(
            f,
            "\n{:width$} | {:shift$}{} {place}",
            "",
            "",
            "^".repeat(wide.max(1)),
            width = number.len()
        )?;
        if !self.allowed.is_empty() {
            write!(f, "\nallowed: {}", clean(&self.allowed))?;
        }
        Ok(())
    }
}

fn width(text: &str) -> usize {
    clean(text).chars().count()
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A problem at a range of bytes of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) at: Range<usize>,
    pub(super) message: String,
    pub(super) allowed: String,
}

impl Mistake {
    pub(super) fn new(at: &Range<usize>, message: impl Into<String>) -> Self {
        Self { at: at.clone(), message: message.into(), allowed: String::new() }
    }

    pub(super) fn allowed(self, allowed: impl Into<String>) -> Self {
        Self { allowed: allowed.into(), ..self }
    }
}
