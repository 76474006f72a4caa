//! YAML text as a tree whose nodes know their place.
//!
//! serde-saphyr reads the YAML. It gives each value its place (`Spanned`), which messages need, and its budgets limit the
//! cost of nesting, aliases and sheer size. The continuation of serde_yaml gives places to syntax errors only. The tree
//! comes before the types of the grammar, so that one pass reports all problems of a file and not only the first.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{MergeKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Location, MessageFormatter, Spanned};

use super::bounds;
use super::problem::{Problem, SourceSpan, quoted};

/// A value and its place.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) value: YamlValue,
    pub(super) place: SourceSpan,
}

#[derive(Debug)]
pub(super) enum YamlValue {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) place: SourceSpan,
}

impl YamlValue {
    /// A short description, with the value where it is a scalar: `` the text `abc` ``, `a list`.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => format!("`{value}`"),
            Self::Int(value) => format!("the number `{value}`"),
            Self::Float(value) => format!("the number `{value}`"),
            Self::Text(text) => format!("the text {}", quoted(text)),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Whether keys get their places. Only messages about keys need them, and reading them takes a tenth of the time, so a
/// file is first read without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    Placed,
    Unplaced,
}

/// Reads the single document of `source`.
pub(super) fn parse(source: &str, keys: Keys) -> Result<Node, Problem> {
    if source.starts_with('\u{feff}') {
        return Err(Problem::whole(
            "the file starts with a byte-order mark",
            "save it as UTF-8 without a byte-order mark",
        ));
    }
    // YAML allows a few control characters, but no spec needs one. Those of one byte are below space or 0x7f; those of
    // two bytes start with 0xc2.
    let may_be_control =
        |byte: u8| byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t') || matches!(byte, 0x7f | 0xc2);
    if source.bytes().any(may_be_control)
        && let Some(at) = source.find(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
    {
        let found = source[at..].chars().next().unwrap_or_default();
        let place = place_at(source, at, found.len_utf8());
        return Err(Problem::new(
            &place,
            format!("control character U+{:04X}", u32::from(found)),
            "remove it",
        ));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: bounds::YAML_DEPTH,
            max_nodes: bounds::YAML_NODES,
            max_events: 4 * bounds::YAML_NODES,
            max_aliases: bounds::YAML_ALIASES,
            max_anchors: bounds::YAML_ALIASES,
            max_recorded_anchor_events: bounds::YAML_REPEATED,
            max_recorded_anchor_bytes: bounds::FILE_BYTES,
            max_total_scalar_bytes: bounds::FILE_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: bounds::YAML_REPEATED,
            max_replay_stack_depth: bounds::YAML_DEPTH,
        },
        merge_keys: MergeKeyPolicy::Error,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let read = match keys {
        Keys::Placed => serde_saphyr::from_str_with_options::<Raw<true>>(source, options).map(|raw| raw.0),
        Keys::Unplaced => serde_saphyr::from_str_with_options::<Raw<false>>(source, options).map(|raw| raw.0),
    };
    read.map_err(|error| syntax_problem(source, &error))
}

/// The parser's error, reworded for specs where it refers to settings of the parser.
fn syntax_problem(source: &str, error: &serde_saphyr::Error) -> Problem {
    use serde_saphyr::Error;
    // An error in the repeated text is shown at the alias.
    let location = error.location();
    let error = match error.without_snippet() {
        Error::AliasError { error, .. } => error.without_snippet(),
        error => error,
    };
    let (message, allowed) = match error {
        Error::Budget { breach, .. } => over_budget(breach),
        Error::AliasReplayLimitExceeded { .. } | Error::AliasReplayStackDepthExceeded { .. } => {
            ("aliases repeat too much".to_owned(), ALIASED.to_owned())
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or_else(String::new, |key| format!(" {}", quoted(key)));
            (format!("key{key} appears twice"), "expected each key once in a mapping".to_owned())
        }
        Error::MultipleDocuments { .. } => {
            ("a second YAML document starts here".to_owned(), "expected one document per file".to_owned())
        }
        Error::MergeKeyNotAllowed { .. } => {
            ("found the merge key `<<`".to_owned(), "expected the keys themselves".to_owned())
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            ("the alias is inside the text that it repeats".to_owned(), String::new())
        }
        Error::NullIntoString { .. } => ("found a key without text".to_owned(), KEY.to_owned()),
        Error::Unexpected { expected: "string scalar", .. } => {
            ("found a list or a mapping as a key".to_owned(), KEY.to_owned())
        }
        error => {
            let message = serde_saphyr::DefaultMessageFormatter.format_message(error);
            // The scanner has a limit of its own for brackets, which it meets before the depth is counted.
            if message == "recursion limit exceeded" {
                return located(over_budget(&BudgetBreach::Depth { depth: 0 }), location, source);
            }
            (message.lines().next().unwrap_or("the YAML cannot be read").to_owned(), String::new())
        }
    };
    located((message, allowed), location, source)
}

fn located((message, allowed): (String, String), location: Option<Location>, source: &str) -> Problem {
    match location {
        Some(location) => Problem::new(&place(&location, Some(source)), message, allowed),
        None => Problem::whole(message, allowed),
    }
}

const KEY: &str = "expected text as a key";
const ALIASED: &str = "write the repeated part as a `for` loop";

fn over_budget(breach: &BudgetBreach) -> (String, String) {
    let (message, allowed) = match breach {
        BudgetBreach::Documents { .. } => {
            ("a second YAML document starts here", "expected one document per file".to_owned())
        }
        BudgetBreach::Depth { .. } => (
            "lists and mappings are nested too deeply",
            format!("expected at most {} levels", bounds::YAML_DEPTH),
        ),
        BudgetBreach::Aliases { .. } | BudgetBreach::Anchors { .. } => {
            ("too many aliases or anchors", format!("expected at most {}", bounds::YAML_ALIASES))
        }
        BudgetBreach::RecordedAnchorEvents { .. }
        | BudgetBreach::RecordedAnchorBytes { .. }
        | BudgetBreach::AliasAnchorRatio { .. } => ("aliases repeat too much", ALIASED.to_owned()),
        BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
            ("the file has too many values", format!("expected at most {}", bounds::YAML_NODES))
        }
        BudgetBreach::ScalarBytes { .. } => (
            "the file has too much text",
            format!("expected at most {} bytes with aliases", bounds::FILE_BYTES),
        ),
        _ => ("the file is too large", String::new()),
    };
    (message.to_owned(), allowed)
}

