//! For every way in which a set can be wrong, exactly its class and its words.

use std::error::Error;
use std::fs;

use mlx_parity_core::gate::Class;
use mlx_parity_core::golden::FixtureError;
use serde_json::{Value, json};

use super::{Fixture, SCRIPT, SET, reference};

#[test]
fn every_problem_has_its_class_and_words() {
    type Case = (&'static str, fn(&Fixture), Class, &'static str);
    const REGENERATE: &str = "run `cargo xtask regenerate-fixtures gated_mlp/block`";
    const PULL: &str = "run `git lfs pull`";
    const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    let cases: &[Case] = &[
        ("no folder", |f| fs::remove_dir_all(f.folder()).unwrap(), Class::Missing, "no fixtures exist at `"),
        (
            "a file for a folder",
            |f| {
                fs::remove_dir_all(f.folder()).unwrap();
                fs::write(f.folder(), "").unwrap();
            },
            Class::Missing,
            "no fixtures exist at `",
        ),
        (
            "no manifest",
            |f| fs::remove_file(f.path("manifest.json")).unwrap(),
            Class::Missing,
            "no manifest exists at `",
        ),
        (
            "manifest is no JSON",
            |f| f.edit("manifest.json", |b| b.truncate(30)),
            Class::Corrupt,
            "manifest.json` cannot be used",
        ),
        (
            "manifest is a pointer",
            |f| fs::write(f.path("manifest.json"), POINTER).unwrap(),
            Class::Missing,
            "manifest.json` is a Git LFS pointer",
        ),
        (
            "manifest contradicts itself",
            |f| f.edit_manifest("/tensors/1/sequence", json!(0)),
            Class::Corrupt,
            "manifest.json` cannot be used",
        ),
        (
            "no file",
            |f| fs::remove_file(f.path("hidden.npy")).unwrap(),
            Class::Missing,
            "hidden.npy` is missing",
        ),
        (
            "truncated",
            |f| f.edit("goldens.safetensors", |b| b.truncate(b.len() - 1)),
            Class::Corrupt,
            "goldens.safetensors` is truncated",
        ),
        (
            "one bit",
            |f| f.edit("goldens.safetensors", |b| *b.last_mut().unwrap() ^= 1),
            Class::Corrupt,
            "`norm1@1` of `",
        ),
        ("one bit in the npz", |f| flip(f, "weights.npz", &[7, 8, 9]), Class::Corrupt, "has SHA-256 "),
        (
            "broken header",
            |f| f.edit("goldens.safetensors", |b| b[8] = b'['),
            Class::Corrupt,
            "goldens.safetensors` is corrupt",
        ),
        (
            "pointer",
            |f| fs::write(f.path("weights.npz"), POINTER).unwrap(),
            Class::Missing,
            "weights.npz` is a Git LFS pointer",
        ),
        (
            "other dtype",
            |f| f.edit_manifest("/tensors/2/dtype", json!("uint32")),
            Class::Corrupt,
            "hidden.npy` is int32, but the manifest lists uint32",
        ),
        (
            "other shape",
            |f| f.edit_manifest("/tensors/0/shape", json!([3, 2])),
            Class::Corrupt,
            "goldens.safetensors` has shape [2, 3], but the manifest lists [3, 2]",
        ),
        (
            "tensor not listed",
            |f| drop_tensor(f, 1),
            Class::Corrupt,
            "goldens.safetensors` holds `norm1@1`, which is not in the manifest",
        ),
        (
            "file not listed",
            |f| fs::write(f.path("old.npz"), "").unwrap(),
            Class::Corrupt,
            "old.npz` is not in the manifest; move it out of the folder of `",
        ),
        (
            "file in a folder not listed",
            |f| {
                fs::create_dir(f.path("deep")).unwrap();
                fs::write(f.path("deep/old.npz"), "").unwrap();
            },
            Class::Corrupt,
            "old.npz` is not in the manifest",
        ),
    ];
    for (name, damage, class, words) in cases {
        let fixture = Fixture::new();
        damage(&fixture);
        let problems = fixture.verify();
        assert_eq!(problems.len(), 1, "{name}: {problems:?}");
        let text = problems[0].to_string();
        assert_eq!(problems[0].class(), *class, "{name}: {text}");
        assert!(text.contains(words), "{name}: {text}");
        // Only the person who put a foreign file there knows where it belongs, so no command is offered.
        if !text.contains("; move it out of the folder of `") {
            let command = if text.contains("LFS") { PULL } else { REGENERATE };
            assert!(text.ends_with(command), "{name}: {text}");
        }
    }
}

fn flip(fixture: &Fixture, file: &str, data: &[u8]) {
    fixture.edit(file, |bytes| {
        let at = bytes.windows(data.len()).position(|window| window == data).unwrap();
        bytes[at] ^= 1;
    });
}

fn drop_tensor(fixture: &Fixture, index: usize) {
    let text = fs::read(fixture.path("manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_slice(&text).unwrap();
    manifest["tensors"].as_array_mut().unwrap().remove(index);
    fixture.write_manifest(&manifest);
}

#[test]
fn a_tensor_that_is_not_in_its_file_is_missing() {
    let fixture = Fixture::new();
    fixture.edit_manifest("/tensors/3/key", json!("proj.bias"));
    let problems = fixture.verify();
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{texts:?}");
    assert_eq!((problems[0].class(), problems[1].class()), (Class::Missing, Class::Corrupt));
    assert!(texts[0].starts_with("tensor `proj.bias` is missing from `"), "{texts:?}");
    assert!(texts[1].contains("holds `proj.weight`, which is not in the manifest"), "{texts:?}");
}

#[test]
fn all_problems_are_found_at_once() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.path("hidden.npy")).unwrap();
    fixture.edit("goldens.safetensors", |bytes| {
        let end = bytes.len();
        bytes[end - 1] ^= 1;
        bytes[end - 25] ^= 1;
    });
    fs::write(fixture.path("notes.txt"), "").unwrap();
    let problems = fixture.verify();
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert!(matches!(problems[0], FixtureError::Checksum { .. }));
    assert!(matches!(problems[1], FixtureError::Checksum { .. }));
    assert!(matches!(problems[2], FixtureError::NoFile { .. }));
    assert!(matches!(problems[3], FixtureError::ExtraFile { .. }));
}

#[test]
fn a_later_format_asks_for_an_update_and_a_cause_is_in_the_chain() {
    let fixture = Fixture::new();
    fixture.edit_manifest("/format", json!(2));
    let error = fixture.open().unwrap_err();
    assert_eq!(error.class(), Class::Corrupt);
    assert!(error.to_string().ends_with("cannot be used; update mlx-parity"), "{error}");
    assert_eq!(error.source().unwrap().to_string(), "its format is 2, but this mlx-parity reads up to 1");
}

#[test]
fn a_stale_set_names_what_changed() {
    let set = Fixture::new();
    let set = set.open().unwrap();
    let mut params = reference();
    params["params"]["dim"] = json!(4);
    let mut without = reference();
    without.as_object_mut().unwrap().remove("source");
    for (reference, script, words) in [
        (reference(), &b"print('other')\n"[..], "the content of `exporter/references/x.py` changed"),
        (params, SCRIPT, "`params` of the reference block changed"),
        (without, SCRIPT, "`source` of the reference block changed"),
    ] {
        let error = set.check_fresh(&reference, script).unwrap_err();
        assert_eq!(error.class(), Class::Stale);
        assert_eq!(
            error.to_string(),
            format!(
                "fixtures `{SET}` are stale: {words} since they were made; \
                 run `cargo xtask regenerate-fixtures {SET}`"
            )
        );
    }
}
