//! The first faulty stage of a red run, as a failing test, the ladder and `cargo xtask diagnose` report it.

use std::fs;

use crate::project::{Project, Ran, SPEC};

const LOCAL: &str = "target/parity/runs/latest/gated_mlp/block/local/records.jsonl";

/// The beginning of the sentence about a stage that is tapped in this file.
fn first(stage: &str, file: &str) -> String {
    format!("the first faulty stage is `{stage}` (tests/{file}:")
}

#[test]
fn one_sentence_stands_at_the_top_of_the_faulty_stage_and_of_the_ladder() {
    let project = Project::with_port("wrong_eps");
    let ran = project.run(&[]);
    let eps = "its output is the reference's with eps 1e-5 in place of 1e-6 in `add` (exporter/references/gated_mlp_block.py:26) (reversing this removes ";
    ran.is_red(&[
        &first("norm", "ports/gated_mlp.rs"),
        eps,
        "look at  the number in the port and in its config",
        "\n  port     tests/ports/gated_mlp.rs:52 | ",
        "\n  reference exporter/references/gated_mlp_block.py:26 | ",
    ]);
    // The faulty stage has it, and the end of the output, which stays on the screen. The consequences name the stage in one line.
    assert_eq!(ran.text.matches(eps).count(), 2, "{}", ran.text);
    assert_eq!(ran.text.matches(&first("norm", "ports/gated_mlp.rs")).count(), 2, "{}", ran.text);
    let text = ran.text.split("---- gated_mlp/block::norm ----").nth(1).unwrap();
    assert!(text.lines().nth(2).unwrap().starts_with("  cause    the first faulty stage"), "{text}");
    for later in ["gated", "out"] {
        let text = ran.text.split(&format!("---- gated_mlp/block::{later} ----\n")).nth(1).unwrap();
        let (line, rest) = text.split_once('\n').unwrap();
        assert!(rest.starts_with('\n'), "one line:\n{text}");
        assert!(
            line.contains("the first faulty stage is `norm`: run `cargo parity diagnose gated_mlp/block`"),
            "{line}"
        );
    }
}

#[test]
fn a_factor_is_named_at_the_stage_that_has_it() {
    let ran = Project::with_port("scaled").run(&[]);
    ran.is_red(&[&first("gated", "bad_ports/misbehaving.rs"), "its output is the golden times 1.01"]);
}

#[test]
fn nothing_is_looked_into_when_all_is_green() {
    let project = Project::with_port("right");
    project.run(&[]).is_green();
    assert_eq!(project.forwards(), 1);
    assert!(!project.path(LOCAL).exists());
}

#[test]
fn the_second_pass_runs_in_ci_too_and_changes_no_verdict() {
    let project = Project::with_port("scaled");
    let output = project.command(&[]).env("CI", "true").output().unwrap();
    let ran = Ran::of(output);
    ran.is_red(&[&first("gated", "bad_ports/misbehaving.rs")]);
    // `out` is right on golden inputs, but red in the judged run, whose verdict counts.
    assert_eq!(ran.ended("FAILED"), ["gated", "out"]);
    assert!(!ran.text.contains("INJECTED"), "{}", ran.text);
    assert!(project.path(LOCAL).is_file());
}

#[test]
fn a_crash_is_between_two_taps_and_no_stage_is_blamed() {
    let project = Project::with_port("panic");
    let ran = project.run(&[]);
    let sentence = "the port failed after `gated` (tests/bad_ports/misbehaving.rs:";
    let error = "the port failed after checkpoint `gated`: panicked at tests/bad_ports/misbehaving.rs:";
    ran.is_red(&[
        &format!("  where    {sentence}"),
        "), before `out`\n",
        &format!("  what     {error}"),
        "panic on purpose",
    ]);
    assert!(!ran.text.contains("first faulty stage"), "{}", ran.text);
    // The error is at one test and at the end of the output, and the other tests lead there.
    assert_eq!(ran.text.matches(error).count(), 2, "{}", ran.text);
    for trial in ["fixture", "weights"] {
        let text = format!(
            "---- gated_mlp/block::{trial} ----\ngated_mlp/block::{trial}: crash, not fully checked: the port did not finish; \
             see `gated_mlp/block::out`: run `cargo parity diagnose gated_mlp/block`\n\n"
        );
        ran.prints(&[&text]);
    }
    let found = diagnose(&project, &[]);
    is_red(&found, &[&format!("gated_mlp/block  {sentence}"), &format!("  what     {error}")]);
    assert!(!found.text.contains("first faulty stage") && !found.text.contains("closer"), "{}", found.text);
}

