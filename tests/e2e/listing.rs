//! Listing, filters and requirements: which trials exist, and which of them run.

use std::fs;

use crate::project::{Project, Ran, SPEC};

#[test]
fn a_spec_that_cannot_be_read_is_red_by_its_name_and_listing_still_works() {
    let project = Project::with_port("right");
    project.edit(SPEC, "dtype: float32", "dtyp: float32");
    let ran = project.run(&[]);
    ran.is_red(&["dtyp", "`dtype`", "block.yaml:"]);
    assert_eq!(ran.ended("FAILED"), ["spec"]);
    let listed = project.run(&["--list"]);
    listed.is_green();
    listed.prints(&["gated_mlp/block::spec: test"]);
}

#[test]
fn a_suite_without_specs_is_red() {
    let project = Project::with_port("right");
    fs::remove_dir_all(project.path("parity-specs/gated_mlp")).unwrap();
    project.run(&[]).is_red(&["parity::discovery", "no spec was found"]);
    project.run(&["--list"]).is_green();
}

#[test]
fn listing_starts_nothing_and_leaves_nothing() {
    let project = Project::without_kernels("abort");
    let listed = project.run(&["--list"]);
    listed.is_green();
    listed.prints(&["gated_mlp/block::norm: test", "gated_mlp/block::weights: test"]);
    assert!(!project.path("target").exists());
}

#[test]
fn a_filtered_run_stops_after_what_was_asked_for() {
    let project = Project::with_port("abort");
    let ran = project.run(&["--exact", "gated_mlp/block::gated"]);
    ran.is_green();
    assert_eq!(ran.ended("ok"), ["gated"]);
    assert!(!ran.text.contains("unreached") && !ran.text.contains("::out"), "{}", ran.text);
    // The filter selects nothing in this spec, so it does not run.
    project.run(&["nothing like it"]).is_green();
    assert_eq!(project.forwards(), 1);
}

#[test]
fn requirements_that_are_not_met_ignore_or_fail() {
    let project = Project::with_port("right");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\nrequires: [\"env:NEVER_SET\"]");
    let ran = project.run(&["gated_mlp"]);
    ran.is_green();
    ran.prints(&["6 ignored", "gated_mlp/block is ignored: it needs the environment variable NEVER_SET"]);
    let required = Ran::of(project.command(&[]).env("PARITY_REQUIRE", "all").output().unwrap());
    required.is_red(&["PARITY_REQUIRE=all does not allow ignored specs"]);
    let wrong = Ran::of(project.command(&[]).env("PARITY_REQUIRE", "yes").output().unwrap());
    wrong.is_red(&["PARITY_REQUIRE is `yes`, expected `declared` or `all`"]);
}
