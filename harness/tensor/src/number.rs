//! Numbers that JSON preserves: NaN and the infinities as words, integers to the last digit.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::ser::{SerializeTuple, Serializer};
use serde::{Deserialize, Serialize};

/// The exact value of one element of a tensor.
///
/// In JSON, a float always has a point or an exponent, and an integer has neither. NaN and the infinities are the words
/// `"nan"`, `"inf"` and `"-inf"`. A complex number is the list of its two parts.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the variants are their own names")]
pub enum ElementValue {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Complex(f64, f64),
}

impl fmt::Display for ElementValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bool(x) => write!(f, "{x}"),
            Self::Int(x) => write!(f, "{x}"),
            Self::Uint(x) => write!(f, "{x}"),
            Self::Float(x) => write!(f, "{}", Short(x)),
            Self::Complex(re, im) if im.is_sign_negative() => write!(f, "{}-{}i", Short(re), Short(-im)),
            Self::Complex(re, im) => write!(f, "{}+{}i", Short(re), Short(im)),
        }
    }
}

/// Displays a float with at most six significant digits, in plain or scientific notation.
pub struct Short(pub f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x = self.0;
        if x == 0.0 || !x.is_finite() {
            return write!(f, "{x}");
        }
        let scientific = format!("{x:.5e}");
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if (-4..6).contains(&exponent) {
            let plain = format!("{x:.*}", (5 - exponent).max(0) as usize);
            let plain =
                if plain.contains('.') { plain.trim_end_matches('0').trim_end_matches('.') } else { &plain };
            return f.write_str(plain);
        }
        write!(f, "{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A fraction as a percentage: `0.005` is `0.5 %`.
pub fn percent(part: f64) -> String {
    format!("{} %", Short(100.0 * part))
}

/// Serialises an `f64` that may be NaN or infinite, for `#[serde(with = "number")]`.
///
/// # Errors
///
/// Only those of the serializer.
pub fn serialize<S: Serializer>(x: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Float(*x).serialize(serializer)
}

/// Reads what [`serialize`] wrote.
///
/// # Errors
///
/// When the value is neither a real number nor one of the words for NaN and the infinities.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Float::deserialize(deserializer).map(|x| x.0)
}

/// The schema of a float that is written by this module: `#[schemars(with = "WrittenFloat")]`.
pub struct WrittenFloat;

impl JsonSchema for WrittenFloat {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Float".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]})
    }
}

impl JsonSchema for ElementValue {
    fn schema_name() -> Cow<'static, str> {
        "Element".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let float = generator.subschema_for::<WrittenFloat>();
        json_schema!({
            "description": "One element of a tensor. A complex number is the list of its two parts.",
            "anyOf": [{"type": "boolean"}, float, {"type": "array", "items": float, "minItems": 2, "maxItems": 2}],
        })
    }
}

/// The same for `#[serde(with = "number::option")]` on an `Option<f64>`.
pub mod option {
    use super::*;

    /// As [`serialize`](super::serialize), with `null` for `None`.
    ///
    /// # Errors
    ///
    /// Only those of the serializer.
    pub fn serialize<S: Serializer>(x: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        x.map(Float).serialize(serializer)
    }

    /// Reads what [`serialize`] wrote.
    ///
    /// # Errors
    ///
    /// As [`deserialize`](super::deserialize).
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Option::<Float>::deserialize(deserializer).map(|x| x.map(|x| x.0))
    }
}

/// For `#[serde(with = "number::pair")]` on an `Option<(f64, f64)>`.
pub mod pair {
    use super::*;

    /// Two numbers as a list, or null.
    ///
    /// # Errors
    /// When the serializer fails.
    pub fn serialize<S: Serializer>(x: &Option<(f64, f64)>, serializer: S) -> Result<S::Ok, S::Error> {
        x.map(|(low, high)| (Float(low), Float(high))).serialize(serializer)
    }

    /// The other half of [`serialize`].
    ///
    /// # Errors
    /// When the value is neither null nor a list of two numbers.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<(f64, f64)>, D::Error> {
        Option::<(Float, Float)>::deserialize(deserializer).map(|x| x.map(|(low, high)| (low.0, high.0)))
    }
}

