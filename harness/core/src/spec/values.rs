//! Values of keys with a syntax of their own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::bounds;
use super::checkpoints::Dim;
use super::decode::{At, Decode, Reader, entries};
use super::problem::quoted;
use super::tensor_part::TensorPart;
use super::yaml::{Node, YamlValue};
use crate::files::size;

/// A time limit: `90s`, `5m`, `2h`.
///
/// Hand-written, because duration crates accept more forms than `schema.json` does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeout(pub(super) Duration);

impl Decode for Timeout {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        const WANTED: &str = "a time such as `90s`, `5m` or `2h`, 24 hours at most";
        let read = |text: &str| {
            let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
            let scale = match unit {
                "s" => 1,
                "m" => 60,
                "h" => 3600,
                _ => return None,
            };
            if !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let seconds = number.parse::<u64>().ok()?.checked_mul(scale)?;
            (1..=bounds::TIMEOUT.as_secs()).contains(&seconds).then(|| Duration::from_secs(seconds))
        };
        let found = if let YamlValue::Text(text) = &node.value { read(text) } else { None };
        if found.is_none() {
            reader.wanted(node, WANTED);
        }
        found.map(Self)
    }
}

impl JsonSchema for Timeout {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timeout".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+[smh]$" })
    }
}

/// A number of bytes, written with a unit: `512MiB`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes(pub(super) u64);

impl Decode for Bytes {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        const WANTED: &str = "a size with a unit, such as `512MiB` or `2GB`";
        const UNITS: [&str; 8] = ["kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"];
        let read = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let unit = text[end..].strip_prefix(' ').unwrap_or(&text[end..]);
            let is_number = text.starts_with(|c: char| c.is_ascii_digit()) && !text[..end].ends_with('.');
            if !is_number || !UNITS.contains(&unit) {
                return None;
            }
            size::parse(text).filter(|bytes| *bytes > 0)
        };
        let found = if let YamlValue::Text(text) = &node.value { read(text) } else { None };
        if found.is_none() {
            reader.wanted(node, WANTED);
        }
        found.map(Self)
    }
}

impl JsonSchema for Bytes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+([.][0-9]+)? ?(kB|MB|GB|TB|KiB|MiB|GiB|TiB)$" })
    }
}

/// The axes of a `for`, in their order in the file.
#[derive(Debug)]
pub(super) struct Loop(pub(super) Vec<(At<String>, Axis)>);

/// The values of an axis.
#[derive(Debug, Clone)]
pub(super) enum Axis {
    Span(std::ops::Range<i64>),
    List(Vec<i64>),
}

impl Axis {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Span(span) => {
                usize::try_from(span.end.saturating_sub(span.start).max(0)).unwrap_or(usize::MAX)
            }
            Self::List(list) => list.len(),
        }
    }

    /// The value at a position, which must be less than [`Axis::len`].
    pub(super) fn at(&self, position: usize) -> i64 {
        match self {
            Self::Span(span) => span.start.saturating_add(i64::try_from(position).unwrap_or(i64::MAX)),
            Self::List(list) => list.get(position).copied().unwrap_or_default(),
        }
    }
}

impl Decode for Loop {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let entries = entries(node, "`for`", reader)?;
        if entries.is_empty() || entries.len() > bounds::AXES {
            let message = format!("found {} axes", entries.len());
            reader.problem(
                &node.place,
                message,
                format!("expected 1 to {}, as in `{{i: 0..4}}`", bounds::AXES),
            );
            return None;
        }
        let mut axes = Vec::new();
        for (key, value) in entries {
            if !is_identifier(&key.name) {
                let message = format!("axis {} is not a valid name", quoted(&key.name));
                reader.problem(&key.place, message, "expected letters, digits and `_`, and no digit first");
            } else if let Some(axis) = Axis::decode(value, reader) {
                axes.push((At { value: key.name.clone(), place: key.place.clone() }, axis));
            }
        }
        (axes.len() == entries.len()).then_some(Self(axes))
    }
}

impl Decode for Axis {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        const WANTED: &str = "a range such as `0..4`, which excludes its end, or a list of whole numbers";
        let axis = match &node.value {
            YamlValue::Text(text) => text.split_once("..").and_then(|(start, end)| {
                let read = |text: &str| text.trim().parse::<i64>().ok();
                Some(Self::Span(read(start)?..read(end)?))
            }),
            YamlValue::List(list) => list
                .iter()
                .map(|node| match node.value {
                    YamlValue::Int(value) => i64::try_from(value).ok(),
                    _ => None,
                })
                .collect::<Option<Vec<i64>>>()
                .map(Self::List),
            _ => None,
        };
        let Some(axis) = axis else {
            reader.wanted(node, WANTED);
            return None;
        };
        // The length comes first, because the checks that follow visit every value.
        if axis.len() > bounds::CHECKPOINTS {
            let message = format!("found an axis of {} values", axis.len());
            reader.problem(&node.place, message, format!("expected at most {}", bounds::CHECKPOINTS));
            return None;
        }
        if axis.len() == 0 {
            reader.problem(
                &node.place,
                "found an axis without values",
                "expected at least one, as in `0..4`",
            );
            return None;
        }
        if let Self::List(list) = &axis {
            let mut sorted = list.clone();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                reader.problem(
                    &node.place,
                    format!("found {} twice in an axis", pair[0]),
                    "expected it once",
                );
                return None;
            }
        }
        Some(axis)
    }
}