/// The place of `length` bytes at byte `at`, with its line and column.
pub(super) fn place_at(source: &str, at: usize, length: usize) -> SourceSpan {
    let before = source.get(..at).unwrap_or(source);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    SourceSpan {
        bytes: at..at.saturating_add(length),
        line: before.bytes().filter(|&byte| byte == b'\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

fn place(location: &Location, source: Option<&str>) -> SourceSpan {
    let index = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let span = location.span();
    let (line, column) = (index(location.line()), index(location.column()));
    let start = match (span.byte_offset(), source) {
        (Some(at), _) => index(at),
        (None, Some(source)) => byte_of(source, line, column),
        (None, None) => 0,
    };
    let length = span.byte_len().map_or(0, index);
    SourceSpan { bytes: start..start.saturating_add(length), line, column }
}

fn byte_of(source: &str, line: usize, column: usize) -> usize {
    let start: usize = source.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = &source[start..];
    start + rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(at, _)| at)
}

/// A node during reading. It is a separate type, so that a [`Node`] cannot be read without its place.
struct Raw<const KEYS_PLACED: bool>(Node);

impl<'de, const KEYS_PLACED: bool> Deserialize<'de> for Raw<KEYS_PLACED> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<RawValue<KEYS_PLACED>>::deserialize(deserializer)?;
        Ok(Self(Node { value: spanned.value.0, place: place(&spanned.referenced, None) }))
    }
}

struct RawValue<const KEYS_PLACED: bool>(YamlValue);

impl<'de, const KEYS_PLACED: bool> Deserialize<'de> for RawValue<KEYS_PLACED> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor::<KEYS_PLACED>).map(Self)
    }
}

struct Visitor<const KEYS_PLACED: bool>;

impl<'de, const KEYS_PLACED: bool> de::Visitor<'de> for Visitor<KEYS_PLACED> {
    type Value = YamlValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<YamlValue, E> {
        Ok(YamlValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<YamlValue, E> {
        Ok(YamlValue::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<YamlValue, E> {
        Ok(YamlValue::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<YamlValue, E> {
        Ok(YamlValue::Int(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<YamlValue, E> {
        #[expect(clippy::cast_precision_loss, reason = "a number past i128 is refused wherever it is met")]
        Ok(i128::try_from(value).map_or(YamlValue::Float(value as f64), YamlValue::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<YamlValue, E> {
        Ok(YamlValue::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(value))
    }

    fn visit_unit<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Null)
    }

    fn visit_none<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<YamlValue, A::Error> {
        let mut list = Vec::new();
        while let Some(Raw::<KEYS_PLACED>(node)) = seq.next_element()? {
            list.push(node);
        }
        Ok(YamlValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlValue, A::Error> {
        let mut entries = Vec::new();
        loop {
            let key = if KEYS_PLACED {
                let key = map.next_key::<Spanned<String>>()?;
                key.map(|Spanned { value, referenced, .. }| Key {
                    name: value,
                    place: place(&referenced, None),
                })
            } else {
                let nowhere = SourceSpan { bytes: 0..0, line: 1, column: 1 };
                map.next_key()?.map(|name| Key { name, place: nowhere })
            };
            let Some(key) = key else { return Ok(YamlValue::Map(entries)) };
            let Raw::<KEYS_PLACED>(node) = map.next_value()?;
            entries.push((key, node));
        }
    }
}
