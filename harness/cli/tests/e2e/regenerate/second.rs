//! A second reference: it must agree with the first, or the set is refused.

use std::fs;

use mlx_parity_core::golden::{FixtureSet, made_by_key};
use mlx_parity_core::tensor::{Dtype, Tensor, write_npy};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::command::{ended, prints};
use crate::shell_project::{Project, SET};

const SECOND: &str = "cp -r made/second \"$1\"\n";
const SPEC: &str = "version: 1\nport: p\nreference: {script: reference.sh, also: second.sh, env: [MARK], timeout: 5s}\n\
    inputs: [x]\ncheckpoints:\n  - {name: a, dtype: float32, policy: fp32}\n  - {name: b, dtype: float32, noise: 2}\n";

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Edits the manifest of a prepared set.
fn edit(project: &Project, folder: &str, change: impl Fn(&mut Value)) {
    let path = project.path(folder).join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(path, manifest.to_string()).unwrap();
}

/// A project with a second reference. One element of its golden `a` is off by `off`.
fn project(off: f32) -> Project {
    let project = Project::new();
    project.write("parity-specs/model/part.yaml", SPEC);
    set_script(&project, SECOND);
    project.make("made/second", 1, off, 1e-6);
    key_of_second(&project);
    project
}

/// Writes the second script, and prepares the first set for it.
fn set_script(project: &Project, text: &str) {
    project.write("second.sh", text);
    let also = json!({"script": "second.sh", "sha256": sha256(text)});
    let script = fs::read(project.path("reference.sh")).unwrap();
    for mark in 1..=2 {
        edit(project, &format!("made/{mark}"), |manifest| {
            manifest["made_by"]["also"] = also.clone();
            let block = json!({"script": "reference.sh", "also": also});
            manifest["made_by"]["key"] = made_by_key(&block, &script).into();
        });
    }
}

fn key_of_second(project: &Project) {
    let script = fs::read(project.path("second.sh")).unwrap();
    edit(project, "made/second", |manifest| {
        manifest["made_by"]["script"] = "second.sh".into();
        manifest["made_by"]["key"] = made_by_key(&json!({"script": "second.sh"}), &script).into();
    });
}

#[test]
fn the_manifest_says_how_far_both_agree() {
    let project = project(2e-6);
    let line = "second reference second.sh: 2 goldens agree within 2.53x the floor, furthest `a`";
    project.prints(1, &["--yes"], 0, &["run model/part, the second reference second.sh, 5s at most", line]);
    let set = FixtureSet::open(&project.path("fixtures"), SET).unwrap();
    let second = set.manifest().second_reference.clone().unwrap();
    assert_eq!((second.script.as_str(), second.furthest()), ("second.sh", Some(("a", 2.53))));
    assert_eq!(second.goldens["b"].floors, Some(0.0));
    let shown = ended(project.command(&["fixtures", "info", SET]).output().unwrap()).1;
    prints(&shown, &["second    second.sh: 2 goldens agree within 2.53x the floor, furthest `a`"]);
    project.prints(1, &["--check"], 0, &["1 current, 0 not"]);
    project.prints(
        1,
        &["--check", "--run"],
        0,
        &["note: second reference second.sh: 2 goldens agree within 2.53x"],
    );
    project.prints(1, &["--yes", "--force"], 0, &["model/part: reproduced byte for byte"]);
}

#[test]
fn a_mistake_in_either_is_refused_and_the_old_set_stays() {
    let project = project(0.0);
    project.prints(1, &["--yes"], 0, &["2 goldens agree to the bit"]);
    project.make("made/second", 2, 0.5, 1e-6);
    key_of_second(&project);
    edit(&project, "made/second", |manifest| {
        // As if it had taken the input of the first.
        let first = fs::read(project.path("made/2/manifest.json")).unwrap();
        let first: Value = serde_json::from_slice(&first).unwrap();
        manifest["tensors"][2] = first["tensors"][2].clone();
    });
    let text = project.prints(
        2,
        &["--yes", "--force"],
        1,
        &[
            "error: model/part: the references `reference.sh` and `second.sh` disagree:",
            "a: 6.2e5x the floor apart, at most 8 is allowed; off by 5.000e-1 at [7]: 2 in the first, 2.5 in the second",
            "to do: find out which of the two is wrong",
            "1 failed",
        ],
    );
    assert!(!text.contains("\n         b:"), "{text}");
    assert_eq!(project.mark(), Some(1));
}

