//! Numbers that survive JSON: NaN and the infinities as words, integers to the last digit.

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::ser::{SerializeTuple, Serializer};
use serde::{Deserialize, Serialize};

/// One element of a tensor, as it is.
///
/// In JSON a float always has a point or an exponent and an integer never has, NaN and the infinities are the words
/// `"nan"`, `"inf"` and `"-inf"`, and a complex number is the list of its two parts.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the variants are their own names")]
pub enum Value {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Complex(f64, f64),
}

impl fmt::Display for Value {
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

/// A float with at most six significant digits, in the shorter of the two notations.
pub(crate) struct Short(pub(crate) f64);

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

/// A part of a whole in per cent, `0.5 %`.
pub(crate) fn percent(part: f64) -> String {
    format!("{} %", Short(100.0 * part))
}

/// For `#[serde(with = "number")]` on an `f64` that may be NaN or infinite.
pub(crate) fn serialize<S: Serializer>(x: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Float(*x).serialize(serializer)
}

/// The other half of [`serialize`].
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Float::deserialize(deserializer).map(|x| x.0)
}

/// For `#[serde(with = "number::option")]` on an `Option<f64>`.
pub(crate) mod option {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(x: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        x.map(Float).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Option::<Float>::deserialize(deserializer).map(|x| x.map(|x| x.0))
    }
}

/// A float64 whose JSON has words for what JSON has no number for.
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
        match Value::deserialize(deserializer)? {
            Value::Float(x) => Ok(Self(x)),
            Value::Int(x) => Ok(Self(x as f64)),
            Value::Uint(x) => Ok(Self(x as f64)),
            Value::Bool(_) | Value::Complex(..) => Err(de::Error::custom("expected one real number")),
        }
    }
}

impl Serialize for Value {
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

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a bool, a number, `nan`, `inf`, `-inf` or the two parts of a complex number")
    }

    fn visit_bool<E>(self, x: bool) -> Result<Value, E> {
        Ok(Value::Bool(x))
    }

    fn visit_i64<E>(self, x: i64) -> Result<Value, E> {
        Ok(Value::Int(x))
    }

    fn visit_u64<E>(self, x: u64) -> Result<Value, E> {
        // One integer has one form: unsigned only where signed cannot hold it.
        Ok(i64::try_from(x).map_or(Value::Uint(x), Value::Int))
    }

    fn visit_f64<E>(self, x: f64) -> Result<Value, E> {
        Ok(Value::Float(x))
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Value, E> {
        match word {
            "nan" => Ok(Value::Float(f64::NAN)),
            "inf" => Ok(Value::Float(f64::INFINITY)),
            "-inf" => Ok(Value::Float(f64::NEG_INFINITY)),
            _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Value, A::Error> {
        let mut part = || parts.next_element::<Float>()?.ok_or_else(|| de::Error::invalid_length(0, &self));
        Ok(Value::Complex(part()?.0, part()?.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: Value, json: &str) {
        assert_eq!(serde_json::to_string(&value).unwrap(), json);
        let back: Value = serde_json::from_str(json).unwrap();
        assert_eq!(format!("{back:?}"), format!("{value:?}"));
    }

    #[test]
    fn every_value_comes_back_as_it_was() {
        check(Value::Bool(true), "true");
        check(Value::Int(i64::MIN), "-9223372036854775808");
        check(Value::Uint(u64::MAX), "18446744073709551615");
        check(Value::Float(1.0), "1.0");
        check(Value::Float(5e-324), "5e-324");
        check(Value::Float(f64::NAN), "\"nan\"");
        check(Value::Complex(f64::NEG_INFINITY, 0.5), "[\"-inf\",0.5]");
        assert!(serde_json::from_str::<Value>("\"NaN\"").is_err());
        assert!(serde_json::from_str::<Value>("[1.0]").is_err());
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
        assert_eq!(Value::Complex(1.0, -2.0).to_string(), "1-2i");
    }
}
