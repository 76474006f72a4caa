//! Fixtures that cannot be trusted, goldens that are missing, and checkpoints that are measured only.

use std::fs;

use crate::project::{Project, SPEC};

#[test]
fn fixtures_that_cannot_be_trusted_are_red_everywhere() {
    type Damage = fn(&Project);
    let cases: [(Damage, &[&str]); 5] = [
        (
            |project| {
                let path = project.path("exporter/references/gated_mlp_block.py");
                fs::write(&path, fs::read_to_string(&path).unwrap() + "# another\n").unwrap();
            },
            &["the golden is stale", "regenerate-fixtures gated_mlp/block"],
        ),
        (|project| project.edit(SPEC, "tokens: 6}", "tokens: 7}"), &["the golden is stale", "`params`"]),
        (
            |project| fs::remove_dir_all(project.path("fixtures/gated_mlp/block")).unwrap(),
            &["the golden is missing", "no fixtures exist"],
        ),
        (
            |project| {
                let path = project.path("fixtures/gated_mlp/block/goldens.safetensors");
                let mut bytes = fs::read(&path).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                fs::write(&path, bytes).unwrap();
            },
            &["the fixtures cannot be trusted", "SHA-256"],
        ),
        (
            |project| {
                let path = project.path("fixtures/gated_mlp/block/inputs.safetensors");
                let bytes = fs::read(&path).unwrap();
                fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
            },
            &["the fixtures cannot be trusted", "truncated"],
        ),
    ];
    for (damage, words) in cases {
        let project = Project::with_port("right");
        damage(&project);
        let ran = project.run(&[]);
        ran.is_red(words);
        assert_eq!(ran.ended("FAILED"), ["fixture", "gated", "norm", "out", "weights"], "{}", ran.text);
        ran.prints(&["not run; see `gated_mlp/block::fixture`", "\n  nothing was compared: "]);
        assert!(
            !ran.text.contains("first divergence") && !ran.text.contains("diagnose gated_mlp"),
            "{}",
            ran.text
        );
    }
}

#[test]
fn a_tap_without_a_golden_is_red_also_when_it_is_not_gated() {
    for gate in ["policy: fp32", "policy: fp32, gate: false, why: a test"] {
        let project = Project::with_port("renamed");
        project.declare(&format!("  - {{name: mlp.gatd, dtype: float32, {gate}}}"));
        let ran = project.run(&[]);
        ran.is_red(&["mlp.gatd: the golden is missing", "have no golden `mlp.gatd`", "regenerate-fixtures"]);
        assert_eq!(ran.ended("FAILED"), ["mlp.gatd"]);
    }
}

#[test]
fn what_is_not_gated_is_measured_and_counted_apart() {
    let project = Project::with_port("scaled");
    project.declare("  - {name: gated, dtype: float32, policy: fp32, gate: false, why: a test}");
    let ran = project.run(&[]);
    ran.is_red(&["not gated gated", "would fail if gated: value"]);
    assert_eq!(ran.ended("FAILED"), ["out"]);
}

#[test]
fn two_weights_under_one_name_are_refused() {
    let project = Project::with_port("right");
    project.edit(SPEC, "{file: weights.safetensors}", "{file: weights.safetensors, rename: {up: gate}}");
    project.run(&[]).is_red(&["turns both `gate.weight` and `up.weight` into the weight `gate.weight`"]);
}
