//! Goldens that are injected at taps, and the first faulty stage that `cargo xtask bisect` finds with them.

use std::fs;

use crate::project::{Project, Ran, SPEC};

const BLOCK: &str = "gated_mlp/block";

fn localised(project: &Project) -> Ran {
    Ran::of(project.command(&[]).env("PARITY_LOCALISE", "1").output().unwrap())
}

/// Runs `cargo xtask bisect`, which exits with 1 if the spec is red, and expects these words.
#[track_caller]
fn bisect(project: &Project, code: i32, words: &[&str]) {
    let ran = Ran::of(project.xtask(&["bisect", BLOCK]).output().unwrap());
    assert_eq!(ran.code, Some(code), "{}", ran.text);
    ran.prints(words);
}

#[test]
fn on_golden_inputs_only_the_culprit_is_red() {
    let ran = localised(&Project::with_port("scaled"));
    ran.is_red(&[
        "the first faulty stage is `gated` (tests/bad_ports/misbehaving.rs:",
        "between  `norm` (tests/bad_ports/misbehaving.rs:",
        "INJECTED: every stage received golden inputs",
        "0 not gated, INJECTED",
    ]);
    assert_eq!(ran.ended("FAILED"), ["gated"]);
}

#[test]
fn goldens_are_injected_where_a_port_is_differentiated() {
    // The port fails if the injected goldens cut the gradient.
    Project::with_port("differentiated").run(&[]).is_green();
    localised(&Project::with_port("differentiated")).is_green();
    let words = ["first pass", "second pass, on golden inputs", "first faulty stage: `norm`"];
    bisect(&Project::with_port("differentiated_eps"), 1, &words);
}

#[test]
fn a_right_port_is_right_on_golden_inputs() {
    let ran = localised(&Project::with_port("right"));
    ran.is_green();
    ran.prints(&["every stage is right on golden inputs"]);
}

#[test]
fn a_wrong_eps_is_placed_at_the_norm() {
    let ran = localised(&Project::with_port("wrong_eps"));
    ran.is_red(&["the first faulty stage is `norm`", "between  the input `x` and `norm`"]);
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
        ran.is_red(&["INJECTED: the port continued with the goldens of gated"]);
        assert_eq!(ran.ended("FAILED"), ["gated"], "out is right again");
    }
    let before = project.forwards();
    inject("gatde").is_red(&["PARITY_INJECT is `gatde`", "did you mean `gated`?"]);
    assert_eq!(project.forwards(), before);
}

#[test]
fn bisect_names_the_culprit_and_what_lies_before_it() {
    let words =
        ["first pass", "second pass, on golden inputs", "first faulty stage: `gated`", "between  `norm` ("];
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
        &[
            "first faulty stage: `out`",
            "the spec declares `gated` there at level 1: PARITY_LEVEL=1 cargo xtask bisect",
        ],
    );
    let inner = Ran::of(project.xtask(&["bisect", BLOCK]).env("PARITY_LEVEL", "1").output().unwrap());
    inner.prints(&["first faulty stage: `gated`"]);
}

#[test]
fn a_tap_that_nobody_declares_is_offered() {
    let project = Project::with_port("scaled");
    project.declare("");
    bisect(
        &project,
        1,
        &["first faulty stage: `out`", "the port taps `gated` there: export goldens for them"],
    );
}

#[test]
fn bisect_of_a_spec_that_is_not_there_offers_near_names() {
    let project = Project::with_port("right");
    let ran = Ran::of(project.xtask(&["bisect", "gated_mlp/blok"]).output().unwrap());
    assert_eq!(ran.code, Some(1));
    ran.prints(&["spec `gated_mlp/blok` does not exist, did you mean `gated_mlp/block`?"]);
}

/// Moves the checkpoint `gated` to the end of the spec or to its beginning.
fn without_gated(port: &str, last: bool) -> Project {
    let project = Project::with_port(port);
    let text = fs::read_to_string(project.path(SPEC)).unwrap();
    let (gated, mut rest): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.contains("name: gated,"));
    let first = rest.iter().position(|line| line.contains("name: norm,")).unwrap();
    rest.insert(if last { rest.len() } else { first }, gated[0]);
    fs::write(project.path(SPEC), rest.join("\n")).unwrap();
    project
}

fn run_without_gated(project: &Project) -> Ran {
    Ran::of(project.command(&[]).env("BAD_PORTS_UNTAPPED", "gated").output().unwrap())
}

#[test]
fn a_stage_that_was_never_reached_is_named_between_the_two_that_were() {
    // The spec declares `gated` last, but the reference reaches it between `norm` and `out`.
    let ran = run_without_gated(&without_gated("scaled", true));
    ran.is_red(&[
        "the port never reaches the tap `gated`, which is declared between `norm` and `out`\n",
        "between  `norm` (tests/bad_ports/misbehaving.rs:",
        ") and `out` (tests/bad_ports/misbehaving.rs:",
        "add the tap there; if the port computes `gated` inside one operation with others",
        "also red `out`",
    ]);
}

#[test]
fn a_port_that_is_not_finished_is_shown_its_next_tap() {
    let project = Project::with_port("right");
    let ran = Ran::of(project.command(&[]).env("BAD_PORTS_UNTAPPED", "out").output().unwrap());
    ran.is_red(&["the port ends after `gated`: it never reaches the next tap, `out`\n"]);
    assert!(!ran.text.contains("closer"), "{}", ran.text);
}

#[test]
fn a_stage_is_looked_for_in_the_order_of_the_run_and_not_of_the_spec() {
    // The spec declares `gated` first, which is never reached, but the wrong `norm` comes before it in the run.
    let ran = run_without_gated(&without_gated("scaled_norm", false));
    ran.is_red(&[
        "the first faulty stage is `norm` (tests/bad_ports/misbehaving.rs:",
        "between  the input `x` and `norm`",
    ]);
}

#[test]
fn an_injected_golden_is_what_the_port_goes_on_with() {
    let project = Project::with_port("scaled");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ninject: [gated]");
    let ran = project.run(&[]);
    // The wrong stage is still red, and no later one is.
    ran.is_red(&["gated: value differs"]);
    assert_eq!(ran.ended("FAILED"), ["gated"]);
    let records = project.path("target/parity/runs/latest/gated_mlp/block/records.jsonl");
    let injected: Vec<bool> = fs::read_to_string(records)
        .unwrap()
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["injected"].as_bool())
        .collect();
    assert_eq!(injected, [false, true, true]);
}
