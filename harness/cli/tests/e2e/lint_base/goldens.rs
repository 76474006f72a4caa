//! Goldens, floors and references that change together with port code or without it.

use std::fs;

use super::{MANIFEST, PORT, Repository, SPEC};
use crate::command::check;

/// Edits the manifest's entry of a golden.
fn edit_golden(repository: &Repository, file: &str, name: &str, edit: impl FnOnce(&mut serde_json::Value)) {
    let path = repository.0.path().join(file);
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let tensors = manifest["tensors"].as_array_mut().unwrap();
    edit(tensors.iter_mut().find(|one| one["name"] == name).unwrap());
    fs::write(path, serde_json::to_vec(&manifest).unwrap()).unwrap();
}

/// Changes a golden in the manifest.
fn move_golden(repository: &Repository) {
    edit_golden(repository, MANIFEST, "norm", |norm| norm["sha256"] = "0".repeat(64).into());
}

/// Changes the reference in the manifest.
fn move_reference(repository: &Repository) {
    let path = repository.0.path().join(MANIFEST);
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["made_by"]["key"] = "1".repeat(64).into();
    fs::write(path, serde_json::to_vec(&manifest).unwrap()).unwrap();
}

#[test]
fn goldens_that_change_with_port_code_in_one_commit_are_errors() {
    let repository = Repository::new();
    move_golden(&repository);
    repository.write(PORT, b"// wrong\n");
    let words = [
        "error: goldens change together with port code: `norm`",
        "note: the uncommitted work tree changes them",
        "note: the same branch touches `src/gated_mlp.rs`",
        "note: neither their script, nor their `reference` block, nor the lock of the references changed",
        "in a separate branch",
    ];
    check(repository.lint(), 1, &words);
    repository.commit("Change both");
    check(repository.lint(), 1, &[words[0], " Change both changes them"]);
    // A reference that changes in the same commit is no excuse.
    move_reference(&repository);
    repository.git(&["commit", "-q", "-a", "--amend", "--no-edit"]);
    let words = [words[0], "their reference changed, but a commit changes both", "in a separate commit"];
    check(repository.lint(), 1, &words);
}

