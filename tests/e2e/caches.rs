//! The key `positions`: what is printed about a cache with other slots, and about wrong keys. The caches are in
//! `bad_ports/mistral.rs`.

use std::fs;

use rstest::rstest;

use crate::project::{Project, Ran, copy_from_repository};

const SPEC: &str = "parity-specs/mistral/rotating.yaml";

const FILES: [&str; 7] = [
    SPEC,
    "exporter/references/mistral_rotating.py",
    "fixtures/mistral/rotating/manifest.json",
    "fixtures/mistral/rotating/goldens.safetensors",
    "fixtures/mistral/rotating/inputs.safetensors",
    "fixtures/mistral/rotating/recipes.json",
    "fixtures/mistral/rotating/weights.safetensors",
];

/// A project with the spec of Mistral alone, without twins, which runs this port.
fn with_port(port: &str) -> Project {
    let project = Project::with_port("right");
    for folder in ["parity-specs/gated_mlp", "fixtures/gated_mlp", "tests/snapshots"] {
        fs::remove_dir_all(project.path(folder)).unwrap();
    }
    copy_from_repository(&FILES, &project.path(""));
    project.edit(SPEC, "port: mistral::rotating", &format!("port: {port}"));
    let text = fs::read_to_string(project.path(SPEC)).unwrap();
    let (checkpoints, _) = text.split_once("twins:\n").unwrap();
    fs::write(project.path(SPEC), checkpoints).unwrap();
    project
}

#[rstest]
#[case::too_many(
    "holds_one_more",
    "step.0.layers.0.cache.positions",
    "position 2 (slot 2) should not be in the cache"
)]
#[case::too_few("holds_one_less", "step.0.layers.0.cache.positions", "position 3 is missing from the cache")]
#[case::other_token(
    "rotates_from_zero",
    "step.1.layers.0.cache.positions",
    "position 6 is missing from the cache; position 3 (slot 0) should not be in the cache"
)]
#[case::positions_of_slots(
    "positions_of_slots",
    "step.0.layers.0.cache.positions",
    "positions 6, 7 and 8 are missing from the cache; positions 0 (slot 0), 1 (slot 1) and 2 (slot 2) should not be in the \
     cache"
)]
#[ignore = "slow: `.ci/run` runs it"]
fn a_cache_with_other_positions_is_red(#[case] fault: &str, #[case] checkpoint: &str, #[case] text: &str) {
    let ran = with_port(&format!("mistral::rotating/{fault}")).run(&["--skip", "::stats"]);
    ran.is_red(&[
        &format!("mistral/rotating::{checkpoint}: the positions in the cache differ"),
        &format!("  what     {text}"),
        &format!("the first faulty stage is `{checkpoint}`"),
    ]);
}

#[test]
fn wrong_keys_are_reported_with_their_position_and_their_slot() {
    let project = with_port("mistral::rotating/keys_before_rotation");
    let ran = project.run(&["--skip", "::stats"]);
    ran.is_red(&[
        "mistral/rotating::step.0.layers.0.cache.keys: value differs",
        "  slots    axis 2 is in the golden's order, by `step.0.layers.0.cache.positions`; the worst element is of position ",
        "the first faulty stage is `step.0.layers.0.cache.keys`",
    ]);
    // Both sides are in the golden's order, so they can be subtracted.
    let shown = [
        "show",
        "mistral/rotating::step.0.layers.0.cache.keys",
        "--expr",
        "abs(actual - golden).max() > 0.1",
    ];
    let ran = Ran::of(project.xtask(&shown).output().unwrap());
    ran.is_green();
    assert_eq!(ran.stdout.trim(), "1", "the error is in the keys of the same position: {}", ran.text);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn mutated_positions_are_noticed_where_the_cache_is_read() {
    let project = with_port("mistral::rotating");
    let mut mutate = project.xtask(&["mutate", "mistral/rotating", "--at-least", "100"]);
    let ran = Ran::of(mutate.env("PARITY_LEVEL", "0").output().unwrap());
    ran.is_green();
    // In another order they are still the same positions, but no longer those of the keys.
    let row = ran.text.lines().find(|line| line.contains("step.1.layers.0.cache.positions ")).unwrap();
    assert!(row.contains("later"), "{row}");
}

#[test]
fn goldens_without_one_position_per_slot_are_found_by_lint() {
    let project = with_port("mistral::rotating");
    let lint = || Ran::of(project.xtask(&["lint", "--write-schema"]).output().unwrap());
    lint().is_green();
    project.edit(SPEC, "positions\", axis: 2}", "positions\", axis: 3}");
    let ran = lint();
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&["checkpoint `step.0.layers.0.cache.keys`: its golden has 8 slots on axis 3, but \
         `step.0.layers.0.cache.positions` holds 6 positions"]);
}
