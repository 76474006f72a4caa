//! From YAML nodes to the types of the grammar. Every problem on the way is collected.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::bounds;
use super::problem::{Problem, SourceSpan, quoted};
use super::yaml::{Node, YamlValue};
use crate::text::suggest::did_you_mean;

/// Collects the problems of one file.
pub(super) struct Reader<'s> {
    pub(super) source: &'s str,
    pub(super) problems: Vec<Problem>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, problems: Vec::new() }
    }

    pub(super) fn problem(
        &mut self,
        place: &SourceSpan,
        message: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.problems.push(Problem::new(place, message, allowed));
    }

    /// Reports that `node` is not what is wanted.
    pub(super) fn wanted(&mut self, node: &Node, wanted: &str) {
        self.problem(&node.place, format!("found {}", node.value.describe()), format!("expected {wanted}"));
    }

    /// Whether the scalar at `place` is written in digits alone.
    pub(super) fn is_digits(&self, place: &SourceSpan) -> bool {
        let written = self.source.get(place.bytes.clone()).unwrap_or("");
        let digits = written.trim_start_matches(['-', '+']);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    }

    /// The place of the bytes `part` of `text`, which is the text of the scalar at `place`. With escapes or folded lines
    /// the file differs from the text, and the place is that of the whole scalar.
    pub(super) fn within(&self, place: &SourceSpan, text: &str, part: std::ops::Range<usize>) -> SourceSpan {
        let written = self.source.get(place.bytes.clone()).unwrap_or("");
        match (written.find(text), text.get(..part.start)) {
            (Some(at), Some(before)) => SourceSpan {
                bytes: place.bytes.start + at + part.start..place.bytes.start + at + part.end,
                line: place.line,
                column: place.column + written[..at].chars().count() + before.chars().count(),
            },
            _ => place.clone(),
        }
    }

    /// The problems in the order of the file, each once.
    pub(super) fn sorted(self) -> Vec<Problem> {
        let mut problems = self.problems;
        problems.sort_by_key(|problem| problem.place.as_ref().map_or(0, |place| place.bytes.start));
        problems.dedup();
        problems
    }
}

/// A type that is read from a YAML node.
pub(super) trait Decode: Sized {
    /// The value, or `None` after reporting the problem.
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self>;
}

/// A value with its place.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: SourceSpan,
}

/// The value of a key.
#[derive(Debug, Clone, Default)]
pub(super) enum Maybe<T> {
    /// The key is absent.
    #[default]
    Absent,
    /// The value is wrong, which has been reported; rules across keys ignore it.
    Broken(SourceSpan),
    /// The value is right.
    Given(At<T>),
}

impl<T> Maybe<T> {
    pub(super) fn get(&self) -> Option<&At<T>> {
        match self {
            Self::Given(at) => Some(at),
            Self::Absent | Self::Broken(_) => None,
        }
    }

