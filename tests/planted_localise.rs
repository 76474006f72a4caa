//! Which stage is wrong by its own doing: the real suite with goldens injected, and `cargo xtask bisect`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod project;

use project::{Project, Ran};

const SPEC: &str = "parity-specs/gated_mlp/block.yaml";
const BLOCK: &str = "gated_mlp/block";

fn localised(project: &Project) -> Ran {
    Ran::of(project.command(&[]).env("PARITY_LOCALISE", "1").output().unwrap())
}

/// What `cargo xtask bisect` says, which ends with 1 when the spec is red.
#[track_caller]
fn bisect(project: &Project, code: i32, words: &[&str]) {
    let ran = Ran::of(project.xtask(&["bisect", BLOCK]).output().unwrap());
    assert_eq!(ran.code, Some(code), "{}", ran.said);
    ran.says(words);
}

#[test]
fn on_golden_inputs_only_the_culprit_is_red() {
    let ran = localised(&Project::with_port("scaled"));
    ran.is_red(&[
        "culprit: `gated` is the first stage that is wrong on golden inputs: value differs",
        "between  `norm` (tests/faulty.rs:",
        "INJECTED: every stage worked on golden inputs",
        "0 not gated, INJECTED",
    ]);
    assert_eq!(ran.ended("FAILED"), ["gated"]);
}

#[test]
fn a_right_port_is_right_on_golden_inputs() {
    let ran = localised(&Project::with_port("right"));
    ran.is_green();
    ran.says(&["no stage is wrong on golden inputs"]);
}

#[test]
fn a_wrong_eps_is_placed_at_the_norm() {
    let ran = localised(&Project::with_port("wrong_eps"));
    ran.is_red(&["culprit: `norm`", "between  the inputs and `norm`"]);
    assert_eq!(ran.ended("FAILED"), ["norm"]);
}

#[test]
fn nothing_is_injected_in_ci() {
    let project = Project::with_port("right");
    for (name, value) in [("PARITY_LOCALISE", "1"), ("PARITY_INJECT", "norm")] {
        let output = project.command(&[]).env(name, value).env("CI", "true").output().unwrap();
        Ran::of(output).is_red(&["parity::settings", &format!("{name} is `{value}`"), "proves nothing"]);
    }
    assert_eq!(project.forwards(), 0);
}

#[test]
fn single_goldens_are_injected_by_name() {
    let project = Project::with_port("scaled");
    let inject = |names: &str| Ran::of(project.command(&[]).env("PARITY_INJECT", names).output().unwrap());
    for names in ["gated", "gated_mlp/block::gated"] {
        let ran = inject(names);
        ran.is_red(&["INJECTED: the port went on with the goldens of gated"]);
        assert_eq!(ran.ended("FAILED"), ["gated"], "out is right again");
    }
    let before = project.forwards();
    inject("gatde").is_red(&["PARITY_INJECT is `gatde`", "did you mean `gated`?"]);
    assert_eq!(project.forwards(), before);
}

#[test]
fn bisect_names_the_culprit_and_what_lies_before_it() {
    let words = ["free-running", "on golden inputs", "culprit: `gated`", "nothing else is tapped there"];
    bisect(&Project::with_port("scaled"), 1, &words);
}

#[test]
fn bisect_of_a_right_port_finds_nothing() {
    bisect(&Project::with_port("right"), 0, &["nothing is wrong with `gated_mlp/block`"]);
}

#[test]
fn errors_that_only_add_up_are_drift() {
    let project = Project::with_port("drift");
    project.edit(SPEC, "stage: norm, noise: 8", "stage: norm, rtol: 1e-5, atol: 1e-7");
    bisect(&project, 1, &["drift: no stage is wrong on golden inputs", "from `norm` to `gated`"]);
}

#[test]
fn a_checkpoint_of_a_higher_level_narrows_it_down() {
    let project = Project::with_port("scaled");
    project.declare("  - {name: gated, dtype: float32, rtol: 1e-5, atol: 1e-6, level: 1}");
    bisect(
        &project,
        1,
        &["culprit: `out`", "the spec has `gated` there at level 1: PARITY_LEVEL=1 cargo xtask bisect"],
    );
    let inner = Ran::of(project.xtask(&["bisect", BLOCK]).env("PARITY_LEVEL", "1").output().unwrap());
    inner.says(&["culprit: `gated`"]);
}

#[test]
fn a_tap_that_nobody_declares_is_offered() {
    let project = Project::with_port("scaled");
    project.declare("");
    bisect(&project, 1, &["culprit: `out`", "the port taps `gated` there: export goldens for them"]);
}

#[test]
fn bisect_of_a_spec_that_is_not_there_says_what_is() {
    let project = Project::with_port("right");
    let ran = Ran::of(project.xtask(&["bisect", "gated_mlp/blok"]).output().unwrap());
    assert_eq!(ran.code, Some(1));
    ran.says(&["there is no spec `gated_mlp/blok`, did you mean `gated_mlp/block`?"]);
}
