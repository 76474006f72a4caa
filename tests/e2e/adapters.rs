//! Adapters: the trial that audits them, and compares what they change with the reference.

use std::fs;

use rstest::rstest;

use crate::project::{Project, Ran, copy_folder, copy_from_repository, repository};

const SPEC: &str = "parity-specs/lora/inference.yaml";

/// A project with the LoRA spec, whose port has this fault; none if it is empty.
fn project(fault: &str) -> Project {
    let project = Project::with_port("right");
    let scripts = ["exporter/references/lora_inference.py", "exporter/references/lora_inference_merged.py"];
    copy_from_repository(&[SPEC, scripts[0], scripts[1]], &project.path(""));
    copy_folder(&repository().join("fixtures/lora/inference"), &project.path("fixtures/lora/inference"));
    if !fault.is_empty() {
        project.edit(SPEC, "port: lora::inference", &format!("port: lora::inference/{fault}"));
    }
    project
}

fn run(project: &Project) -> Ran {
    project.run(&["lora/inference"])
}

/// The trials that failed, without `stats`, which has no snapshot here.
fn failed(ran: &Ran) -> Vec<&str> {
    let lines = ran.text.lines().filter_map(|line| line.strip_prefix("test lora/inference::"));
    let names =
        lines.filter_map(|line| Some(line.strip_suffix("FAILED")?.split(' ').next().unwrap_or_default()));
    names.filter(|name| *name != "stats").collect()
}

#[rstest]
#[case::beside("")]
#[case::merged("merged")]
#[case::scaled_b("scale_in_b")]
#[case::one_by_one("read_one_by_one")]
fn right_ports_are_green_however_they_apply_the_adapters(#[case] fault: &str) {
    let project = project(fault);
    let ran = run(&project);
    ran.is_green();
    ran.prints(&["lora/inference::adapters"]);
    let found =
        fs::read_to_string(project.path("target/parity/runs/latest/lora/inference/adapters.json")).unwrap();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["scales"], serde_json::json!([{"rank": 8, "alpha": 12.0}]));
    let listed = Ran::of(project.xtask(&["weights", "lora/inference"]).output().unwrap());
    assert_eq!(listed.code, Some(0), "{}", listed.text);
    listed.prints(&[
        "27 weights in 2 files",
        "blocks.0.q.lora_a       float32  [8, 24]   adapters.safetensors as base_model.model.blocks.0.q.lora_A.weight  taken",
    ]);
    assert!(found["free"].as_array().unwrap().len() >= 7 && found["local"].as_array().unwrap().is_empty());
}

#[rstest]
#[case::without_effect(
    "without_effect",
    &["the adapters have no effect: none of 4 stages", "STAGE    blocks.1.v: no change, the reference's is ",
      "OUTPUT   head: the port's adapters change it by 0.00e0, the reference's by "]
)]
#[case::twice("applied_twice", &["2.000 times as much as in the reference: they are applied twice"])]
#[case::scale("scale_forgotten", &["0.667 times as much", "the factor alpha / rank = 12 / 8 is missing"])]
#[case::some_layers(
    "only_first_block",
    &["the adapters change only 2 of 4 stages", "STAGE    blocks.1.q: no change", "RIGHT    blocks.0.q, blocks.0.v"]
)]
#[case::exchanged("factors_exchanged", &["4 of 4 stages in another way", "A and B may be exchanged"])]
fn adapters_that_are_applied_in_another_way_are_red(#[case] fault: &str, #[case] words: &[&str]) {
    let ran = run(&project(fault));
    ran.is_red(words);
    ran.prints(&["lora/inference::adapters: the adapters are not applied as in the reference"]);
    assert!(failed(&ran).contains(&"adapters"), "{}", ran.text);
}

#[test]
fn names_that_match_no_parameter_are_red_and_the_rename_is_offered() {
    let project = project("");
    project.edit(SPEC, "rename: {base_model.model: \"\", ", "rename: {");
    let ran = run(&project);
    ran.is_red(&[
        "the adapters did not load; see lora/inference::adapters",
        "adapter weight `blocks.",
        "0 weights taken, ",
        "UNUSED   base_model.model.blocks.0.q.lora_a",
        "`rename: {",
    ]);
    assert!(failed(&ran).contains(&"adapters"), "{}", ran.text);
}

/// The port fails before it takes any weight, and the advice still comes from the names of the file.
#[test]
fn a_part_that_is_named_otherwise_in_all_layers_is_offered_as_a_rename() {
    let project = project("");
    project.edit(SPEC, "rename: {", "rename: {norm2: ffn_norm, ");
    let ran = run(&project);
    ran.is_red(&[
        "lora/inference::weights: the weight audit failed",
        "2 missing",
        "`rename: {\"ffn_norm\": \"norm2\"}`",
    ]);
}

/// On golden inputs, the change of the whole port cannot be measured, so only the audit counts.
#[test]
fn with_every_golden_injected_only_the_audit_counts() {
    let localised = |fault: &str| {
        let project = project(fault);
        Ran::of(project.command(&["lora/inference"]).env("PARITY_LOCALISE", "1").output().unwrap())
    };
    let ran = localised("scale_forgotten");
    assert!(!failed(&ran).contains(&"adapters"), "{}", ran.text);
    assert!(failed(&localised("base_alone")).contains(&"adapters"));
}

#[test]
fn adapters_of_another_shape_are_red() {
    let ran = run(&project("other_rank"));
    ran.is_red(&[
        "module parameter `blocks.",
        " has shape [4, 24], but the weight has [8, 24]",
        "8 of another shape",
        "SHAPE    module parameter `blocks.1.v.lora_b` has shape [24, 4], but the weight has [24, 8]",
    ]);
    assert!(failed(&ran).contains(&"adapters"), "{}", ran.text);
}

#[test]
fn adapters_that_the_port_does_not_ask_for_are_red() {
    let ran = run(&project("base_alone"));
    ran.is_red(&["0 weights taken, 0 missing, 8 never used", "UNUSED   blocks.1.v.lora_b"]);
    assert!(failed(&ran).contains(&"adapters"), "{}", ran.text);
}

#[test]
fn adapters_that_the_port_takes_from_elsewhere_are_red() {
    let ran = run(&project("kept_from_first_call"));
    ran.is_red(&["`blocks.0.q` is the same with and without the tensors of `run.adapters`"]);
    assert_eq!(failed(&ran), ["adapters"]);
}

#[test]
fn a_manifest_without_changes_proves_nothing() {
    let project = project("");
    let manifest = project.path("fixtures/lora/inference/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json.as_object_mut().unwrap().remove("adapters");
    fs::write(&manifest, json.to_string()).unwrap();
    let ran = run(&project);
    ran.is_red(&["the manifest does not record what the adapters change; save them with `rec.adapters`"]);
    assert_eq!(failed(&ran), ["adapters"]);
}

#[test]
fn a_file_that_the_set_lacks_is_red() {
    let project = project("");
    project.edit(SPEC, "adapters: [adapters.safetensors]", "adapters: [style.safetensors]");
    run(&project).is_red(&["the spec's weight file `style.safetensors` has no weights in the manifest"]);
}
