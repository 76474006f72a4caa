//! Faults that a port plants itself, at a tap.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod project;

use project::{Project, Ran};

#[test]
fn what_a_tap_holds_is_changed_before_it_is_looked_at_and_gone_on_with() {
    let ran = Project::with_port("altered").run(&[]);
    ran.is_red(&[]);
    assert_eq!(ran.ended("FAILED"), ["gated", "out"]);
    assert_eq!(ran.ended("ok"), ["fixture", "norm", "weights"]);
}

#[test]
fn on_golden_inputs_only_its_own_stage_is_red() {
    let project = Project::with_port("altered");
    let mut command = project.command(&[]);
    let ran = Ran::of(command.env("PARITY_LOCALISE", "1").output().unwrap());
    assert_eq!(ran.ended("FAILED"), ["gated"], "{}", ran.said);
}

#[test]
fn a_second_change_of_a_name_replaces_the_first() {
    let project = Project::with_port("altered_otherwise");
    let ran = project.run(&[]);
    ran.is_green();
    // Timed, the same closure runs again on the same `Run`, and asks again.
    // What is red runs once more on golden inputs.
    for (port, red, forwards) in [("altered_otherwise", &[][..], 3), ("altered", &["gated", "out"], 4)] {
        let project = Project::with_port(port);
        let ran = Ran::of(project.command(&[]).env("PARITY_TIMES", "2").output().unwrap());
        assert_eq!(ran.ended("FAILED"), red, "{}", ran.said);
        assert_eq!(project.forwards(), forwards);
        assert!(!ran.said.contains("when it ran again"), "{}", ran.said);
    }
}

#[test]
fn a_change_of_a_tap_that_is_never_met_fails() {
    let ran = Project::with_port("altered_nowhere").run(&[]);
    ran.is_red(&["the port alters a tap that it never met: `gatd`"]);
    assert_eq!(ran.ended("ok"), ["gated", "norm", "out"]);
}

#[test]
fn a_change_that_fails_names_its_tap() {
    let ran = Project::with_port("altered_badly").run(&[]);
    ran.is_red(&["altering `gated`: "]);
    assert_eq!(ran.ended("ok"), ["norm"]);
}
