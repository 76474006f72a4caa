//! The element types of tensors.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// An element type, under the name that specs, manifests and messages use.
///
/// These are exactly the dtypes of MLX. A file with any other type is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the variants are their own names")]
pub enum Dtype {
    Bool,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
    Float16,
    Bfloat16,
    Float32,
    Float64,
    Complex64,
}

impl Dtype {
    /// Every dtype, in declaration order.
    pub const ALL: [Self; 14] = [
        Self::Bool,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Float16,
        Self::Bfloat16,
        Self::Float32,
        Self::Float64,
        Self::Complex64,
    ];

    /// The name, e.g. `bfloat16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Complex64 => "complex64",
        }
    }

    /// The dtype with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::Uint8 | Self::Int8 => 1,
            Self::Uint16 | Self::Int16 | Self::Float16 | Self::Bfloat16 => 2,
            Self::Uint32 | Self::Int32 | Self::Float32 => 4,
            Self::Uint64 | Self::Int64 | Self::Float64 | Self::Complex64 => 8,
        }
    }

    /// Whether elements are real floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::Bfloat16 | Self::Float32 | Self::Float64)
    }

    /// Whether elements are integers, with or without a sign.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, Self::Bool | Self::Complex64)
    }

    /// The distance from 1 to the next larger number. complex64 has that of float32; integers and bools have none.
    pub const fn epsilon(self) -> Option<f64> {
        match self {
            Self::Float16 => Some(1.0 / 1024.0),
            Self::Bfloat16 => Some(1.0 / 128.0),
            Self::Float32 | Self::Complex64 => Some(f32::EPSILON as f64),
            Self::Float64 => Some(f64::EPSILON),
            _ => None,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl JsonSchema for Dtype {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Dtype".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Self::ALL.iter().map(|dtype| dtype.name()).collect();
        json_schema!({ "description": "An element type.", "enum": names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_serde_and_come_back() {
        for dtype in Dtype::ALL {
            assert_eq!(serde_json::to_string(&dtype).unwrap(), format!("\"{dtype}\""));
            assert_eq!(Dtype::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(Dtype::from_name("f32"), None);
    }
}
