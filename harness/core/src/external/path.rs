//! The path of external weights, as a spec writes it.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::error::ExternalError;

/// The longest path, before and after its variables are replaced.
const LONGEST: usize = 4_000;
/// How deep defaults of variables may contain variables.
const DEEPEST: usize = 4;
/// The ends of a path that can be read.
const ENDS: [&str; 2] = [".safetensors", ".index.json"];

/// An absolute path with variables (`${HF_HOME}`, or `${HF_HOME:-/default}`) and the wildcards `*` and `?`.
///
/// A variable stands for its value as it is: a wildcard in a value is an ordinary character. A variable that is not set, or
/// is empty, stands for its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ExternalPath {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable { name: String, default: Option<Vec<Self>> },
}

/// What is wrong with a path in a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathProblem {
    /// What was found.
    pub message: String,
    /// What is allowed.
    pub allowed: String,
}

/// A part of an expanded path, between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    /// The name of a folder or file.
    Name(String),
    /// A pattern of names.
    Pattern(String),
}

impl ExternalPath {
    /// Reads the path of a spec.
    ///
    /// # Errors
    /// When a variable is not closed or has no valid name, when the path is relative, has `..`, or does not end in
    /// `.safetensors` or `.index.json`.
    pub fn parse(text: &str) -> Result<Self, PathProblem> {
        let problem = |message: String, allowed: &str| PathProblem { message, allowed: allowed.to_owned() };
        if text.len() > LONGEST || text.chars().any(char::is_control) {
            let allowed = format!("expected at most {LONGEST} characters, without control characters");
            return Err(problem("the path is too long, or has control characters".to_owned(), &allowed));
        }
        if text.starts_with('~') {
            return Err(problem(
                "the path begins with `~`, which only shells replace".to_owned(),
                "write `${HOME}`",
            ));
        }
        if !text.starts_with(['/', '$']) {
            let allowed = "expected a path that begins with `/` or with a variable, as in \
                           `${HF_HOME}/hub/models--org--name/snapshots/*/*.safetensors`; files in the fixture folder are \
                           named with `file` or `shards`";
            return Err(problem("the path is relative".to_owned(), allowed));
        }
        let pieces = pieces(text, 0)?;
        if has_dots(text) {
            let allowed = "expected the path itself, without `.` or `..`";
            return Err(problem("the path has a part `.` or `..`".to_owned(), allowed));
        }
        if text.contains("**") {
            let allowed = "expected `*`, which stands for any characters but `/`";
            return Err(problem("the path has `**`".to_owned(), allowed));
        }
        let end = match pieces.last() {
            Some(Piece::Text(end)) => end.as_str(),
            _ => "",
        };
        if !ENDS.iter().any(|wanted| end.ends_with(wanted)) {
            let advice = crate::tensor::convert_advice(text);
            let allowed = format!("expected a path that ends in `.safetensors` or `.index.json`{advice}");
            return Err(problem("the path names no file that can be read".to_owned(), &allowed));
        }
        Ok(Self { text: text.to_owned(), pieces })
    }

    /// The path as the spec writes it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the path names an index file, which lists the shards.
    pub fn is_index(&self) -> bool {
        self.text.ends_with(".index.json")
    }

    /// Whether the path, or a default in it, has this variable.
    pub fn names_variable(&self, wanted: &str) -> bool {
        fn has(pieces: &[Piece], wanted: &str) -> bool {
            pieces.iter().any(|piece| match piece {
                Piece::Text(_) => false,
                Piece::Variable { name, default } => {
                    name == wanted || default.as_deref().is_some_and(|default| has(default, wanted))
                }
            })
        }
        has(&self.pieces, wanted)
    }

    /// Replaces the variables, and returns the parts of the absolute path.
    ///
    /// # Errors
    /// When a variable without a default is not set, or when the result is relative or has `..`.
    pub(super) fn expand(
        &self,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Vec<Segment>, ExternalError> {
        let mut letters = Vec::new();
        fill(&self.pieces, variable, &mut letters)?;
        let whole: String = letters.iter().map(|letter| letter.character).collect();
        let path = || whole.clone();
        if !whole.starts_with('/') {
            return Err(ExternalError::Relative { path: path() });
        }
        if has_dots(&whole) || whole.len() > LONGEST || whole.chars().any(char::is_control) {
            return Err(ExternalError::NotPlain { path: path() });
        }
        let parts = letters.split(|letter| letter.character == '/').filter(|part| !part.is_empty());
        parts
            .map(|part| {
                let name: String = part.iter().map(|letter| letter.character).collect();
                let has_wild = |is_from_spec: bool| {
                    part.iter()
                        .any(|one| matches!(one.character, '*' | '?') && one.is_from_spec == is_from_spec)
                };
                match (has_wild(true), has_wild(false)) {
                    (false, _) => Ok(Segment::Name(name)),
                    (true, false) => Ok(Segment::Pattern(name)),
                    (true, true) => Err(ExternalError::NotPlain { path: path() }),
                }
            })
            .collect()
    }
}

impl From<ExternalPath> for String {
    fn from(path: ExternalPath) -> Self {
        path.text
    }
}

impl TryFrom<String> for ExternalPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|problem| format!("{}: {}", problem.message, problem.allowed))
    }
}

/// A character of an expanded path.
#[derive(Debug, Clone, Copy)]
struct Letter {
    character: char,
    /// Whether the spec has it, so that `*` and `?` are wildcards. Values of variables have none.
    is_from_spec: bool,
}

