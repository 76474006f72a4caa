//! The recipe of a set: read with its manifest, and refused when it does not fit.

use std::fs;

use mlx_parity_core::gate::Class;
use mlx_parity_core::golden::{FixtureError, Role};
use mlx_parity_core::text::error_chain;
use serde_json::{Value, json};

use super::{Fixture, sha};

const RECIPE: &str = r#"{
 "format": 1, "sources": ["x.py"],
 "nodes": [
  ["input",[],{"name":"hidden"}],
  ["weight",[],{"name":"w"}],
  ["add",[0,1],{},0,3]
 ],
 "goldens": {"norm1":2}, "missing": {"norm1@1":"it comes from NumPy"}
}"#;

/// A sound set with this recipe.
fn with_recipe(recipe: &str) -> Fixture {
    let fixture = Fixture::new();
    fs::write(fixture.path("recipes.json"), recipe).unwrap();
    let text = fs::read(fixture.path("manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_slice(&text).unwrap();
    manifest["recipes"] = json!({"file": "recipes.json", "sha256": sha(recipe.as_bytes())});
    fixture.write_manifest(&manifest);
    fixture
}

#[track_caller]
fn check(fixture: &Fixture, class: Class, words: &str) {
    let problems = fixture.verify();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let text = error_chain(&problems[0]);
    assert!(text.contains(words), "{text}");
    assert_eq!(problems[0].class(), class);
}

#[test]
fn a_recipe_belongs_to_its_set() {
    let fixture = with_recipe(RECIPE);
    assert!(fixture.verify().is_empty(), "{:?}", fixture.verify());
    let recipe = fixture.open().unwrap().recipe().unwrap().unwrap();
    assert_eq!((recipe.nodes.len(), recipe.place(2).as_deref()), (3, Some("x.py:3")));
    assert_eq!(Fixture::new().open().unwrap().recipe().unwrap(), None);
}

#[test]
fn constants_are_tensors_like_others() {
    let fixture = Fixture::new();
    fixture.edit_manifest("/tensors/3/role", json!("constant"));
    let set = fixture.open().unwrap();
    assert_eq!(set.entries(Role::Constant).count(), 1);
    assert_eq!(set.constant("w").unwrap().len(), 3);
    assert!(matches!(set.constant("v"), Err(FixtureError::NotListed { role: Role::Constant, .. })));
    let text = fs::read_to_string(fixture.path("manifest.json")).unwrap();
    fs::write(
        fixture.path("manifest.json"),
        text.replace("\"role\": \"constant\"", "\"role\": \"constant\", \"sequence\": 7"),
    )
    .unwrap();
    check(&fixture, Class::Corrupt, "only a golden has a `sequence`, but this is a constant");
}

#[test]
fn a_damaged_or_foreign_recipe_is_refused() {
    let fixture = with_recipe(RECIPE);
    fs::remove_file(fixture.path("recipes.json")).unwrap();
    check(&fixture, Class::Missing, "recipes.json` is missing; run `cargo xtask regenerate-fixtures");
    let fixture = with_recipe(RECIPE);
    fixture.edit("recipes.json", |bytes| bytes.push(b'\n'));
    check(&fixture, Class::Corrupt, "recipes.json` has SHA-256");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    fs::write(fixture.path("recipes.json"), pointer).unwrap();
    check(&fixture, Class::Missing, "recipes.json` is a Git LFS pointer");
    for (from, to, words) in [
        ("\"add\",[0,1]", "\"add\",[0,2]", "recipes.json` cannot be used; run `cargo xtask"),
        ("\"add\",[0,1]", "\"add\",[0,2]", "node 2 (`add`): its operand 2 is not an earlier node"),
        (
            "\"format\": 1",
            "\"format\": 2",
            "recipes.json` cannot be used; update mlx-parity: its format is 2",
        ),
        ("\"norm1\":2", "", "golden `norm1` is neither in `goldens` nor in `missing`"),
        ("\"norm1\":2", "\"norm1\":2,\"norm2\":2", "golden `norm2` is not in the manifest"),
        (
            "\"weight\",[],{\"name\":\"w\"}",
            "\"weight\",[],{\"name\":\"v\"}",
            "node 1 is the weight `v`, which is not in the manifest",
        ),
        (
            "\"weight\",[],{\"name\":\"w\"}",
            "\"constant\",[],{\"name\":\"w\"}",
            "node 1 is the constant `w`, which is not",
        ),
    ] {
        let class = Class::Corrupt;
        check(&with_recipe(&RECIPE.replace(from, to)), class, words);
    }
}

#[test]
fn the_manifest_describes_the_file() {
    for (at, value, words) in [
        ("/recipes/file", json!("../r.json"), "`recipes`: its file `../r.json` is not a plain path"),
        ("/recipes/file", json!("r.txt"), "that ends in .json"),
        ("/recipes/file", json!("manifest.json"), "its file `manifest.json` is already used"),
        ("/recipes/sha256", json!("0"), "its sha256 is `0`, expected 64"),
    ] {
        let fixture = with_recipe(RECIPE);
        fixture.edit_manifest(at, value);
        check(&fixture, Class::Corrupt, words);
    }
}
