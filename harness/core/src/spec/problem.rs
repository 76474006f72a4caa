//! Problems in a spec file: what, where, and how they are shown.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::text::printable::clean;

/// The most problems of one file that are shown; the rest are counted.
const SHOWN: usize = 20;

/// Bytes past which a line is cut.
const LONG_LINE: usize = 2_000;

/// Bytes of a cut line that are shown on each side of the problem.
const LINE_SIDE: usize = 160;

/// A range of bytes in a file, with the line and column where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpan {
    /// In bytes from the start of the file.
    pub bytes: Range<usize>,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// One problem in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What was found, as a lowercase fragment.
    pub message: String,
    /// The place; `None` for a problem of the whole file.
    pub place: Option<SourceSpan>,
    /// What is allowed there, shown beside the marked text; may be empty.
    pub allowed: String,
    /// Other places that play a part, each with a label.
    pub related: Vec<(SourceSpan, String)>,
}

impl Problem {
    pub(super) fn new(place: &SourceSpan, message: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            place: Some(place.clone()),
            allowed: allowed.into(),
            related: Vec::new(),
        }
    }

    pub(super) fn whole(message: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { message: message.into(), place: None, allowed: allowed.into(), related: Vec::new() }
    }

    pub(super) fn related(mut self, place: &SourceSpan, what: impl Into<String>) -> Self {
        self.related.push((place.clone(), what.into()));
        self
    }
}

/// `line:column: what was found: what is allowed`, in one line.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{}:{}: ", place.line, place.column)?;
        }
        f.write_str(&self.message)?;
        if !self.allowed.is_empty() {
            // A message that ends in `did you mean …?` is a sentence of its own.
            let joint = if self.message.ends_with('?') { " " } else { ": " };
            write!(f, "{joint}{}", self.allowed)?;
        }
        for (place, what) in &self.related {
            write!(f, " ({}:{}: {what})", place.line, place.column)?;
        }
        Ok(())
    }
}

/// A file that cannot be used, with all its problems.
///
/// `Display` shows each problem with its line and a marker, without colour; [`SpecError::render`] can add colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The id of the spec, or `policies`.
    pub id: String,
    /// The path of the file.
    pub path: PathBuf,
    /// The problems, in the order of the file; never empty.
    pub problems: Vec<Problem>,
    /// The text of the file, or empty when it was not read.
    pub(super) source: String,
}

impl std::error::Error for SpecError {}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl SpecError {
    pub(super) fn whole(id: &str, path: PathBuf, message: String, allowed: &str) -> Self {
        let problems = vec![Problem::whole(message, allowed)];
        // The id becomes the name of a trial, but may be a file name that was refused for its characters.
        Self { id: clean(id).into_owned(), path, problems, source: String::new() }
    }

    /// The first 20 problems with their lines, with ANSI colours or plain.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let path = clean(&self.path.display().to_string()).into_owned();
        let mut report: Vec<Group<'_>> =
            self.problems.iter().take(SHOWN).map(|problem| self.group(problem, &path)).collect();
        let hidden = self.problems.len().saturating_sub(SHOWN);
        if hidden > 0 {
            let text =
                format!("{hidden} more {} in `{path}`", if hidden == 1 { "problem" } else { "problems" });
            report.push(Group::with_title(Level::NOTE.secondary_title(text)));
        }
        // One report per problem: annotate-snippets shows further groups as children of the first.
        let parts: Vec<String> = report.into_iter().map(|group| renderer.render(&[group])).collect();
        parts.join("\n\n")
    }

    fn group<'a>(&'a self, problem: &'a Problem, path: &'a str) -> Group<'a> {
        let group = Group::with_title(Level::ERROR.primary_title(clean(&problem.message).into_owned()));
        let Some(place) = &problem.place else {
            let group = group.element(Origin::path(path));
            let allowed = clean(&problem.allowed).into_owned();
            return if allowed.is_empty() { group } else { group.element(Level::HELP.message(allowed)) };
        };
        let mut group = self.show(group, path, place, AnnotationKind::Primary, &problem.allowed);
        for (place, what) in &problem.related {
            group = self.show(group, path, place, AnnotationKind::Context, what);
        }
        group
    }

    /// Adds the line of `place`, cut on both sides when it is very long.
    fn show<'a>(
        &'a self,
        group: Group<'a>,
        path: &'a str,
        place: &SourceSpan,
        kind: AnnotationKind,
        label: &str,
    ) -> Group<'a> {
        let source = &self.source;
        let start = floor_boundary(source, place.bytes.start);
        let end = floor_boundary(source, place.bytes.end).max(start);
        let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = source[start..].find(['\n', '\r']).map_or(source.len(), |at| start + at);
        let cut = line_end - line_start > LONG_LINE;
        let (from, to) = if cut {
            let from = floor_boundary(source, start.saturating_sub(LINE_SIDE)).max(line_start);
            (from, floor_boundary(source, start.saturating_add(LINE_SIDE)).clamp(start, line_end))
        } else {
            (line_start, line_end)
        };
        let mut annotation = kind.span(start - from..end.min(to) - from);
        if !label.is_empty() {
            annotation = annotation.label(clean(label).into_owned());
        }
        let snippet = Snippet::source(&source[from..to]).line_start(place.line).annotation(annotation);
        if cut {
            // The snippet would count its column from where the line was cut.
            let origin = Origin::path(path).line(place.line).char_column(place.column);
            group.element(origin).element(snippet)
        } else {
            group.element(snippet.path(path))
        }
    }
}

/// `text` in backticks for a message: short, on one line, without control characters.
pub(super) fn quoted(text: &str) -> String {
    const MAX: usize = 60;
    let mut shown = clean(&text.chars().take(MAX).collect::<String>()).into_owned();
    if text.chars().nth(MAX).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
