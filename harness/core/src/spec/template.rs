//! Checkpoint names with `{axis}` in them.

use std::fmt::Write;
use std::ops::Range;

use super::decode::{At, Reader};
use super::problem::quoted;
use crate::text::suggest::did_you_mean;

/// A name in which a loop fills in the values of its axes.
#[derive(Debug, Clone)]
pub(super) struct NameTemplate {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Axis(usize),
}

/// A problem in a template, with its bytes in the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TemplateError {
    pub(super) at: Range<usize>,
    pub(super) message: String,
    pub(super) allowed: String,
}

impl NameTemplate {
    /// Reads `text`, in which `{name}` is one of `axes`.
    pub(super) fn parse(text: &str, axes: &[&str]) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(open) = text[at..].find(['{', '}']).map(|found| at + found) {
            if open > at {
                parts.push(Part::Text(text[at..open].to_owned()));
            }
            let close = text[open..].find('}').map(|found| open + found);
            let Some(close) = close.filter(|&close| close > open) else {
                return Err(TemplateError {
                    at: open..open + 1,
                    message: format!("unmatched brace in {}", quoted(text)),
                    allowed: "expected `{axis}`".to_owned(),
                });
            };
            let name = &text[open + 1..close];
            let axis = axes.iter().position(|axis| *axis == name).ok_or_else(|| TemplateError {
                at: open..close + 1,
                message: format!("unknown axis {}{}", quoted(name), did_you_mean(name, axes.iter().copied())),
                allowed: if axes.is_empty() {
                    "expected a `for` that declares it".to_owned()
                } else {
                    let names: Vec<String> = axes.iter().map(|axis| format!("`{{{axis}}}`")).collect();
                    format!("expected {}", names.join(" or "))
                },
            })?;
            parts.push(Part::Axis(axis));
            at = close + 1;
        }
        if at < text.len() {
            parts.push(Part::Text(text[at..].to_owned()));
        }
        Ok(Self { parts })
    }

    /// Whether the name contains the axis.
    pub(super) fn uses(&self, axis: usize) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Axis(at) if *at == axis))
    }

    /// The name for these values of the axes.
    pub(super) fn fill(&self, values: &[i64]) -> String {
        let mut name = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Axis(axis) => {
                    let value = values.get(*axis).copied().unwrap_or_default();
                    // Writing to a String cannot fail.
                    let _ = write!(name, "{value}");
                }
            }
        }
        name
    }
}

/// Reads a name at its place; `None` after reporting a problem.
pub(super) fn template(at: &At<String>, axes: &[&str], reader: &mut Reader<'_>) -> Option<At<NameTemplate>> {
    match NameTemplate::parse(&at.value, axes) {
        Ok(value) => Some(At { value, place: at.place.clone() }),
        Err(error) => {
            let place = reader.within(&at.place, &at.value, error.at);
            reader.problem(&place, error.message, error.allowed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_filled_in_where_they_stand() {
        let template = NameTemplate::parse("{b}.x{a}.{b}", &["a", "b"]).unwrap();
        assert_eq!(template.fill(&[3, -1]), "-1.x3.-1");
        assert!(template.uses(0) && template.uses(1) && !template.uses(2));
        assert_eq!(NameTemplate::parse("plain", &[]).unwrap().fill(&[]), "plain");
    }

    #[test]
    fn what_is_wrong_is_pointed_at() {
        let check = |text: &str, at: Range<usize>, message: &str| {
            let error = NameTemplate::parse(text, &["step", "t"]).unwrap_err();
            assert_eq!((error.at, error.message.as_str()), (at, message));
        };
        check("x{", 1..2, "unmatched brace in `x{`");
        check("x}{t}", 1..2, "unmatched brace in `x}{t}`");
        check("x{stpe}", 1..7, "unknown axis `stpe`, did you mean `step`?");
        check("é{u}", 2..5, "unknown axis `u`");
        check("x{}", 1..3, "unknown axis ``");
    }
}
