//! `manifest.json`: the content and the origin of a fixture folder.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use super::adapter_facts::AdapterFacts;
use super::entry::{RecipesFile, Role, TensorEntry};
use super::external_record::ExternalRecord;
use super::second_reference::{SecondReference, SecondScript};
use crate::files::hash::is_sha256;

/// The version of the format that this build reads.
pub const FORMAT: u32 = 1;

/// A checked manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the format.
    pub format: u32,
    /// The reference that made the set.
    pub made_by: MadeBy,
    /// Where and with which versions it was made. Free-form, for people.
    #[serde(default)]
    pub provenance: Map<String, Value>,
    /// The file with the operations by which the reference made the goldens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipes: Option<RecipesFile>,
    /// The adapters of the set, and what they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapters: Option<AdapterFacts>,
    /// The external weights that the reference read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_weights: Option<Vec<ExternalRecord>>,
    /// How far a second reference agrees with the one that made the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_reference: Option<SecondReference>,
    /// Every tensor of the set.
    pub tensors: Vec<TensorEntry>,
}

/// The reference that made a fixture set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeBy {
    /// [`made_by_key`](super::made_by_key) of the `reference` block and the script at that time.
    pub key: String,
    /// The script, as the spec named it.
    pub script: String,
    /// The reference code, as the spec named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The parameters that the spec gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// The second reference, as the spec named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also: Option<SecondScript>,
}

