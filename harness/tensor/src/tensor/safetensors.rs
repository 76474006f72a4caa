//! The safetensors format: a length, a JSON header, and the tensors' bytes without gaps.
//!
//! The types and the checks are those of the safetensors crate, but the header is read here: the crate's own reader
//! accepts two entries with one name and forgets the order of names.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype as FileDtype, Metadata, TensorInfo};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use super::owned::{Layout, Storage, Tensor};
use super::{Dtype, MAX_AXES, TensorError, TensorPlace};

/// Bytes before the header, which hold its length.
const LENGTH: usize = 8;
/// The longest header that is read, as in the reference implementation.
const MAX_HEADER: u64 = 100_000_000;

/// A safetensors file whose header was read and checked.
#[derive(Debug)]
pub(super) struct Safetensors {
    path: PathBuf,
    storage: Storage,
    /// Where the tensors' bytes start.
    start: usize,
    tensors: Vec<(String, TensorInfo)>,
    metadata: BTreeMap<String, String>,
}

impl Safetensors {
    pub(super) fn open(path: &Path, storage: Storage) -> Result<Self, TensorError> {
        let place = TensorPlace::file(path);
        let bytes = storage.as_ref();
        let found = bytes.len() as u64;
        let truncated = |wanted| TensorError::Truncated { place: place.clone(), wanted, found };
        let bad = |problem: String| TensorError::Header { place: place.clone(), problem };

        let length = bytes.first_chunk::<LENGTH>().ok_or_else(|| truncated(LENGTH as u64))?;
        let length = u64::from_le_bytes(*length);
        if length > MAX_HEADER {
            return Err(bad(format!("it takes {length} bytes, at most {MAX_HEADER} are read")));
        }
        let start = LENGTH + length as usize;
        let text = bytes.get(LENGTH..start).ok_or_else(|| truncated(start as u64))?;
        let header: FileHeader = serde_json::from_slice(text).map_err(|error| bad(error.to_string()))?;
        if let Some((name, info)) = header.tensors.iter().find(|(_, info)| info.shape.len() > MAX_AXES) {
            let axes = info.shape.len();
            return Err(bad(format!("tensor `{name}` has {axes} axes, at most {MAX_AXES} are allowed")));
        }

        let data = check(&header.tensors).map_err(bad)? as u64;
        // The crate's own sum of header and data can overflow.
        let wanted = (start as u64).checked_add(data).ok_or_else(|| bad("its offsets overflow".into()))?;
        if found < wanted {
            return Err(truncated(wanted));
        }
        if found > wanted {
            return Err(TensorError::Longer { place, wanted, found });
        }
        let FileHeader { tensors, metadata } = header;
        Ok(Self { path: path.to_owned(), storage, start, tensors, metadata })
    }

    /// Names in the order of the header.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|(name, _)| name.as_str())
    }

    pub(super) fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The tensor at this position among the names.
    pub(super) fn get(&self, index: usize) -> Result<Tensor, TensorError> {
        let (name, info) = &self.tensors[index];
        let place = || TensorPlace::tensor(&self.path, name);
        let dtype = element(info.dtype)
            .map_err(|found| TensorError::Dtype { place: place(), found: found.into() })?;
        let range = self.start + info.data_offsets.0..self.start + info.data_offsets.1;
        Tensor::within(dtype, info.shape.clone(), Layout::default(), self.storage.clone(), range)
            .map_err(|source| TensorError::View { place: place(), source })
    }
}

/// The bytes of data that the entries cover; each entry must start where the one before it ends.
fn check(tensors: &[(String, TensorInfo)]) -> Result<usize, String> {
    let mut sorted = tensors.to_vec();
    sorted.sort_by_key(|(_, info)| info.data_offsets);
    let metadata = Metadata::new(None::<HashMap<_, _>>, sorted).map_err(|error| match error {
        SafeTensorError::InvalidOffset(name) => {
            format!(
                "tensor `{name}` does not begin where the one before it ends: there is an overlap or a hole"
            )
        }
        SafeTensorError::TensorInvalidInfo => {
            "a tensor's offsets are not as far apart as its dtype and shape need".into()
        }
        SafeTensorError::ValidationOverflow => "a tensor's shape has more bytes than memory can hold".into(),
        other => other.to_string(),
    })?;
    Ok(metadata.data_len())
}

fn element(dtype: FileDtype) -> Result<Dtype, &'static str> {
    Ok(match dtype {
        FileDtype::BOOL => Dtype::Bool,
        FileDtype::U8 => Dtype::Uint8,
        FileDtype::U16 => Dtype::Uint16,
        FileDtype::U32 => Dtype::Uint32,
        FileDtype::U64 => Dtype::Uint64,
        FileDtype::I8 => Dtype::Int8,
        FileDtype::I16 => Dtype::Int16,
        FileDtype::I32 => Dtype::Int32,
        FileDtype::I64 => Dtype::Int64,
        FileDtype::F16 => Dtype::Float16,
        FileDtype::BF16 => Dtype::Bfloat16,
        FileDtype::F32 => Dtype::Float32,
        FileDtype::F64 => Dtype::Float64,
        FileDtype::C64 => Dtype::Complex64,
        FileDtype::F4 => return Err("4-bit floats (`F4`)"),
        FileDtype::F6_E2M3 => return Err("6-bit floats (`F6_E2M3`)"),
        FileDtype::F6_E3M2 => return Err("6-bit floats (`F6_E3M2`)"),
        FileDtype::F8_E5M2 => return Err("8-bit floats (`F8_E5M2`)"),
        FileDtype::F8_E4M3 => return Err("8-bit floats (`F8_E4M3`)"),
        FileDtype::F8_E8M0 => return Err("8-bit floats (`F8_E8M0`)"),
        FileDtype::F8_E4M3FNUZ => return Err("8-bit floats (`F8_E4M3FNUZ`)"),
        FileDtype::F8_E5M2FNUZ => return Err("8-bit floats (`F8_E5M2FNUZ`)"),
        _ => return Err("elements of a type newer than this reader"),
    })
}