fn fill(
    pieces: &[Piece],
    variable: &dyn Fn(&str) -> Option<OsString>,
    letters: &mut Vec<Letter>,
) -> Result<(), ExternalError> {
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                letters.extend(text.chars().map(|character| Letter { character, is_from_spec: true }));
            }
            Piece::Variable { name, default } => {
                match (variable(name).filter(|value| !value.is_empty()), default) {
                    (Some(value), _) => {
                        let value =
                            value.to_str().ok_or_else(|| ExternalError::NotText { name: name.clone() })?;
                        letters
                            .extend(value.chars().map(|character| Letter { character, is_from_spec: false }));
                    }
                    (None, Some(default)) => fill(default, variable, letters)?,
                    (None, None) => return Err(ExternalError::Unset { name: name.clone() }),
                }
            }
        }
    }
    Ok(())
}

fn has_dots(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "." | ".."))
}

/// Splits text into plain parts and variables.
fn pieces(text: &str, depth: usize) -> Result<Vec<Piece>, PathProblem> {
    const ALLOWED: &str = "expected `${NAME}` or `${NAME:-default}`";
    let problem = |message: String| PathProblem { message, allowed: ALLOWED.to_owned() };
    if depth > DEEPEST {
        return Err(problem("defaults contain one another too deeply".to_owned()));
    }
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            found.push(Piece::Text(rest[..at].to_owned()));
        }
        let inner = rest[at..].strip_prefix("${").ok_or_else(|| problem("found a single `$`".to_owned()))?;
        let close = closing(inner).ok_or_else(|| problem("found `${` without its `}`".to_owned()))?;
        let (name, default) = match inner[..close].split_once(":-") {
            Some((name, default)) => (name, Some(pieces(default, depth + 1)?)),
            None => (&inner[..close], None),
        };
        let is_name = (1..=100).contains(&name.len())
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(problem(format!("`{}` cannot be the name of a variable", name.escape_debug())));
        }
        found.push(Piece::Variable { name: name.to_owned(), default });
        rest = &inner[close + 1..];
    }
    if !rest.is_empty() {
        found.push(Piece::Text(rest.to_owned()));
    }
    Ok(found)
}

/// The position of the brace that closes the text before it.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open += 1,
            b'}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str, variables: &[(&str, &str)]) -> Result<Vec<Segment>, String> {
        let value = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(*value))
        };
        ExternalPath::parse(text).unwrap().expand(&value).map_err(|error| error.to_string())
    }

    fn names(parts: &[&str]) -> Vec<Segment> {
        let segment = |part: &&str| match part.contains('*') {
            true => Segment::Pattern((*part).to_owned()),
            false => Segment::Name((*part).to_owned()),
        };
        parts.iter().map(segment).collect()
    }

    #[test]
    fn variables_and_their_defaults_are_replaced() {
        let path = "${HF_HOME:-${HOME}/.cache/hf}/hub/*/m.safetensors";
        assert_eq!(
            expand(path, &[("HF_HOME", "/a//b/")]).unwrap(),
            names(&["a", "b", "hub", "*", "m.safetensors"])
        );
        let default = names(&["h", ".cache", "hf", "hub", "*", "m.safetensors"]);
        assert_eq!(expand(path, &[("HOME", "/h")]).unwrap(), default);
        assert_eq!(expand(path, &[("HF_HOME", ""), ("HOME", "/h")]).unwrap(), default);
        let unset = expand(path, &[]).unwrap_err();
        assert!(unset.contains("the variable HOME is not set"), "{unset}");
    }

    #[test]
    fn a_value_is_taken_as_it_is_and_cannot_leave_its_place() {
        let path = "${A}/*.safetensors";
        assert_eq!(
            expand(path, &[("A", "/we*ird/${B}")]).unwrap(),
            [
                Segment::Name("we*ird".to_owned()),
                Segment::Name("${B}".to_owned()),
                Segment::Pattern("*.safetensors".to_owned())
            ]
        );
        for value in ["/a/../b", "/a/..", "/a\n", "/."] {
            assert!(expand(path, &[("A", value)]).unwrap_err().contains("`..`"), "{value}");
        }
        assert!(expand(path, &[("A", "a/b")]).unwrap_err().contains("expected an absolute path"));
        assert!(expand("/${A}*.safetensors", &[("A", "x*")]).unwrap_err().contains("wildcard"));
    }

    #[test]
    fn what_no_spec_may_write_is_refused() {
        for (text, words) in [
            ("a.safetensors", "relative"),
            ("~/a.safetensors", "`~`"),
            ("/a/../b.safetensors", "`..`"),
            ("/a/**/b.safetensors", "`**`"),
            ("/a/b.bin", "names no file"),
            ("/a/b", "names no file"),
            ("${A}", "names no file"),
            ("$A/b.safetensors", "single `$`"),
            ("${A/b.safetensors", "without its `}`"),
            ("${}/b.safetensors", "name of a variable"),
            ("${1A}/b.safetensors", "name of a variable"),
            ("${A-B}/b.safetensors", "name of a variable"),
            ("/a\u{0}.safetensors", "control characters"),
        ] {
            let problem = ExternalPath::parse(text).unwrap_err();
            assert!(problem.message.contains(words), "{text}: {problem:?}");
        }
        let deep = "${A:-".repeat(2_000);
        assert!(ExternalPath::parse(&deep).is_err());
    }
}