/// No single commit shows that a port becomes its own oracle.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn goldens_that_follow_the_port_in_a_later_commit_are_errors() {
    for golden_first in [false, true] {
        let repository = Repository::new();
        let goldens = || {
            move_golden(&repository);
            repository.commit("Make goldens anew");
        };
        let port = || {
            repository.write(PORT, b"// wrong\n");
            repository.commit("Change the port");
        };
        let steps: [&dyn Fn(); 2] = if golden_first { [&goldens, &port] } else { [&port, &goldens] };
        steps.iter().for_each(|step| step());
        check(
            repository.lint(),
            1,
            &[
                "error: goldens change together with port code: `norm`",
                " Make goldens anew changes them",
                "note: the same branch touches `src/gated_mlp.rs`",
                "help: regenerate them in a separate branch",
            ],
        );
    }
    // The set may have moved to another folder meanwhile.
    let repository = Repository::new();
    repository.write(PORT, b"// wrong\n");
    repository.commit("Change the port");
    repository.git(&["mv", "fixtures/gated_mlp/block", "fixtures/gated_mlp/other"]);
    repository.edit(SPEC, "port:", "fixtures: gated_mlp/other\nport:");
    repository.commit("Move the set");
    let text = check(repository.lint(), 0, &["0 errors\n"]);
    assert!(!text.contains("goldens change"), "{text}");
    let moved = "fixtures/gated_mlp/other/manifest.json";
    edit_golden(&repository, moved, "norm", |norm| norm["sha256"] = "0".repeat(64).into());
    repository.commit("Make goldens anew");
    check(repository.lint(), 1, &["error: goldens change together with port code: `norm`"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_port_may_follow_its_reference() {
    let repository = Repository::new();
    move_golden(&repository);
    move_reference(&repository);
    repository.commit("Follow the reference");
    // Goldens may change with their reference. The set is also stale and corrupt here, which other checks report.
    let text = check(repository.lint(), 1, &["error: spec `gated_mlp/block`"]);
    assert!(!text.contains("goldens change"), "{text}");
    repository.write(PORT, b"// as the reference has it now\n");
    repository.commit("Change the port");
    check(
        repository.lint(),
        1,
        &[
            "warning: goldens change in a branch that changes port code: `norm`",
            "note: their reference changed",
            "`cargo parity regenerate-fixtures --check --run gated_mlp/block` shows whether",
        ],
    );
    // The lock of the environment is a part of the reference.
    let repository = Repository::new();
    repository.write("exporter/references/uv.lock", b"version = 1\n");
    repository.write("exporter/references/pyproject.toml", b"");
    move_golden(&repository);
    repository.commit("Update torch");
    repository.write(PORT, b"// as the reference has it now\n");
    check(repository.lint(), 1, &["warning: goldens change in a branch that changes port code: `norm`"]);
}

#[test]
fn goldens_that_change_without_their_reference_are_a_warning() {
    let repository = Repository::new();
    move_golden(&repository);
    repository.commit("Make goldens anew");
    check(
        repository.lint(),
        1,
        &["warning: goldens change, but their reference does not: `norm`", "--check --run gated_mlp/block`"],
    );
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn floors_that_grew_are_loosened_tolerances() {
    let repository = Repository::new();
    let grow = |by: f64| {
        edit_golden(&repository, MANIFEST, "out", |out| {
            for part in ["max", "rms"] {
                out["floor"][part] = (out["floor"][part].as_f64().unwrap() * by).into();
            }
        });
    };
    grow(1000.0);
    repository.commit("Make goldens anew");
    let words = "loosens a tolerance: the floor of `out` grew 1000x, from max ";
    check(
        repository.lint(),
        0,
        &[&format!("warning: {words}"), "help: `cargo parity regenerate-fixtures --check --run"],
    );
    check(repository.command(&["--base", "main", "--strict"]).output().unwrap(), 1, &[words]);
    repository.write(PORT, b"// wrong\n");
    let words = "error: loosens a tolerance together with port code: the floor of `out` grew 1000x";
    check(repository.lint(), 1, &[words, "note: the same branch touches `src/gated_mlp.rs`"]);
    // A smaller floor does not loosen, and an unchanged golden keeps its floor.
    grow(0.5e-3);
    check(repository.lint(), 0, &["0 errors\n"]);
    grow(2.2);
    check(repository.lint(), 1, &["the floor of `out` grew 1.10x"]);
}

#[test]
fn a_new_set_beside_its_port_moves_nothing() {
    let repository = Repository::new();
    let set = "fixtures/gated_mlp/block";
    for file in
        ["manifest.json", "goldens.safetensors", "inputs.safetensors", "recipes.json", "weights.safetensors"]
    {
        let bytes = fs::read(repository.0.path().join(set).join(file)).unwrap();
        repository.write(&format!("fixtures/gated_mlp/other/{file}"), &bytes);
    }
    let spec = fs::read(repository.0.path().join(SPEC)).unwrap();
    repository.write("parity-specs/gated_mlp/other.yaml", &spec);
    repository.write("src/other.rs", b"// new\n");
    repository.commit("Add a port");
    check(repository.lint(), 0, &["2 specs, 6 checkpoints", "0 errors\n"]);
}

#[test]
fn a_file_of_goldens_without_its_manifest_counts_as_changed() {
    let repository = Repository::new();
    repository.write("fixtures/gated_mlp/block/goldens.safetensors", b"rubbish");
    repository.write(PORT, b"// wrong\n");
    let words = [
        "together with port code: `fixtures/gated_mlp/block/goldens.safetensors`",
        "the uncommitted work tree",
    ];
    check(repository.lint(), 1, &words);
}
