//! A red run fits a screen: one mistake in a model with many checkpoints, filters, and what a person asks to see.

use std::fs;

use crate::project::{Project, Ran, SPEC};

/// A project whose spec has 168 checkpoints: three with goldens, then `deep.0` to `deep.164`, each compared with the one
/// before it. In the port `long_chain`, they differ from `deep.100` on.
fn long() -> Project {
    let project = Project::with_port("long_chain");
    let text = fs::read_to_string(project.path(SPEC)).unwrap();
    let mut spec =
        text.trim_end().to_owned() + "\n  - {name: deep.0, dtype: float32, shape: [2], range: [0.5, 1.5]}\n";
    for i in 1..165 {
        spec +=
            &format!("  - {{name: deep.{i}, dtype: float32, against: deep.{}, rtol: 0, atol: 0}}\n", i - 1);
    }
    fs::write(project.path(SPEC), spec).unwrap();
    project
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn one_mistake_among_168_checkpoints_is_less_than_a_screen() {
    let project = long();
    let ran = Ran::of(project.xtask(&["parity"]).output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&[
        "the first faulty stage is `deep.100`",
        "\n  port     tests/bad_ports/misbehaving.rs:",
        "  ok        101 checkpoints, `norm` to `deep.97`",
        "  ok        deep.99",
        "  value     deep.100",
        "<- first divergence, last green: deep.99",
        "  value     deep.102",
        "  value     62 checkpoints, `deep.103` to `deep.164`",
        "  counts   65 of 168 checkpoints failed (65 value)",
        "  next     cargo xtask diagnose gated_mlp/block ",
        "cargo xtask report --failures",
    ]);
    let lines = ran.text.lines().count();
    assert!(lines < 40, "{lines} lines:\n{}", ran.text);
    let all = Ran::of(project.xtask(&["report", "--all"]).output().unwrap());
    all.prints(&["  ok        deep.50", "  value     deep.150"]);
    let report = fs::read_to_string(project.path("target/parity/runs/latest/report.txt")).unwrap();
    assert!(
        report.contains("  value     deep.150") && report.contains("---- gated_mlp/block::deep.150 ----")
    );
}

#[test]
fn under_cargo_test_only_the_faulty_stage_is_printed_in_full() {
    let ran = long().run(&["--test-threads", "1"]);
    ran.is_red(&["parity: next: `cargo parity diagnose`, then `cargo parity report`"]);
    ran.prints(&["parity: everything that was measured: target/parity/runs/"]);
    let blocks: Vec<&str> = ran.text.split("\n---- gated_mlp/block::deep.").skip(1).collect();
    assert_eq!(blocks.len(), 65, "{}", ran.text);
    for block in blocks {
        let (name, text) = block.split_once(" ----\n").unwrap();
        let lines = text.lines().take_while(|line| !line.is_empty()).count();
        if name == "100" {
            assert!(
                lines > 5 && text.contains("\n  next     cargo parity diagnose gated_mlp/block"),
                "{text}"
            );
        } else {
            assert_eq!(lines, 1, "{text}");
            assert!(
                text.contains("the first faulty stage is `deep.100`: run `cargo parity diagnose"),
                "{text}"
            );
        }
    }
}

#[test]
fn the_cause_is_at_the_first_divergence_even_if_another_checkpoint_is_declared_first() {
    let project = Project::with_port("scaled");
    let text = fs::read_to_string(project.path(SPEC)).unwrap();
    let out = text.lines().find(|line| line.contains("name: out,")).unwrap().to_owned();
    let text = text.replace(&format!("{out}\n"), "").replace(&out, "");
    fs::write(project.path(SPEC), text.replace("checkpoints:\n", &format!("checkpoints:\n{out}\n"))).unwrap();
    let ran = project.run(&["--test-threads", "1"]);
    ran.is_red(&["\ngated_mlp/block::gated: value differs\n  cause    the first faulty stage"]);
    // At the first divergence, and at the end.
    assert_eq!(ran.text.matches("its output is the golden times 1.01").count(), 2, "{}", ran.text);
    // `out` and the statistics have one line each, which names the stage.
    for trial in ["out", "stats"] {
        let text = ran.text.split(&format!("---- gated_mlp/block::{trial} ----\n")).nth(1).unwrap();
        let (line, rest) = text.split_once('\n').unwrap();
        assert!(
            line.contains("; the first faulty stage is `gated`: run ") && rest.starts_with('\n'),
            "{text}"
        );
    }
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_filter_runs_and_counts_the_matching_trials_only() {
    let project = long();
    let ran = Ran::of(project.xtask(&["parity", "deep.9"]).output().unwrap());
    ran.is_green();
    ran.prints(&[
        "11 checkpoints",
        "not selected, so not judged in these specs: `fixture`, `stats`, `weights`",
        "11 passed, 0 failed, 0 ignored, 1 spec, 160 trials not selected",
    ]);
    let trials = project.trials();
    assert_eq!(trials.lines().count(), 11, "{trials}");
    // An unselected failure before a selected one is named, and not counted.
    let ran = Ran::of(project.xtask(&["parity", "deep.150"]).output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&[
        "the first faulty stage is `deep.100`",
        "0 passed, 1 failed, 0 ignored, 1 spec, 170 trials not selected",
    ]);
}

#[test]
fn green_specs_are_one_line_each() {
    let project = Project::with_port("right");
    let ran = Ran::of(project.xtask(&["parity"]).output().unwrap());
    ran.is_green();
    ran.prints(&["  ok        gated_mlp/block  3 checkpoints, 3 other trials; at most "]);
    assert!(!ran.text.contains("  ok        norm"), "{}", ran.text);
    Ran::of(project.xtask(&["parity", "--all"]).output().unwrap())
        .prints(&["  ok        norm", "  ok        stats"]);
}

#[test]
fn the_smoke_trial_is_listed_first_and_counted() {
    let project = Project::with_port("right");
    let listed = project.run(&["--list"]);
    assert!(listed.stdout.starts_with("parity::smoke: test\n"), "{}", listed.stdout);
    let ran = project.run(&["--exact", "parity::smoke"]);
    ran.is_green();
    ran.prints(&["test parity::smoke ... ok", "1 declared = 1 passed"]);
    assert_eq!(project.forwards(), 0, "it starts no port");
    project.run(&["parity::smoke", "--list"]).is_green();
}

#[test]
fn a_machine_on_which_mlx_does_not_compute_is_reported_before_anything_else() {
    let project = Project::with_port("right");
    let ran = Ran::of(project.command(&[]).env("BAD_PORTS_BROKEN_MLX", "1").output().unwrap());
    ran.is_red(&[
        "ended with Signal(6)",
        "MLX does not compute on this machine, so no other result can be trusted; run `cargo parity doctor`",
    ]);
    let report = project.report(&[]);
    assert!(report.stdout.starts_with("parity::smoke: MLX does not compute"), "{}", report.text);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_tap_can_be_looked_at_whether_it_is_declared_or_not() {
    let project = Project::with_port("right");
    project.declare("");
    let peek = |pattern: &str, arguments: &[&str]| {
        Ran::of(project.command(arguments).env("PARITY_PEEK", pattern).output().unwrap())
    };
    let shown = "  peek      gated  float32 [1, 6, 48]  tests/bad_ports/misbehaving.rs:";
    let ran = peek("g*d", &["--skip", "discovery", "--skip", "stats"]);
    ran.is_green();
    ran.prints(&[shown, "min -4.897505, max 3.592269, mean 0.019068, std 0.683666, first ["]);
    // Also if the filter would stop the port before the tap, and in the report.
    peek("out,gated", &["::norm"]).prints(&[shown, "  peek      out  float32 [1, 6, 32]"]);
    project.report(&[]).prints(&[shown]);
    peek("gate", &["::norm"]).prints(&["no tap matches `gate`, did you mean `gated`?"]);
    assert!(!project.run(&["::norm"]).text.contains("peek"));
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn peeks_are_bounded_and_a_huge_tensor_is_not_evaluated() {
    let project = long();
    let ran = Ran::of(project.command(&[]).env("PARITY_PEEK", "*").output().unwrap());
    ran.prints(&["  peek      norm  float32", "only the first 100 hits are shown; name fewer taps"]);
    assert!(!ran.text.contains("  peek      deep.98 "), "{}", ran.text);
    let project = Project::with_port("huge");
    project.declare("");
    let output = project.command(&["::norm"]).env("PARITY_PEEK", "gated").output().unwrap();
    Ran::of(output).prints(&["gated  float32 [60000, 60000]", "not evaluated: it would take 13732 MiB"]);
}

#[test]
fn a_level_can_be_lowered_and_every_summary_says_so() {
    let project = Project::with_port("right");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\nlevel: 1");
    project.edit(SPEC, "{name: gated,", "{name: gated, level: 1,");
    let lower =
        |command: &mut std::process::Command| Ran::of(command.env("PARITY_LEVEL", "0").output().unwrap());
    let ran = lower(&mut project.command(&[]));
    ran.is_green();
    assert_eq!(ran.ended("ok"), ["fixture", "norm", "out", "weights"]);
    ran.prints(&["1 checkpoint left out by PARITY_LEVEL"]);
    assert_eq!(ran.stats(), None);
    let ran = lower(&mut project.xtask(&["parity"]));
    ran.is_green();
    ran.prints(&["1 checkpoint left out by PARITY_LEVEL", "level: 1 checkpoint is not checked"]);
    let ran = lower(project.command(&[]).env("CI", "true"));
    ran.is_red(&["PARITY_LEVEL is `0`, expected at least 1 in CI: a lower level leaves out checkpoints of `gated_mlp/block`"]);
}
