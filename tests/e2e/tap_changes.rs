//! Ports that change what a tap holds, through `Run::plant_fault`.

use crate::project::{Project, Ran};

#[test]
fn a_changed_tap_is_compared_and_the_port_goes_on_with_it() {
    let ran = Project::with_port("changed_tap").run(&[]);
    ran.is_red(&[]);
    assert_eq!(ran.ended("FAILED"), ["gated", "out"]);
    assert_eq!(ran.ended("ok"), ["fixture", "norm", "weights"]);
}

#[test]
fn on_golden_inputs_only_its_own_stage_is_red() {
    let project = Project::with_port("changed_tap");
    let mut command = project.command(&[]);
    let ran = Ran::of(command.env("PARITY_LOCALISE", "1").output().unwrap());
    assert_eq!(ran.ended("FAILED"), ["gated"], "{}", ran.text);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_second_change_of_a_name_replaces_the_first() {
    let project = Project::with_port("changed_tap_twice");
    let ran = project.run(&[]);
    ran.is_green();
    // A timed run calls the same closure with the same `Run` again, which changes the tap again.
    // A red port runs once more on golden inputs.
    for (port, red, forwards) in [("changed_tap_twice", &[][..], 5), ("changed_tap", &["gated", "out"], 6)] {
        let project = Project::with_port(port);
        let ran = Ran::of(project.command(&[]).env("PARITY_TIMES", "2").output().unwrap());
        assert_eq!(ran.ended("FAILED"), red, "{}", ran.text);
        assert_eq!(project.forwards(), forwards);
        assert!(!ran.text.contains("when it ran again"), "{}", ran.text);
    }
}

#[test]
fn a_change_of_a_tap_that_is_never_met_fails() {
    let ran = Project::with_port("changed_tap_never_met").run(&[]);
    ran.is_red(&["the port has a fault at a tap that it never reached: `gatd`"]);
    assert_eq!(ran.ended("ok"), ["gated", "norm", "out"]);
}

#[test]
fn a_change_that_fails_names_its_tap() {
    let ran = Project::with_port("changed_tap_fails").run(&[]);
    ran.is_red(&["the fault at `gated` failed: "]);
    assert_eq!(ran.ended("ok"), ["norm"]);
}