/// A float64 whose JSON has words for NaN and the infinities.
struct Float(f64);

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            x if x.is_nan() => serializer.serialize_str("nan"),
            f64::INFINITY => serializer.serialize_str("inf"),
            f64::NEG_INFINITY => serializer.serialize_str("-inf"),
            x => serializer.serialize_f64(x),
        }
    }
}

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match ElementValue::deserialize(deserializer)? {
            ElementValue::Float(x) => Ok(Self(x)),
            ElementValue::Int(x) => Ok(Self(x as f64)),
            ElementValue::Uint(x) => Ok(Self(x as f64)),
            ElementValue::Bool(_) | ElementValue::Complex(..) => {
                Err(de::Error::custom("expected one real number"))
            }
        }
    }
}

impl Serialize for ElementValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Bool(x) => serializer.serialize_bool(x),
            Self::Int(x) => serializer.serialize_i64(x),
            Self::Uint(x) => serializer.serialize_u64(x),
            Self::Float(x) => Float(x).serialize(serializer),
            Self::Complex(re, im) => {
                let mut tuple = serializer.serialize_tuple(2)?;
                tuple.serialize_element(&Float(re))?;
                tuple.serialize_element(&Float(im))?;
                tuple.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for ElementValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ElementVisitor)
    }
}

struct ElementVisitor;

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = ElementValue;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a bool, a number, `nan`, `inf`, `-inf` or the two parts of a complex number")
    }

    fn visit_bool<E>(self, x: bool) -> Result<ElementValue, E> {
        Ok(ElementValue::Bool(x))
    }

    fn visit_i64<E>(self, x: i64) -> Result<ElementValue, E> {
        Ok(ElementValue::Int(x))
    }

    fn visit_u64<E>(self, x: u64) -> Result<ElementValue, E> {
        // One integer has one form: unsigned only where signed cannot hold it.
        Ok(i64::try_from(x).map_or(ElementValue::Uint(x), ElementValue::Int))
    }

    fn visit_f64<E>(self, x: f64) -> Result<ElementValue, E> {
        Ok(ElementValue::Float(x))
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<ElementValue, E> {
        match word {
            "nan" => Ok(ElementValue::Float(f64::NAN)),
            "inf" => Ok(ElementValue::Float(f64::INFINITY)),
            "-inf" => Ok(ElementValue::Float(f64::NEG_INFINITY)),
            _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<ElementValue, A::Error> {
        let mut part = || parts.next_element::<Float>()?.ok_or_else(|| de::Error::invalid_length(0, &self));
        Ok(ElementValue::Complex(part()?.0, part()?.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: ElementValue, json: &str) {
        assert_eq!(serde_json::to_string(&value).unwrap(), json);
        let back: ElementValue = serde_json::from_str(json).unwrap();
        assert_eq!(format!("{back:?}"), format!("{value:?}"));
    }

    #[test]
    fn every_value_comes_back_as_it_was() {
        check(ElementValue::Bool(true), "true");
        check(ElementValue::Int(i64::MIN), "-9223372036854775808");
        check(ElementValue::Uint(u64::MAX), "18446744073709551615");
        check(ElementValue::Float(1.0), "1.0");
        check(ElementValue::Float(5e-324), "5e-324");
        check(ElementValue::Float(f64::NAN), "\"nan\"");
        check(ElementValue::Complex(f64::NEG_INFINITY, 0.5), "[\"-inf\",0.5]");
        assert!(serde_json::from_str::<ElementValue>("\"NaN\"").is_err());
        assert!(serde_json::from_str::<ElementValue>("[1.0]").is_err());
    }

    #[test]
    fn floats_are_shown_short() {
        for (x, shown) in [
            (0.41237, "0.41237"),
            (1.54e-3, "0.00154"),
            (1.234567e-7, "1.23457e-7"),
            (123456.4, "123456"),
            (999999.9, "1e6"),
            (-2.5, "-2.5"),
            (1e30, "1e30"),
            (100.0, "100"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(Short(x).to_string(), shown);
        }
        assert_eq!(ElementValue::Complex(1.0, -2.0).to_string(), "1-2i");
    }
}
