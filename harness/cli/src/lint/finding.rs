//! A finding of lint about a file or a line of it, and how it is printed.

use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use mlx_parity_core::files::regular;
use mlx_parity_core::text::printable::clean;

/// Names that are written out before the rest is counted.
const SHOWN: usize = 3;

/// A finding about a file, or a line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) is_error: bool,
    /// What was found, as a lowercase fragment.
    pub(super) message: String,
    pub(super) path: PathBuf,
    /// Counted from 1; none if the finding is about the whole file.
    pub(super) line: Option<usize>,
    /// Further facts.
    pub(super) notes: Vec<String>,
    /// What to do.
    pub(super) help: Option<String>,
}

impl Finding {
    /// The finding with its line, with ANSI colours or plain.
    pub(super) fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let path = clean(&self.path.display().to_string()).into_owned();
        let (message, help) = (clean(&self.message), self.help.as_deref().map(clean));
        let notes: Vec<_> = self.notes.iter().map(|note| clean(note)).collect();
        let level = if self.is_error { Level::ERROR } else { Level::WARNING };
        let source = self.line.and_then(|line| Some((line, line_of(&self.path, line)?)));
        let mut group = Group::with_title(level.primary_title(&*message));
        group = match &source {
            Some((line, text)) => {
                let start = text.len() - text.trim_start().len();
                let annotation = AnnotationKind::Primary.span(start..text.trim_end().len());
                let snippet = Snippet::source(text.as_str()).line_start(*line).annotation(annotation);
                group.element(snippet.path(path.as_str()))
            }
            None => group.element(Origin::path(path.as_str())),
        };
        for note in &notes {
            group = group.element(Level::NOTE.message(&**note));
        }
        if let Some(help) = &help {
            group = group.element(Level::HELP.message(&**help));
        }
        renderer.render(&[group])
    }
}

/// That line of a file, from 1, if there is one with anything on it. Control characters become spaces.
fn line_of(path: &Path, line: usize) -> Option<String> {
    let text = regular::read_text(path, regular::TEXT).ok()?;
    let line = text.lines().nth(line.checked_sub(1)?)?;
    let shown: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    (!shown.trim().is_empty()).then_some(shown)
}

/// `` `a`, `b`, `c` and 4 others ``.
pub(super) fn some_of(names: &[impl AsRef<str>]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", name.as_ref())).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {}", shown.join(", "), mlx_parity_core::spec::list::counted(more, "other")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_shows_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, "one\n  - {name: x}\n").unwrap();
        let finding = Finding {
            is_error: false,
            message: "too loose".to_owned(),
            path,
            line: Some(2),
            notes: vec!["more".to_owned()],
            help: Some("tighten it".to_owned()),
        };
        let text = finding.render(false).replace(&folder.path().display().to_string(), "ROOT");
        let expected = "\
warning: too loose
 --> ROOT/a.yaml:2:3
  |
2 |   - {name: x}
  |   ^^^^^^^^^^^
  |
  = note: more
  = help: tighten it";
        assert_eq!(text, expected);
        let whole = Finding { line: None, is_error: true, notes: Vec::new(), help: None, ..finding };
        assert!(whole.render(false).starts_with("error: too loose\n"), "{}", whole.render(false));
    }

    #[test]
    fn many_names_are_counted() {
        assert_eq!(some_of(&["a"]), "`a`");
        assert_eq!(some_of(&["a", "b", "c", "d"]), "`a`, `b`, `c` and 1 other");
    }
}
