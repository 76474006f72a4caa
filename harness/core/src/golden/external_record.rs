//! What a manifest records about external weights, which are not in the set.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::files::hash::is_sha256;

/// One file of external weights that the reference read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalRecord {
    /// The name of the file without its folder.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Hex SHA-256 of its bytes.
    pub sha256: String,
}

impl ExternalRecord {
    /// What is wrong with the records of a manifest.
    pub(super) fn problem(records: &[Self]) -> Option<String> {
        if records.is_empty() {
            return Some("it names no file".to_owned());
        }
        let mut names = BTreeSet::new();
        records.iter().find_map(|record| {
            let name = record.name.escape_debug();
            let is_plain = record.name.ends_with(".safetensors")
                && !record.name.contains(['/', '\\'])
                && !record.name.chars().any(char::is_control);
            if !is_plain {
                return Some(format!("`{name}` is not the plain name of a safetensors file"));
            }
            if !is_sha256(&record.sha256) {
                let found = record.sha256.escape_debug();
                return Some(format!(
                    "the sha256 of `{name}` is `{found}`, expected 64 lower-case hexadecimal digits"
                ));
            }
            (!names.insert(&record.name)).then(|| format!("`{name}` is named twice"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_a_plain_name_and_a_checksum_once() {
        let record =
            |name: &str, sha256: &str| ExternalRecord { name: name.into(), size: 8, sha256: sha256.into() };
        let sha = "0".repeat(64);
        let (one, two) = (record("a.safetensors", &sha), record("b.safetensors", &sha));
        assert_eq!(ExternalRecord::problem(&[one.clone(), two]), None);
        for (records, words) in [
            (vec![], "no file"),
            (vec![record("../a.safetensors", &sha)], "not the plain name"),
            (vec![record("a.bin", &sha)], "not the plain name"),
            (vec![record("a.safetensors", "F")], "expected 64"),
            (vec![one.clone(), one], "twice"),
        ] {
            let problem = ExternalRecord::problem(&records).unwrap();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