impl JsonSchema for Loop {
    fn schema_name() -> Cow<'static, str> {
        "For".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Axes and their values, nested in the order written.",
            "type": "object",
            "minProperties": 1,
            "maxProperties": bounds::AXES,
            "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
            "additionalProperties": {
                "anyOf": [
                    { "type": "string", "pattern": "^ *[-+]?[0-9]+ *\\.\\. *[-+]?[0-9]+ *$" },
                    { "type": "array", "items": { "type": "integer" }, "minItems": 1, "uniqueItems": true },
                ],
            },
        })
    }
}

/// The length of an axis, or a name for it.
#[derive(Debug, Clone)]
pub(super) struct DimFile(pub(super) Dim);

impl Decode for DimFile {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let dim = match &node.value {
            YamlValue::Int(length) => usize::try_from(*length).ok().map(Dim::Fixed),
            YamlValue::Text(name) if is_identifier(name) && name.len() <= 32 => {
                Some(Dim::Named(name.clone()))
            }
            _ => None,
        };
        if dim.is_none() {
            reader.wanted(node, "a length, or a name for one of letters, digits and `_`");
        }
        dim.map(Self)
    }
}

impl JsonSchema for DimFile {
    fn schema_name() -> Cow<'static, str> {
        "Dim".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A length, or a name that means the same length everywhere in the spec.",
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,31}$" },
            ],
        })
    }
}

/// `[smallest, largest]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range(pub(super) f64, pub(super) f64);

impl Decode for Range {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let found = match &node.value {
            YamlValue::List(list) if list.len() == 2 => {
                (f64::decode(&list[0], reader)?, f64::decode(&list[1], reader)?)
            }
            _ => {
                reader.wanted(node, "`[smallest, largest]`");
                return None;
            }
        };
        let (low, high) = found;
        if low > high || low.is_nan() || high.is_nan() || low.is_infinite() && high.is_infinite() {
            let message = format!("found the range from {low} to {high}");
            reader.problem(&node.place, message, "expected the smaller number first, and one of them finite");
            return None;
        }
        Some(Self(low, high))
    }
}

impl JsonSchema for Range {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Range".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 })
    }
}

/// The part of a tensor, as in `[1:2, 3:]`.
#[derive(Debug, Clone)]
pub(super) struct PartFile(pub(super) TensorPart);

impl Decode for PartFile {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let YamlValue::Text(text) = &node.value else {
            reader.wanted(node, "ranges in quotes, such as `\"[1:2, 3:]\"`");
            return None;
        };
        match TensorPart::parse(text) {
            Ok(part) => Some(Self(part)),
            Err(message) => {
                reader.problem(&node.place, message, "expected one range per axis, such as `[1:2, 3:]`");
                None
            }
        }
    }
}

impl JsonSchema for PartFile {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TensorPart".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^ *\\[[-0-9:, ]+\\] *$" })
    }
}

pub(super) fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= bounds::NAME
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Any JSON object.
#[derive(Debug, JsonSchema)]
#[schemars(inline)]
pub(super) struct Params(pub(super) serde_json::Map<String, serde_json::Value>);

impl Decode for Params {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        entries(node, "`params`", reader)?;
        match json(node, reader)? {
            serde_json::Value::Object(object) => Some(Self(object)),
            _ => None,
        }
    }
}

fn json(node: &Node, reader: &mut Reader<'_>) -> Option<serde_json::Value> {
    use serde_json::{Number, Value as Json};
    const WHOLE: &str = "a whole number of at most 64 bits; put it in quotes if it is text";
    let value = match &node.value {
        YamlValue::Null => Json::Null,
        YamlValue::Bool(value) => Json::Bool(*value),
        YamlValue::Text(text) => Json::String(text.clone()),
        YamlValue::Int(value) => match (i64::try_from(*value), u64::try_from(*value)) {
            (Ok(value), _) => Json::from(value),
            (_, Ok(value)) => Json::from(value),
            _ => {
                reader.wanted(node, WHOLE);
                return None;
            }
        },
        // The parser turns a whole number that is too long into a float, which loses digits.
        YamlValue::Float(_) if reader.is_digits(&node.place) => {
            let written = quoted(reader.source.get(node.place.bytes.clone()).unwrap_or(""));
            reader.problem(&node.place, format!("found the number {written}"), format!("expected {WHOLE}"));
            return None;
        }
        YamlValue::Float(value) => match Number::from_f64(*value) {
            Some(number) => Json::Number(number),
            None => {
                reader.wanted(node, "a finite number, since `params` are passed as JSON");
                return None;
            }
        },
        YamlValue::List(list) => {
            Json::Array(list.iter().map(|node| json(node, reader)).collect::<Option<Vec<_>>>()?)
        }
        YamlValue::Map(entries) => Json::Object(
            entries
                .iter()
                .map(|(key, node)| Some((key.name.clone(), json(node, reader)?)))
                .collect::<Option<serde_json::Map<_, _>>>()?,
        ),
    };
    Some(value)
}

/// From an old part of a name to the new one.
#[derive(Debug, JsonSchema)]
#[schemars(inline)]
pub(super) struct Rename(pub(super) BTreeMap<String, String>);

impl Decode for Rename {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let entries = entries(node, "`rename`", reader)?;
        let mut names = BTreeMap::new();
        for (key, value) in entries {
            if let Some(name) = String::decode(value, reader) {
                names.insert(key.name.clone(), name);
            }
        }
        (names.len() == entries.len()).then_some(Self(names))
    }
}
