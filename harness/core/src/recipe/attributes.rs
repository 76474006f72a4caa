//! Reads the attributes of a node from JSON, with limits, and converts them to typed values.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::tensor::{Dtype, MAX_AXES, byte_len};

/// The most items of a list that are kept. Of a longer list, only the length is kept.
const MAX_LIST: usize = 4096;
/// The longest name or equation, in bytes.
const MAX_TEXT: usize = 4096;
/// The most attributes of a node; the longest list in the format has 5.
const MAX_ATTRIBUTES: usize = 64;

/// The attributes that have not been taken yet.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<(String, Attribute)>);

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Attribute {
    Null,
    Bool(bool),
    Whole(i64),
    Real(f64),
    Text(String),
    List(Vec<Attribute>),
    /// The length of a list with more than `MAX_LIST` items.
    LongList(usize),
    Object,
}

impl Attribute {
    /// Returns the number. The texts `"inf"`, `"-inf"` and `"nan"` are numbers, too.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(x) => Some(*x as f64),
            Self::Real(x) => Some(*x),
            Self::Bool(x) => Some(f64::from(u8::from(*x))),
            Self::Text(word) => match word.as_str() {
                "inf" => Some(f64::INFINITY),
                "-inf" => Some(f64::NEG_INFINITY),
                "nan" => Some(f64::NAN),
                _ => None,
            },
            _ => None,
        }
    }

    fn count(&self) -> Option<usize> {
        match self {
            Self::Whole(x) => usize::try_from(*x).ok(),
            _ => None,
        }
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(x) => write!(f, "{x}"),
            Self::Whole(x) => write!(f, "{x}"),
            Self::Real(x) => write!(f, "{x}"),
            Self::Text(text) => write!(f, "{:?}", text.chars().take(80).collect::<String>()),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().take(8).enumerate() {
                    write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str(if items.len() > 8 { ", …]" } else { "]" })
            }
            Self::LongList(length) => write!(f, "a list of {length}"),
            Self::Object => f.write_str("an object"),
        }
    }
}