/// Declares the taps of two layers, one line per tap.
fn with_layers(project: &Project) {
    let path = project.path(SPEC);
    let mut text = fs::read_to_string(&path).unwrap();
    for name in ["q", "k", "v"] {
        text += &format!("  - {{name: \"layers.{{i}}.{name}\", for: {{i: 0..2}}, shape: [2]}}\n");
    }
    fs::write(path, text).unwrap();
}

#[test]
fn a_crash_in_a_loop_is_before_the_next_tap_of_its_round() {
    let project = Project::with_port("fails_in_a_layer");
    with_layers(&project);
    // A backtrace must not push the message away.
    let output = project.command(&["--test-threads", "1"]).env("RUST_BACKTRACE", "1").output().unwrap();
    let ran = Ran::of(output);
    ran.is_red(&[
        "the port failed after `layers.0.k` (tests/bad_ports/misbehaving.rs:",
        "), before `layers.0.v`\n",
        "no such head",
        "bad_ports::misbehaving::ports",
    ]);
    assert!(!ran.text.contains("mlx_parity::worker"), "no frames of the harness: {}", ran.text);
    // Trials have the order of the run.
    let listed: Vec<&str> = ran
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("test gated_mlp/block::layers.")?.split(' ').next())
        .collect();
    assert_eq!(listed, ["0.q", "0.k", "0.v", "1.q", "1.k", "1.v"]);
}

#[test]
fn a_crash_before_any_tap_blames_no_stage() {
    let project = Project::with_port("fails_at_once");
    let ran = project.run(&[]);
    ran.is_red(&["the port failed before its first tap\n", "missing field `rope_theta`"]);
    assert!(!ran.text.contains("first faulty stage"), "{}", ran.text);
    is_red(
        &diagnose(&project, &[]),
        &[
            "gated_mlp/block  the port failed before its first tap\n  what     the port failed before any checkpoint: missing field `rope_theta`\n",
        ],
    );
}