/// The header with its names in file order; none may appear twice.
struct FileHeader {
    tensors: Vec<(String, TensorInfo)>,
    metadata: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for FileHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = FileHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from names to tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FileHeader, A::Error> {
                let mut seen = HashSet::new();
                let mut header = FileHeader { tensors: Vec::new(), metadata: BTreeMap::new() };
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format_args!("`{name}` appears twice")));
                    }
                    if name == "__metadata__" {
                        // MLX writes `null` for no metadata.
                        header.metadata = map.next_value::<Option<_>>()?.unwrap_or_default();
                    } else {
                        header.tensors.push((name, map.next_value()?));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(header: &str, data: usize) -> Result<Safetensors, String> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend((0..data).map(|i| i as u8));
        Safetensors::open(Path::new("a.safetensors"), Storage::owned(bytes))
            .map_err(|error| error.to_string())
    }

    #[track_caller]
    fn refuses(header: &str, data: usize, words: &str) {
        let error = open(header, data).unwrap_err();
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn metadata_may_be_null_as_mlx_writes_it_and_nothing_else() {
        let with = |metadata: &str| {
            format!(r#"{{"__metadata__":{metadata},"a":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#)
        };
        let file = open(&with("null"), 1).unwrap();
        assert!(file.metadata().is_empty());
        assert_eq!(file.names().collect::<Vec<_>>(), ["a"]);
        refuses(&with("[]"), 1, "invalid type");
        refuses(&with(r#"{"order":null}"#), 1, "invalid type");
    }

    #[test]
    fn names_stand_in_the_order_of_the_header() {
        let file = open(
            r#"{"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]},
                "none":{"dtype":"F32","shape":[0,4],"data_offsets":[3,3]},
                "__metadata__":{"order":"b a"},
                "a":{"dtype":"I8","shape":[],"data_offsets":[0,1]},
                "c":{"dtype":"BF16","shape":[1],"data_offsets":[1,3]}}  "#,
            5,
        )
        .unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["b", "none", "a", "c"]);
        assert_eq!(file.metadata()["order"], "b a");
        let tensor = file.get(3).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (Dtype::Bfloat16, &[1][..]));
        assert_eq!(tensor.view().row_major_bytes(), Some(&[1, 2][..]));
        assert!(file.get(1).unwrap().is_empty());
    }

    #[test]
    fn contradictions_are_refused() {
        let two = |a: &str, b: &str| {
            format!(
                r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":{a}}},"b":{{"dtype":"U8","shape":[4],"data_offsets":{b}}}}}"#
            )
        };
        assert!(open(&two("[0,4]", "[4,8]"), 8).is_ok());
        refuses(&two("[0,4]", "[2,6]"), 6, "tensor `b` does not begin where the one before it ends");
        refuses(&two("[0,4]", "[5,9]"), 9, "overlap or a hole");
        refuses(&two("[0,4]", "[4,9]"), 9, "not as far apart as its dtype and shape need");
        refuses(&two("[0,4]", "[4,8]"), 7, "is truncated: it ends after");
        refuses(&two("[0,4]", "[4,8]"), 9, "but its header declares");
        refuses(&two("[0,4]", "[4,8]").replace("\"b\"", "\"a\""), 8, "`a` appears twice");
        refuses(r#"{"a":{"dtype":"Q7","shape":[],"data_offsets":[0,1]}}"#, 1, "unknown variant `Q7`");
        refuses(r#"{"__metadata__":{"a":1}}"#, 0, "invalid type: integer `1`, expected a string");
        refuses("[]", 0, "expected a map from names to tensors");
        refuses(&"[".repeat(100_000), 0, "bad header");
    }

    #[test]
    fn numbers_that_overflow_are_refused() {
        let huge =
            format!(r#"{{"a":{{"dtype":"F64","shape":[{0},{0}],"data_offsets":[0,8]}}}}"#, u64::MAX / 2);
        refuses(&huge, 8, "more bytes than memory can hold");
        // Eight entries that are each possible and together end eight bytes below 2^64, where the header goes over it.
        let size = (1u64 << 61) - 1;
        let entries: Vec<String> = (0..8)
            .map(|i| (i, i * size, (i + 1) * size))
            .map(|(i, start, end)| {
                format!(r#""{i}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{start},{end}]}}"#)
            })
            .collect();
        refuses(&format!("{{{}}}", entries.join(",")), 0, "its offsets overflow");
        let mut long = u64::MAX.to_le_bytes().to_vec();
        long.extend(b"{}");
        let error = Safetensors::open(Path::new("a.safetensors"), Storage::owned(long)).unwrap_err();
        assert!(error.to_string().contains("at most 100000000 are read"), "{error}");
    }

    #[test]
    fn small_floats_are_refused_by_name_and_leave_the_others_readable() {
        let file = open(
            r#"{"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[],"data_offsets":[2,3]}}"#,
            3,
        )
        .unwrap();
        let error = file.get(0).unwrap_err().to_string();
        assert!(
            error.starts_with("tensor `a` of `a.safetensors` holds 8-bit floats (`F8_E4M3`), expected"),
            "{error}"
        );
        assert!(file.get(1).is_ok());
    }
}