impl Attributes {
    /// Fails when an attribute was not taken.
    pub(super) fn finish(self) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some((key, _)) => Err(format!("its attribute `{}` is unknown", key.escape_debug())),
        }
    }

    /// Whether there is such an attribute that was not taken.
    pub(super) fn has(&self, key: &str) -> bool {
        self.peek(key).is_some()
    }

    pub(super) fn number(&mut self, key: &str) -> Result<f64, String> {
        self.take(key, "a number", Attribute::number)
    }

    /// A number, or `None` for null.
    pub(super) fn bound(&mut self, key: &str) -> Result<Option<f64>, String> {
        self.take(key, "a number or null", |value| match value {
            Attribute::Null => Some(None),
            other => other.number().map(Some),
        })
    }

    pub(super) fn flag(&mut self, key: &str) -> Result<bool, String> {
        self.take(key, "true or false", |value| match value {
            Attribute::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    pub(super) fn count(&mut self, key: &str) -> Result<usize, String> {
        self.take(key, "a whole number from 0", Attribute::count)
    }

    pub(super) fn positive(&mut self, key: &str) -> Result<usize, String> {
        self.take(key, "a whole number from 1", |value| value.count().filter(|&x| x > 0))
    }

    pub(super) fn axis(&mut self, key: &str) -> Result<usize, String> {
        self.take(key, "an axis from 0 to 63", |value| value.count().filter(|&x| x < MAX_AXES))
    }

    pub(super) fn signed(&mut self, key: &str) -> Result<i64, String> {
        self.take(key, "a whole number", |value| match value {
            Attribute::Whole(x) => Some(*x),
            _ => None,
        })
    }

    pub(super) fn text(&mut self, key: &str) -> Result<String, String> {
        self.take(key, "a text of at most 4096 bytes", |value| match value {
            Attribute::Text(text) if text.len() <= MAX_TEXT => Some(text.clone()),
            _ => None,
        })
    }

    pub(super) fn dtype(&mut self, key: &str) -> Result<Dtype, String> {
        self.choice(key, &Dtype::ALL.map(|dtype| (dtype.name(), dtype)))
    }

    /// Takes a name, and returns the allowed value with this name.
    pub(super) fn choice<T: Copy>(&mut self, key: &str, allowed: &[(&str, T)]) -> Result<T, String> {
        let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
        self.take(key, &format!("one of {}", names.join(", ")), |value| {
            let Attribute::Text(text) = value else { return None };
            allowed.iter().find(|(name, _)| name == text).map(|(_, choice)| *choice)
        })
    }

    /// As [`choice`](Self::choice), or `None` for null.
    pub(super) fn optional_choice<T: Copy>(
        &mut self,
        key: &str,
        allowed: &[(&str, T)],
    ) -> Result<Option<T>, String> {
        match self.peek(key) {
            Some(Attribute::Null) => self.take(key, "null", |_| Some(None)),
            _ => self.choice(key, allowed).map(Some),
        }
    }

    /// A shape of at most 2^40 elements.
    pub(super) fn shape(&mut self, key: &str) -> Result<Vec<usize>, String> {
        self.take(key, "at most 64 lengths of at most 2^40 elements", |value| {
            let shape = list(value, Attribute::count).filter(|shape| shape.len() <= MAX_AXES)?;
            // `byte_len` allows `isize::MAX` bytes, but a recipe needs far fewer elements.
            let bytes = byte_len(Dtype::Float64, &shape).ok()?;
            (bytes as u64 <= 8 << 40).then_some(shape)
        })
    }

    /// Axes, each at most once.
    pub(super) fn axes(&mut self, key: &str) -> Result<Vec<usize>, String> {
        self.take(key, "axes from 0 to 63, each at most once", |value| {
            let axes = list(value, |item| item.count().filter(|&axis| axis < MAX_AXES))?;
            let mut sorted = axes.clone();
            sorted.sort_unstable();
            sorted.windows(2).all(|pair| pair[0] != pair[1]).then_some(axes)
        })
    }

    pub(super) fn counts(&mut self, key: &str) -> Result<Vec<usize>, String> {
        self.take(key, "a list of at most 64 whole numbers from 0", |value| per_axis(value, Attribute::count))
    }

    pub(super) fn positives(&mut self, key: &str) -> Result<Vec<usize>, String> {
        self.take(key, "a list of at most 64 whole numbers from 1", |value| {
            per_axis(value, |item| item.count().filter(|&x| x > 0))
        })
    }

    pub(super) fn signed_list(&mut self, key: &str) -> Result<Vec<i64>, String> {
        self.take(key, "a list of at most 64 whole numbers", |value| {
            per_axis(value, |item| match item {
                Attribute::Whole(x) => Some(*x),
                _ => None,
            })
        })
    }

    /// Pairs: the number before and the number after an axis. A single number stands for both.
    pub(super) fn pairs(&mut self, key: &str) -> Result<Vec<[usize; 2]>, String> {
        self.take(key, "a list of at most 64 pairs of whole numbers from 0", |value| {
            per_axis(value, |item| match item {
                Attribute::List(pair) => match pair.as_slice() {
                    [before, after] => Some([before.count()?, after.count()?]),
                    _ => None,
                },
                both => both.count().map(|both| [both, both]),
            })
        })
    }

    /// Lists of four numbers.
    pub(super) fn fours(&mut self, key: &str) -> Result<Vec<[usize; 4]>, String> {
        self.take(key, "a list of at most 64 lists [axis, start, end, step]", |value| {
            per_axis(value, |item| <[usize; 4]>::try_from(list(item, Attribute::count)?).ok())
        })
    }

    fn peek(&self, key: &str) -> Option<&Attribute> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    fn take<T>(
        &mut self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&Attribute) -> Option<T>,
    ) -> Result<T, String> {
        let Some(at) = self.0.iter().position(|(name, _)| name == key) else {
            return Err(format!("its attribute `{key}` is missing"));
        };
        let (_, value) = self.0.swap_remove(at);
        read(&value).ok_or_else(|| format!("its `{key}` is {value}, expected {expected}"))
    }
}

fn list<T>(value: &Attribute, item: impl Fn(&Attribute) -> Option<T>) -> Option<Vec<T>> {
    match value {
        Attribute::List(items) => items.iter().map(item).collect(),
        _ => None,
    }
}

fn per_axis<T>(value: &Attribute, item: impl Fn(&Attribute) -> Option<T>) -> Option<Vec<T>> {
    list(value, item).filter(|items| items.len() <= MAX_AXES)
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Attributes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of attributes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Attributes, A::Error> {
                let mut entries: Vec<(String, Attribute)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Attribute>()? {
                    if entries.iter().any(|(other, _)| *other == key) {
                        return Err(A::Error::custom(format!("attribute {key:?} is given twice")));
                    }
                    if entries.len() == MAX_ATTRIBUTES {
                        return Err(A::Error::custom(format!("more than {MAX_ATTRIBUTES} attributes")));
                    }
                    entries.push((key, value));
                }
                Ok(Attributes(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl<'de> Deserialize<'de> for Attribute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;
        impl<'de> Visitor<'de> for AnyValue {
            type Value = Attribute;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E: Error>(self) -> Result<Attribute, E> {
                Ok(Attribute::Null)
            }

            fn visit_bool<E: Error>(self, flag: bool) -> Result<Attribute, E> {
                Ok(Attribute::Bool(flag))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Attribute, E> {
                Ok(Attribute::Whole(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Attribute, E> {
                Ok(i64::try_from(number).map_or(Attribute::Real(number as f64), Attribute::Whole))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Attribute, E> {
                Ok(Attribute::Real(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Attribute, E> {
                Ok(Attribute::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Attribute, A::Error> {
                let mut kept = Vec::new();
                while kept.len() < MAX_LIST {
                    match items.next_element()? {
                        Some(item) => kept.push(item),
                        None => return Ok(Attribute::List(kept)),
                    }
                }
                let mut length = kept.len();
                while items.next_element::<IgnoredAny>()?.is_some() {
                    length += 1;
                }
                Ok(if length == kept.len() { Attribute::List(kept) } else { Attribute::LongList(length) })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Attribute, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Attribute::Object)
            }
        }
        deserializer.deserialize_any(AnyValue)
    }
}
