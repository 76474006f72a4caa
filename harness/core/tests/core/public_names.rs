//! No two public types of our crates share a name.

use std::collections::BTreeMap;
use std::fs;

use crate::repository;

#[test]
fn every_public_type_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in walkdir::WalkDir::new(repository().join("harness")) {
        let path = entry.unwrap().into_path();
        let shown = path.strip_prefix(repository()).unwrap().display().to_string();
        // The tutorial writes a crate of its own.
        if shown.ends_with(".rs") && shown.contains("/src/") && !shown.contains("/tutorial/") {
            for name in public_types(&fs::read_to_string(&path).unwrap()) {
                places.entry(name).or_default().push(shown.clone());
            }
        }
    }
    assert!(places.len() > 100, "only {} types were found", places.len());
    places.retain(|_, files| files.len() > 1);
    assert!(places.is_empty(), "these names are taken twice: {places:#?}");
}

/// The names of the types that a file declares as `pub`.
fn public_types(text: &str) -> Vec<String> {
    let declared = text.lines().filter_map(|line| line.strip_prefix("pub ")?.split_once(' '));
    let types = declared.filter(|(kind, _)| ["struct", "enum", "trait", "type", "union"].contains(kind));
    types.map(|(_, rest)| rest.chars().take_while(|c| c.is_alphanumeric()).collect()).collect()
}