#[test]
fn a_second_mistake_is_another_faulty_stage() {
    let project = Project::with_port("scaled_twice");
    let ran = project.run(&[]);
    ran.is_red(&["the first faulty stage is `norm`"]);
    is_red(
        &diagnose(&project, &[]),
        &[
            "  another  faulty stage is `gated` (tests/bad_ports/misbehaving.rs:",
            "; its output is the golden plus 0.5",
            "\n           `out`, by the same mistake\n",
        ],
    );
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn an_explained_error_gets_no_advice_to_add_taps() {
    let project = Project::with_port("wrong_eps");
    project.run(&[]);
    let found = diagnose(&project, &[]);
    assert!(!found.text.contains("closer"), "{}", found.text);
    let project = Project::with_port("gate_not_loaded");
    project.run(&[]);
    is_red(&diagnose(&project, &[]), &["closer   no tap lies between them: add taps there"]);
}

#[test]
fn a_misspelt_tap_gets_one_piece_of_advice() {
    let project = Project::with_port("right");
    project.declare("  - {name: gatde, dtype: float32, policy: fp32}");
    project.run(&[]).is_red(&["did you mean `gated`?"]);
    let found = diagnose(&project, &[]);
    let advice = [
        "the port never reaches the tap `gatde`, which is declared between `norm` and `out`, but taps `gated` there\n",
        "closer   if `gated` is meant to be `gatde`, use one name in the port and in the spec",
    ];
    is_red(&found, &advice);
    assert!(!found.text.contains("on golden inputs"), "{}", found.text);
    assert!(!found.text.contains("export goldens"), "{}", found.text);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn diagnose_shows_the_newest_run_and_lists_every_kind() {
    let project = Project::with_port("wrong_eps");
    project.run(&[]);
    let diagnose = |arguments: &[&str]| {
        let arguments = [&["diagnose"], arguments].concat();
        Ran::of(project.xtask(&arguments).output().unwrap())
    };
    let found = diagnose(&[]);
    assert_eq!(found.code, Some(1), "{}", found.text);
    found.prints(&[
        "gated_mlp/block  first faulty stage: `norm`",
        "cause    its output is the reference's with eps 1e-5 in place of 1e-6 in `add`",
    ]);
    assert_eq!(diagnose(&["gated_mlp/block"]).text, found.text);
    let unknown = diagnose(&["gated_mlp/blok"]);
    assert_eq!(unknown.code, Some(1));
    unknown.prints(&["the run has no spec `gated_mlp/blok`, did you mean `gated_mlp/block`?"]);
    let list = diagnose(&["--list"]);
    assert_eq!(list.code, Some(0));
    list.prints(&[
        "chunks_swapped\n  means    equal parts of an axis in another order",
        "look at  eps of the config",
        "facts: observations about an error that no cause explains\n\nnon_finite\n",
        " kinds of causes, 8 kinds of facts\n",
    ]);
    let green = Project::with_port("right");
    green.run(&[]);
    let found = Ran::of(green.xtask(&["diagnose"]).output().unwrap());
    assert_eq!((found.code, found.text.as_str()), (Some(0), "nothing is wrong\n"));
}

fn diagnose(project: &Project, arguments: &[&str]) -> Ran {
    Ran::of(project.xtask(&[&["diagnose"], arguments].concat()).output().unwrap())
}

/// Expects that `diagnose` fails and prints these words.
#[track_caller]
fn is_red(found: &Ran, words: &[&str]) {
    assert_eq!(found.code, Some(1), "{}", found.text);
    assert!(!found.text.contains("nothing is wrong"), "{}", found.text);
    found.prints(words);
}

#[test]
fn a_spec_that_cannot_be_parsed_is_no_green_run() {
    let project = Project::with_port("right");
    fs::write(project.path("parity-specs/gated_mlp/other.yaml"), "version: 1\nport: [\n").unwrap();
    project.run(&[]).is_red(&["gated_mlp/other"]);
    is_red(&diagnose(&project, &[]), &["gated_mlp/other.yaml"]);
    is_red(&diagnose(&project, &["gated_mlp/other"]), &["gated_mlp/other.yaml"]);
    // The other spec is green.
    let found = diagnose(&project, &["gated_mlp/block"]);
    assert_eq!((found.code, found.text.as_str()), (Some(0), "gated_mlp/block  nothing is wrong\n"));
}

#[test]
fn fixtures_that_nobody_uses_are_no_green_run() {
    let project = Project::with_port("right");
    fs::create_dir_all(project.path("fixtures/gated_mlp/left")).unwrap();
    let manifest = fs::read(project.path("fixtures/gated_mlp/block/manifest.json")).unwrap();
    fs::write(project.path("fixtures/gated_mlp/left/manifest.json"), manifest).unwrap();
    project.run(&[]).is_red(&["parity::discovery"]);
    is_red(&diagnose(&project, &[]), &["parity::discovery  no spec uses the fixtures `gated_mlp/left`"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_damaged_file_of_a_run_is_no_green_run() {
    for (port, file, says) in [
        ("right", "records.jsonl", "records.jsonl` is damaged: its content is not what a worker writes"),
        ("right", "exit.json", "exit.json` is damaged: its content is not what a worker writes"),
        ("wrong_eps", "records.jsonl", "records.jsonl` is damaged: its content is not what a worker writes"),
        (
            "wrong_eps",
            "local/records.jsonl",
            "the results of its second run, on golden inputs, cannot be read",
        ),
    ] {
        let project = Project::with_port(port);
        project.run(&[]);
        let path = project.path("target/parity/runs/latest/gated_mlp/block").join(file);
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 1;
        fs::write(&path, bytes).unwrap();
        is_red(&diagnose(&project, &[]), &["gated_mlp/block  ", says]);
    }
}

#[test]
fn a_run_that_is_not_there_is_reported() {
    let project = Project::with_port("right");
    is_red(&diagnose(&project, &[]), &["nothing has been run yet"]);
    project.run(&[]).is_green();
    is_red(&diagnose(&project, &["--run", "nobody"]), &["there is no run `nobody`"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_failed_audit_or_a_random_draw_is_named_first() {
    let ran = Project::with_port("gate_not_loaded").run(&[]);
    let sentence =
        "see gated_mlp/block::weights first: the weight audit failed; the first faulty stage is `gated`";
    ran.is_red(&[&format!("  cause    {sentence}"), "1 never used"]);
    let ran = Project::with_port("draws_noise").run(&[]);
    let sentence =
        "see gated_mlp/block::fixture first: the port drew random numbers; the first faulty stage is `out`";
    ran.is_red(&[&format!("  cause    {sentence}"), "gated_mlp/block::fixture: random numbers were drawn"]);
}

#[test]
fn what_nothing_explains_has_facts_beside_the_sentence() {
    let ran = Project::with_port("gate_not_loaded").run(&[]);
    ran.is_red(&["value differs, and no known cause explains it\n  fact     `gated`: the correlation with the golden is "]);
    let ran = Project::with_port("nan").run(&[]);
    ran.is_red(&["and no known cause explains it\n  fact     `gated`: NaN in "]);
}
