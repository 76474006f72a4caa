//! A run that tests nothing is red, or at least prints that nothing is proven.

use std::fs;

use rstest::rstest;

use crate::project::{Project, Ran, SPEC};

/// A spec whose checkpoints all have a higher level than the run.
fn deep() -> Project {
    let project = Project::with_port("right");
    let text = fs::read_to_string(project.path(SPEC)).unwrap();
    fs::write(project.path(SPEC), text.replace("dtype: float32,", "dtype: float32, level: 2,")).unwrap();
    project
}

#[test]
fn a_spec_with_nothing_at_its_level_is_red() {
    let project = deep();
    let ran = project.run(&[]);
    ran.is_red(&[
        "no checkpoint is checked",
        "the level is 0, but the lowest level of a checkpoint is 2",
        "PARITY_LEVEL=2",
    ]);
    assert_eq!(ran.ended("FAILED"), ["fixture", "spec", "weights"], "{}", ran.text);
    let listed = project.run(&["--list"]);
    listed.is_green();
    listed.prints(&["gated_mlp/block::spec: test"]);
    project.run(&["--exact", "gated_mlp/block::spec"]).is_red(&["no checkpoint is checked"]);
    let deeper = project.command(&["--skip", "::stats"]).env("PARITY_LEVEL", "2").output().unwrap();
    Ran::of(deeper).is_green();
    let ran = Ran::of(project.xtask(&["parity"]).output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&["no checkpoint is checked"]);
}

#[test]
fn a_suite_whose_specs_are_all_ignored_is_red() {
    let project = Project::with_port("right");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\nrequires: [\"env:NEVER_SET\"]");
    let why =
        "every spec is ignored here, so nothing is proven: `gated_mlp/block` needs the environment variable";
    project.run(&[]).is_red(&["parity::discovery", why]);
    project.run(&["--exact", "parity::discovery"]).is_red(&[why]);
    let ran = Ran::of(project.xtask(&["parity"]).output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&[why]);
    let ran = Ran::of(project.xtask(&["parity", "gated_mlp"]).output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&["nothing is proven: every trial with `gated_mlp` in its name is ignored"]);
    let required = project.command(&[]).env("PARITY_REQUIRE", "all").output().unwrap();
    let required = Ran::of(required);
    required.is_red(&["PARITY_REQUIRE=all does not allow ignored specs"]);
    assert!(!required.text.contains(why), "{}", required.text);
    // One spec that runs is enough.
    let text = fs::read_to_string(project.path(SPEC)).unwrap();
    let other = text.replace("\nrequires: [\"env:NEVER_SET\"]", "\nfixtures: gated_mlp/block");
    fs::write(project.path("parity-specs/gated_mlp/other.yaml"), other).unwrap();
    project.run(&["--skip", "::stats"]).is_green();
}

#[test]
fn a_filter_that_selects_nothing_is_reported_and_red_only_under_parity() {
    let project = Project::with_port("right");
    let output = project.command(&["nothing like it"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(
        stderr,
        "parity: no test ran and nothing is proven: no trial has `nothing like it` in its name\n"
    );
    Ran::of(output).is_green();
    let listed = project.command(&["--list", "nothing like it"]).output().unwrap();
    assert_eq!((listed.status.code(), listed.stderr.len()), (Some(0), 0));
    project.run(&["--exact", "nothing::like_it"]).prints(&["no trial is named `nothing::like_it`"]);
    for filter in ["nothing like it", "parity::settings", "gated_mlp/block::spec"] {
        let ran = Ran::of(project.xtask(&["parity", filter]).output().unwrap());
        assert_eq!(ran.code, Some(1), "{}", ran.text);
        ran.prints(&[&format!("no trial has `{filter}` in its name")]);
    }
    assert_eq!(project.forwards(), 0);
}

#[test]
fn a_suite_that_runs_nothing_is_red_under_parity_whatever_cargo_reports() {
    let project = Project::with_port("right");
    let mut parity = project.xtask(&["parity"]);
    // This is what Cargo prints if the suite's target has libtest's harness.
    fs::write(project.path("cargo"), "#!/bin/sh\necho 'running 0 tests'\n").unwrap();
    let ran = Ran::of(parity.output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&["no suite `parity` ran, though Cargo reports success", "`harness = false`"]);
}

#[rstest]
fn a_file_that_looks_like_a_spec_and_is_none_is_red(
    #[values("block.YAML", "other.yml", "other.yaml.bak", "other.yaml~", "other.Yml.orig")] name: &str,
) {
    let project = Project::with_port("right");
    let file = format!("parity-specs/gated_mlp/{name}");
    fs::copy(project.path(SPEC), project.path(&file)).unwrap();
    let trial = format!("gated_mlp/{name}::spec");
    project.run(&[]).is_red(&[&trial, "it looks like a spec, but a spec's file name ends in `.yaml`"]);
    let listed = project.run(&["--list"]);
    listed.is_green();
    listed.prints(&[&format!("{trial}: test")]);
    project
        .run(&["--exact", &trial])
        .is_red(&["it looks like a spec, but a spec's file name ends in `.yaml`"]);
    project.run(&["gated_mlp"]).is_red(&["it looks like a spec, but a spec's file name ends in `.yaml`"]);
    let lint = Ran::of(project.xtask(&["lint"]).output().unwrap());
    assert_eq!(lint.code, Some(1), "{}", lint.text);
    lint.prints(&[name, "it looks like a spec, but a spec's file name ends in `.yaml`"]);
}

#[test]
fn what_editors_hide_is_no_spec() {
    let project = Project::with_port("right");
    for name in [".block.yaml.swp", ".block.yaml~", "notes.md"] {
        fs::write(project.path(&format!("parity-specs/gated_mlp/{name}")), "x").unwrap();
    }
    project.run(&[]).is_green();
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn values_without_a_golden_must_be_finite() {
    let gated = |port: &str, more: &str| {
        let project = Project::with_port(port);
        project.declare(&format!("  - {{name: gated, dtype: float32, shape: [1, tokens, hidden]{more}}}"));
        project.run(&["::gated"])
    };
    gated("right", "").is_green();
    gated("nan", "").is_red(&["gated: NaN or infinity differs", "but there is no golden to compare with"]);
    gated("nan", ", nan: equal").is_green();
    gated("nan", ", range: [-100, 100]").is_red(&["but there is no golden to compare with"]);
}