    pub(super) fn value(&self) -> Option<&T> {
        self.get().map(|at| &at.value)
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    pub(super) fn is_broken(&self) -> bool {
        matches!(self, Self::Broken(_))
    }

    /// The place of the value, right or wrong.
    pub(super) fn place(&self) -> Option<&SourceSpan> {
        match self {
            Self::Absent => None,
            Self::Broken(place) => Some(place),
            Self::Given(at) => Some(&at.place),
        }
    }
}

impl<T: Decode> Maybe<T> {
    pub(super) fn decode(node: &Node, reader: &mut Reader<'_>) -> Self {
        match T::decode(node, reader) {
            Some(value) => Self::Given(At { value, place: node.place.clone() }),
            None => Self::Broken(node.place.clone()),
        }
    }
}

/// In the schema, a value with its place is the value alone.
macro_rules! schema_of_inner {
    ($($outer:ident),*) => {$(
        impl<T: JsonSchema> JsonSchema for $outer<T> {
            fn inline_schema() -> bool { T::inline_schema() }
            fn schema_name() -> Cow<'static, str> { T::schema_name() }
            fn schema_id() -> Cow<'static, str> { T::schema_id() }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema { T::json_schema(generator) }
        }
    )*};
}
schema_of_inner!(At, Maybe);

/// Declares a mapping of the grammar: its keys, which of them are required, its schema and how it is read.
macro_rules! mapping {
    (
        $(#[$meta:meta])*
        struct $name:ident ($what:literal, required: [$($required:ident),*]) {
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        #[derive(Debug, Default, schemars::JsonSchema)]
        $(#[$meta])*
        #[schemars(default, deny_unknown_fields, extend("required" = [$(stringify!($required)),*]))]
        pub(super) struct $name {
            $($(#[$field_meta])* pub(super) $field: $crate::spec::decode::Maybe<$type>,)*
        }

        impl $crate::spec::decode::Decode for $name {
            fn decode(
                node: &$crate::spec::yaml::Node,
                reader: &mut $crate::spec::decode::Reader<'_>,
            ) -> Option<Self> {
                const KEYS: &[&str] = &[$($crate::spec::decode::key(stringify!($field))),*];
                let entries = $crate::spec::decode::entries(node, $what, reader)?;
                let mut read = Self::default();
                for (key, value) in entries {
                    $(if key.name == $crate::spec::decode::key(stringify!($field)) {
                        read.$field = $crate::spec::decode::Maybe::decode(value, reader);
                        continue;
                    })*
                    $crate::spec::decode::unknown_key(key, $what, KEYS, reader);
                }
                $(if read.$required.is_absent() {
                    let message = concat!("key `", stringify!($required), "` is missing in ", $what);
                    reader.problem(&node.place, message, "");
                })*
                Some(read)
            }
        }
    };
}
pub(super) use mapping;

/// The YAML key of a field: its name without the `r#` of a raw identifier.
pub(super) const fn key(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

pub(super) fn entries<'n>(
    node: &'n Node,
    what: &str,
    reader: &mut Reader<'_>,
) -> Option<&'n [(super::yaml::Key, Node)]> {
    match &node.value {
        YamlValue::Map(entries) => Some(entries),
        _ => {
            reader.wanted(node, &format!("{what}, which is a mapping"));
            None
        }
    }
}

pub(super) fn unknown_key(key: &super::yaml::Key, what: &str, keys: &[&str], reader: &mut Reader<'_>) {
    let near = did_you_mean(&key.name, keys.iter().copied());
    let message = format!("unknown key {} in {what}{near}", quoted(&key.name));
    let allowed: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    reader.problem(&key.place, message, format!("expected one of {}", allowed.join(", ")));
}

impl Decode for String {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            YamlValue::Text(text) if text.chars().nth(bounds::TEXT).is_some() => {
                let message = format!("found a text of {} characters", text.chars().count());
                reader.problem(&node.place, message, format!("expected at most {}", bounds::TEXT));
                None
            }
            YamlValue::Text(text) => Some(text.clone()),
            YamlValue::Bool(_) | YamlValue::Int(_) | YamlValue::Float(_) => {
                reader.wanted(node, "text; put it in quotes if it is meant as text");
                None
            }
            _ => {
                reader.wanted(node, "text");
                None
            }
        }
    }
}

impl Decode for bool {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match node.value {
            YamlValue::Bool(value) => Some(value),
            _ => {
                reader.wanted(node, "`true` or `false`");
                None
            }
        }
    }
}

impl Decode for f64 {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match node.value {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a tolerance or a bound, read as YAML reads a float"
            )]
            YamlValue::Int(value) => Some(value as f64),
            YamlValue::Float(value) => Some(value),
            _ => {
                reader.wanted(node, "a number");
                None
            }
        }
    }
}

impl Decode for u32 {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let value = match node.value {
            YamlValue::Int(value) => Self::try_from(value).ok(),
            _ => None,
        };
        if value.is_none() {
            reader.wanted(node, "a whole number, 0 or more");
        }
        value
    }
}

impl<T: Decode> Decode for Vec<At<T>> {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let YamlValue::List(list) = &node.value else {
            reader.wanted(node, "a list");
            return None;
        };
        if list.len() > bounds::ENTRIES {
            let message = format!("found a list of {} entries", list.len());
            reader.problem(&node.place, message, format!("expected at most {}", bounds::ENTRIES));
            return None;
        }
        let read: Vec<At<T>> = list
            .iter()
            .filter_map(|node| Some(At { value: T::decode(node, reader)?, place: node.place.clone() }))
            .collect();
        // A list without its bad entries would mislead the rules that follow.
        (read.len() == list.len()).then_some(read)
    }
}

/// Reads one of a closed set of words, given by `ALL` and `name()`.
macro_rules! keyword {
    ($type:ident, $what:literal) => {
        impl $crate::spec::decode::Decode for $type {
            fn decode(
                node: &$crate::spec::yaml::Node,
                reader: &mut $crate::spec::decode::Reader<'_>,
            ) -> Option<Self> {
                $crate::spec::decode::decode_keyword(node, $what, &Self::ALL, |word| word.name(), reader)
            }
        }
    };
}
pub(super) use keyword;

pub(super) fn decode_keyword<T: Copy>(
    node: &Node,
    what: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
    reader: &mut Reader<'_>,
) -> Option<T> {
    // A message is only built when it is needed: this runs for every checkpoint of a large spec.
    if let YamlValue::Text(text) = &node.value
        && let Some(&found) = all.iter().find(|&&word| name(word) == text)
    {
        return Some(found);
    }
    let names: Vec<&str> = all.iter().map(|&word| name(word)).collect();
    let allowed = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let one_of = if names.len() == 1 { "" } else { "one of " };
    let message = match &node.value {
        YamlValue::Text(text) => {
            format!("unknown {what} {}{}", quoted(text), did_you_mean(text, names.iter().copied()))
        }
        other => format!("found {} for {what}", other.describe()),
    };
    reader.problem(&node.place, message, format!("expected {one_of}{allowed}"));
    None
}