/// Why a manifest cannot be used.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
#[non_exhaustive]
pub enum ManifestError {
    /// It is not JSON, or a key is missing, unknown, repeated or of the wrong type.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// It is too long to be read.
    #[error("it is longer than {allowed} bytes")]
    TooLong { allowed: u64 },
    /// It was made for a later version of mlx-parity.
    #[error("its format is {found}, but this mlx-parity reads up to {FORMAT}")]
    Future { found: u64 },
    /// Its version never existed.
    #[error("its format is {found}, expected {FORMAT}")]
    Format { found: u64 },
    /// The key is not a hash.
    #[error("`made_by.key` is `{found}`, expected 64 lower-case hexadecimal digits")]
    Key { found: String },
    /// The file of recipes is not described as it must be.
    #[error("`recipes`: {problem}")]
    Recipes { problem: String },
    /// A part of the manifest beside its tensors contradicts itself.
    #[error("`{key}`: {problem}")]
    Part { key: &'static str, problem: String },
    /// An entry contradicts itself or another entry.
    #[error("tensor {index} (`{}`): {problem}", name.escape_debug())]
    Tensor { index: usize, name: String, problem: String },
}

impl Manifest {
    /// Reads a manifest and checks every number, name and path in it. It opens no other file.
    ///
    /// # Errors
    ///
    /// When the text is not a manifest of this version, or contradicts itself.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        // The version comes first, alone: a later format may have keys that are unknown here.
        #[derive(Deserialize)]
        struct Probe {
            format: u64,
        }
        match serde_json::from_slice::<Probe>(text)?.format {
            found if found > u64::from(FORMAT) => return Err(ManifestError::Future { found }),
            found if found < u64::from(FORMAT) => return Err(ManifestError::Format { found }),
            _ => {}
        }
        let manifest: Self = serde_json::from_slice(text)?;
        if !is_sha256(&manifest.made_by.key) {
            return Err(ManifestError::Key { found: manifest.made_by.key });
        }
        if let Some(recipes) = &manifest.recipes {
            recipes.check(&manifest.tensors).map_err(|problem| ManifestError::Recipes { problem })?;
        }
        let is_golden = |name: &str| {
            manifest.tensors.iter().any(|entry| entry.role == Role::Golden && entry.name == name)
        };
        let parts = [
            ("made_by.also", manifest.made_by.also.as_ref().and_then(SecondScript::problem)),
            ("adapters", manifest.adapters.as_ref().and_then(|adapters| adapters.problem(is_golden))),
            ("external_weights", manifest.external_weights.as_deref().and_then(ExternalRecord::problem)),
            ("second_reference", manifest.second_reference.as_ref().and_then(SecondReference::problem)),
        ];
        for (key, problem) in parts {
            if let Some(problem) = problem {
                return Err(ManifestError::Part { key, problem });
            }
        }
        let mut names = HashSet::new();
        let mut sequences = HashMap::new();
        for (index, entry) in manifest.tensors.iter().enumerate() {
            let bad = |problem| ManifestError::Tensor { index, name: entry.name.clone(), problem };
            entry.check().map_err(bad)?;
            if !names.insert((entry.role, entry.name.as_str())) {
                return Err(bad(format!("another {} has this name", entry.role.name())));
            }
            if let Some(sequence) = entry.sequence
                && let Some(other) = sequences.insert(sequence, entry.name.as_str())
            {
                return Err(bad(format!("its sequence {sequence} is already used by `{other}`")));
            }
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(number: u32, lr: f64) -> Value {
        json!({"number": number, "parameter": "w", "optimizer": "adamw", "lr": lr})
    }

    fn manifest() -> Value {
        let sha = "0".repeat(64);
        json!({
            "format": 1,
            "made_by": {"key": sha, "script": "exporter/references/x.py", "source": "pkg:Class", "params": {"dim": 4}},
            "provenance": {"packages": {"numpy": "2.4.6"}},
            "tensors": [
                {"name": "norm1", "role": "golden", "file": "goldens.safetensors", "dtype": "float32", "shape": [2, 3],
                 "sha256": sha, "sequence": 0, "floor": {"max": 1e-7, "rms": 2e-8}, "floor_block": "layers.0", "spread": {"max": 3e-7, "rms": 4e-8},
                 "place": "x.py:Block.norm1"},
                {"name": "norm1@1", "role": "golden", "file": "goldens.safetensors", "dtype": "float32",
                 "shape": [2, 3], "sha256": sha, "sequence": 1, "no_floor": "the float64 run failed"},
                {"name": "norm1", "role": "input", "file": "sub/in.npy", "dtype": "int32", "shape": [], "sha256": sha},
                {"name": "w", "role": "weight", "file": "w.npz", "key": "p.w", "dtype": "bfloat16", "shape": [0],
                 "sha256": sha}
            ]
        })
    }

    fn parse(value: &Value) -> Result<Manifest, ManifestError> {
        Manifest::parse(value.to_string().as_bytes())
    }

    #[test]
    fn a_sound_manifest_comes_back_as_it_was_written() {
        let parsed = parse(&manifest()).unwrap();
        assert_eq!(serde_json::to_value(&parsed).unwrap(), manifest());
        assert_eq!(parsed.tensors[3].key(), "p.w");
    }

    #[test]
    fn every_fault_has_its_own_words() {
        type Damage = (&'static str, Value, &'static str);
        let huge = json!([u64::MAX / 2, 4]);
        let faults: &[Damage] = &[
            ("/format", json!(2), "its format is 2, but this mlx-parity reads up to 1"),
            ("/format", json!(0), "its format is 0, expected 1"),
            ("/format", json!("1"), "invalid type: string"),
            (
                "/made_by/key",
                json!("ABC"),
                "`made_by.key` is `ABC`, expected 64 lower-case hexadecimal digits",
            ),
            ("/made_by/script", json!(null), "invalid type: null, expected a string"),
            (
                "/made_by/also",
                json!({"script": "b.py", "sha256": "0"}),
                "`made_by.also`: its sha256 is `0`, expected 64",
            ),
            ("/adapters", json!({"files": []}), "`adapters`: it names no file"),
            (
                "/adapters",
                json!({"files": [{"file": "a.npz"}], "changes": {"x": {"max": 1, "rms": 1}}}),
                "`adapters`: it has a change of `x`, which is not a golden",
            ),
            (
                "/adapters",
                json!({"files": [{"file": "a.npz"}], "changes": {"norm1": {"max": 1, "rms": 2}}}),
                "`adapters`: the change of `norm1` has max 1e0 and rms 2e0, expected 0 <= rms <= max",
            ),
            (
                "/adapters",
                json!({"files": [{"file": "a.npz", "rank": 0}]}),
                "`adapters`: the rank of `a.npz` is 0",
            ),
            (
                "/second_reference",
                json!({"script": "b.py", "goldens": {"norm1": {"floors": 1.0, "gate": 1.0}}}),
                "`second_reference`: `norm1` needs `floors` or `gate`",
            ),
            ("/tensors/0/role", json!("output"), "unknown variant `output`, expected one of `golden`"),
            ("/tensors/0/dtype", json!("float8"), "unknown variant `float8`, expected one of `bool`"),
            ("/tensors/0/name", json!(""), "tensor 0 (``): its name is empty"),
            (
                "/tensors/0/name",
                json!("a\u{1b}[2J"),
                "tensor 0 (`a\\u{1b}[2J`): its name is empty or has control",
            ),
            ("/tensors/1/name", json!("norm1"), "tensor 1 (`norm1`): another golden has this name"),
            ("/tensors/1/sequence", json!(0), "its sequence 0 is already used by `norm1`"),
            ("/tensors/0/sequence", json!(-1), "invalid value: integer `-1`, expected u64"),
            ("/tensors/0/sequence", json!(null), "a golden needs a `sequence`"),
            ("/tensors/2/sequence", json!(0), "only a golden has a `sequence`, but this is an input"),
            (
                "/tensors/3/floor",
                json!({"max": 0, "rms": 0}),
                "only a golden has a `floor`, but this is a weight",
            ),
            (
                "/tensors/3/spread",
                json!({"max": 0, "rms": 0}),
                "only a golden has a `spread`, but this is a weight",
            ),
            ("/tensors/3/no_floor", json!("why"), "only a golden has a `no_floor`, but this is a weight"),
            ("/tensors/1/floor_block", json!("layers.0"), "it has a `floor_block`, but no `floor`"),
            ("/tensors/0/floor_block", json!(""), "its `floor_block` is empty or has control characters"),
            ("/tensors/3/step", step(1, 0.1), "only a golden has a `step`, but this is a weight"),
            ("/tensors/0/step", step(0, 0.1), "its step has the number 0, expected 1 or more"),
            ("/tensors/0/no_floor", json!("why"), "it has a `floor` and a `no_floor`, expected one of them"),
            (
                "/tensors/0/spread/rms",
                json!(1.0),
                "its spread has max 3e-7 and rms 1e0, expected 0 <= rms <= max",
            ),
            ("/tensors/0/shape", json!([2, -3]), "invalid value: integer `-3`"),
            ("/tensors/0/shape", json!([1.5]), "invalid type: floating point"),
            ("/tensors/0/shape", huge, "has more bytes than memory can hold"),
            ("/tensors/0/shape", json!(vec![1; 65]), "it has 65 axes, at most 64 are allowed"),
            ("/tensors/0/sha256", json!("0"), "its sha256 is `0`, expected 64"),
            ("/tensors/0/floor/max", json!(-1.0), "expected 0 <= rms <= max"),
            (
                "/tensors/0/floor/rms",
                json!(1.0),
                "its floor has max 1e-7 and rms 1e0, expected 0 <= rms <= max",
            ),
            ("/tensors/0/file", json!("../g.npy"), "its file `../g.npy` is not a plain path from the folder"),
            ("/tensors/0/file", json!("/etc/g.npy"), "is not a plain path from the folder"),
            ("/tensors/0/file", json!("a\\b.npy"), "is not a plain path from the folder"),
            ("/tensors/0/file", json!("C:g.npy"), "is not a plain path from the folder"),
            ("/tensors/0/file", json!("g.txt"), "`g.txt` is not a tensor file: its name ends in `.txt`"),
            (
                "/tensors/0/file",
                json!("g.bin"),
                "expected .npy, .npz or .safetensors; convert it with `python",
            ),
            ("/tensors/2/key", json!("k"), "it has a `key`, but an npy file has no names"),
            ("/tensors/2/sequnce", json!(0), "unknown field `sequnce`"),
        ];
        for (at, value, words) in faults {
            let mut broken = manifest();
            let (parent, key) = at.rsplit_once('/').unwrap();
            broken.pointer_mut(parent).unwrap()[key] = value.clone();
            let error = parse(&broken).unwrap_err().to_string();
            assert!(error.contains(words), "{at}: {error}");
        }
    }

    #[test]
    fn a_later_format_is_recognised_whatever_else_it_has() {
        let error = Manifest::parse(br#"{"format": 7, "kind": "new"}"#).unwrap_err();
        assert!(matches!(error, ManifestError::Future { found: 7 }));
    }

    #[test]
    fn broken_text_names_its_place() {
        let error = Manifest::parse(b"{\n  \"format\": 1,\n  \"made_by\": }").unwrap_err().to_string();
        assert!(error.contains("line 3"), "{error}");
        let error = Manifest::parse(br#"{"format": 1, "format": 1}"#).unwrap_err().to_string();
        assert!(error.contains("duplicate field `format`"), "{error}");
        assert!(Manifest::parse(&b"[".repeat(100_000)).is_err());
        assert!(Manifest::parse(br#"{"format": 1e999}"#).is_err());
    }
}