#[test]
fn the_limit_is_the_noise_of_the_checkpoint() {
    let project = project(0.0);
    edit(&project, "made/2", |manifest| manifest["tensors"][1]["floor"] = json!({"max": 1e-6, "rms": 1e-7}));
    let far = |name: &str, by: f32| {
        project.make("made/second", 2, by, 1e-6);
        key_of_second(&project);
        edit(&project, "made/second", |manifest| {
            let at = usize::from(name == "b");
            let file = manifest["tensors"][0].clone();
            manifest["tensors"][at]["file"] = file["file"].clone();
            manifest["tensors"][at]["sha256"] = file["sha256"].clone();
            if at == 1 {
                manifest["tensors"].as_array_mut().unwrap().remove(0);
                let _ = fs::remove_file(project.path("made/second/golden-b.npy"));
            }
        });
    };
    // `b` declares `noise: 2`.
    far("b", 4e-6);
    let words = ["b: 5.07x the floor apart, at most 2 is allowed"];
    project.prints(2, &["--yes"], 1, &words);
    far("a", 4e-6);
    project.prints(2, &["--yes"], 0, &["2 goldens agree within 5.07x the floor"]);
}

#[test]
fn other_shapes_inputs_and_names_are_refused() {
    let project = project(0.0);
    edit(&project, "made/second", |manifest| manifest["tensors"][0]["shape"] = json!([8, 8]));
    let ones: Vec<u8> = [1f32; 64].iter().flat_map(|one| one.to_le_bytes()).collect();
    let square = Tensor::from_vec(Dtype::Float32, vec![8, 8], ones).unwrap();
    write_npy(project.path("made/second/golden-a.npy"), &square.view()).unwrap();
    project.prints(1, &["--yes"], 1, &["a: shape [64] in the first, [8, 8] in the second"]);

    project.make("made/second", 2, 0.0, 1e-6);
    key_of_second(&project);
    let words =
        ["`second.sh` computes with another input `x`, so its goldens cannot be compared", "rec.load(name)"];
    project.prints(1, &["--yes"], 1, &words);

    project.make("made/second", 1, 0.0, 1e-6);
    key_of_second(&project);
    edit(&project, "made/second", |manifest| {
        manifest["tensors"][0]["name"] = "c".into();
        manifest["tensors"][1]["name"] = "d".into();
    });
    let words = ["`reference.sh` and `second.sh` have no golden in common; `second.sh` makes `c`, `d`"];
    project.prints(1, &["--yes"], 1, &words);
    edit(&project, "made/second", |manifest| manifest["tensors"][1]["name"] = "b".into());
    project.prints(1, &["--yes"], 0, &["1 golden agrees to the bit", "; it does not make `a`"]);
    assert_eq!(project.mark(), Some(1));
}

#[test]
fn a_second_script_that_changes_or_vanishes_makes_the_set_stale() {
    let project = project(0.0);
    project.prints(1, &["--yes"], 0, &["1 new"]);
    set_script(&project, &format!("# another\n{SECOND}"));
    let words = ["are stale: the content of the second reference `second.sh` changed"];
    project.prints(1, &["--check"], 1, &words);
    fs::remove_file(project.path("second.sh")).unwrap();
    let words = ["second reference `", "second.sh` cannot be read", "remove `also` from the spec"];
    project.prints(1, &["--check"], 1, &words);
    project.prints(1, &["--yes"], 1, &words);
    assert_eq!(project.mark(), Some(1));
    let spec = SPEC.replace("also: second.sh, ", "");
    project.write("parity-specs/model/part.yaml", &spec);
    project.prints(1, &["--check"], 1, &["are stale: `also` of the reference block changed"]);
}

#[test]
fn a_second_script_that_takes_too_long_or_fails_is_an_error() {
    let project = project(0.0);
    set_script(&project, "sleep 60\n");
    project.prints(1, &["--yes"], 1, &["`second.sh` ran longer than 5s and was stopped", "1 failed"]);
    set_script(&project, "echo broken on purpose >&2; exit 1\n");
    project.prints(1, &["--yes"], 1, &["`second.sh` failed: broken on purpose"]);
    assert_eq!(project.mark(), None);
}
