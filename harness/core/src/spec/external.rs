//! The keys `external` and `sha256` of weights: where external weights are, and which files they must be.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::decode::{Decode, Reader, entries};
use super::problem::quoted;
use super::yaml::{Node, YamlValue};
use crate::external::ExternalPath;
use crate::files::hash::is_sha256;

/// External weights of a spec: files that are never copied into the fixture set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// Where the files are.
    pub path: ExternalPath,
    /// Which files they must be. `None`: those that the manifest records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<FileHashes>,
}

/// The declared SHA-256 of external weights, in lowercase hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FileHashes {
    /// That of the only file.
    One(String),
    /// One per name of a file.
    PerFile(BTreeMap<String, String>),
}

impl Decode for FileHashes {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            YamlValue::Map(_) => {
                let files = entries(node, "`sha256`", reader)?;
                if files.is_empty() {
                    reader.problem(&node.place, "`sha256` is empty", "expected at least one file");
                    return None;
                }
                let mut hashes = BTreeMap::new();
                for (key, value) in files {
                    if key.name.contains('/') || !key.name.ends_with(".safetensors") {
                        let message = format!("{} cannot be the name of a shard", quoted(&key.name));
                        let allowed =
                            "expected the name of a file without its folder, as in `model.safetensors`";
                        reader.problem(&key.place, message, allowed);
                    } else if let Some(hash) = hash(value, reader) {
                        hashes.insert(key.name.clone(), hash);
                    }
                }
                (hashes.len() == files.len()).then_some(Self::PerFile(hashes))
            }
            _ => hash(node, reader).map(Self::One),
        }
    }
}

fn hash(node: &Node, reader: &mut Reader<'_>) -> Option<String> {
    let wanted = "a SHA-256: 64 hexadecimal digits";
    let YamlValue::Text(text) = &node.value else {
        // 64 digits without a letter are a number in YAML.
        reader.wanted(node, &format!("{wanted}, in quotes if all are decimal"));
        return None;
    };
    let lower = text.to_ascii_lowercase();
    if !is_sha256(&lower) {
        reader.problem(&node.place, format!("found {}", quoted(text)), format!("expected {wanted}"));
        return None;
    }
    Some(lower)
}

impl JsonSchema for FileHashes {
    fn schema_name() -> Cow<'static, str> {
        "FileHashes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let digits = json_schema!({ "type": "string", "pattern": "^[0-9a-fA-F]{64}$" });
        json_schema!({
            "description": "The SHA-256 of the only file, or one per name of a file.",
            "anyOf": [
                digits,
                {
                    "type": "object",
                    "minProperties": 1,
                    "propertyNames": { "pattern": "^[^/]+\\.safetensors$" },
                    "additionalProperties": digits,
                },
            ],
        })
    }
}
