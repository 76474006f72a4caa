//! Workflows of debug sessions, as data: command lines, and what must be seen in their answers. Each one goes through the
//! prompt, REST and MCP, and all three must give the same answers.

use serde_json::{Value, json};

use crate::fronts::{through_mcp, through_prompt, through_rest};
use crate::project::Project;

/// A command line, and what its answer has at some places (JSON pointers), as JSON.
type Step = (&'static str, &'static [(&'static str, &'static str)]);

/// The spec's port computes wrong numbers from `gated` on.
const LOOK_AND_REPAIR: &[Step] = &[
    ("break failed first", &[("/breakpoints/0/on", "\"failed\"")]),
    ("breaks", &[("/breakpoints/0/number", "1")]),
    ("continue", &[("/tap/name", "\"gated\""), ("/tap/status", "\"fail\"")]),
    ("location", &[("/kind", "\"location\""), ("/tap/name", "\"gated\"")]),
    ("vars *gate*", &[("/variables/0/kind", "\"weight\"")]),
    ("show golden 0, 0, :4", &[("/value/shape", "[4]")]),
    ("eval d = actual - golden; abs(d).max() > 0; d.shape", &[("/values/1/values", "[1.0, 6.0, 48.0]")]),
    ("diagnose", &[("/causes/0/text", "\"the golden times 1.01\"")]),
    ("eval nothing", &[("/kind", "\"error\"")]),
    ("show nothing", &[("/kind", "\"error\"")]),
    ("note here it starts", &[("/kind", "\"noted\"")]),
    ("set gated actual / 1.01", &[("/kind", "\"changed\""), ("/now", "true")]),
    ("next", &[("/tap/name", "\"out\""), ("/tap/status", "\"pass\""), ("/altered", "true")]),
    ("clear", &[("/breakpoints", "[]")]),
    ("continue", &[("/why/reason", "\"returned\"")]),
    ("terminate", &[("/how", "\"terminated\"")]),
];

/// The first workflow of the tools that came before: two breakpoints, and the shape at each.
const TWO_BREAKPOINTS: &[Step] = &[
    ("break gated", &[("/breakpoints/0/text", "\"gated\"")]),
    ("break end", &[("/breakpoints/1/text", "\"end\"")]),
    ("continue", &[("/tap/name", "\"gated\""), ("/why/numbers", "[1]")]),
    ("eval gated.shape", &[("/values/0/values", "[1.0, 6.0, 48.0]")]),
    ("continue", &[("/tap/name", "\"end\""), ("/why/numbers", "[2]")]),
    ("eval end.shape", &[("/values/0/values", "[2.0]")]),
    ("terminate", &[("/how", "\"terminated\""), ("/last_tap", "\"end\"")]),
];

/// The second: one late breakpoint, and a comparison with the reference there.
const COMPARED_WITH_THE_REFERENCE: &[Step] = &[
    ("break out", &[("/breakpoints/0/pattern", "\"out\"")]),
    ("continue", &[("/tap/name", "\"out\""), ("/tap/status", "\"pass\"")]),
    ("location", &[("/reference/file", "\"exporter/references/gated_mlp_block.py\"")]),
    ("eval gated.shape == golden.gated.shape", &[("/values/0/values", "[1.0, 1.0, 1.0]")]),
    ("eval abs(gated - golden.gated).max() < 1e-5", &[("/values/0/values", "[1.0]")]),
    ("terminate", &[("/how", "\"terminated\"")]),
];

/// The third: a breakpoint in a loop that is removed after its first hit.
const A_LOOP: &[Step] = &[
    ("break blocks.{i}.out", &[("/breakpoints/0/hits", "0")]),
    ("break end", &[]),
    ("continue", &[("/tap/name", "\"blocks.0.out\""), ("/scopes", "[\"blocks.0\"]")]),
    ("eval i; blocks; actual.mean()", &[("/values/0/values", "[0.0]"), ("/values/2/values", "[1.0]")]),
    ("remove blocks.{i}.out", &[("/breakpoints/0/text", "\"end\"")]),
    ("continue", &[("/tap/name", "\"end\""), ("/tap/status", "\"pass\"")]),
    ("continue", &[("/why/reason", "\"returned\"")]),
    ("restart", &[("/why/reason", "\"start\"")]),
    ("break *.q hit 2", &[]),
    ("continue", &[("/tap/name", "\"blocks.1.attn.q\""), ("/scopes", "[\"blocks.1\", \"attn\"]")]),
    ("out", &[("/tap/name", "\"blocks.1.out\"")]),
    ("into", &[("/tap/name", "\"blocks.2.attn.q\"")]),
    ("terminate", &[("/how", "\"terminated\"")]),
];

/// What the answers of the tutorial's script have, line by line: the port has an eps of 1e-5.
const DIVERGENCE: &str = include_str!("../../../cli/src/tutorial/crate/divergence.txt");
const IN_DIVERGENCE: &[&[(&str, &str)]] = &[
    &[("/breakpoints/0/text", "\"failed\"")],
    &[("/tap/name", "\"norm\""), ("/tap/status", "\"fail\"")],
    &[("/reference/line", "26")],
    &[("/causes/0/text", "\"the reference's with eps 1e-5 in place of 1e-6 in `add`\"")],
    &[("/name", "\"norm\""), ("/with/tensor", "\"golden\"")],
    &[("/tap/name", "\"gated\""), ("/tap/status", "\"pass\""), ("/altered", "true")],
    &[("/why/reason", "\"returned\"")],
];

#[test]
fn a_person_steps_to_the_divergence_as_in_the_tutorial() {
    assert_eq!(DIVERGENCE.lines().count(), IN_DIVERGENCE.len());
    let steps: Vec<Step> = DIVERGENCE.lines().zip(IN_DIVERGENCE.iter().copied()).collect();
    check(&steps, || Project::with_port("wrong_eps"));
}

#[test]
#[ignore = "slow: three sessions"]
fn a_failure_is_looked_at_and_repaired() {
    check(LOOK_AND_REPAIR, || Project::with_port("scaled"));
}

#[test]
#[ignore = "slow: three sessions"]
fn workflow_1_two_breakpoints_show_two_shapes() {
    check(TWO_BREAKPOINTS, Project::scoped);
}

#[test]
#[ignore = "slow: three sessions"]
fn workflow_2_a_late_stop_is_compared_with_the_reference() {
    check(COMPARED_WITH_THE_REFERENCE, || Project::with_port("right"));
}

#[test]
#[ignore = "slow: three sessions, with two workers each"]
fn workflow_3_a_breakpoint_in_a_loop_is_removed_after_its_first_hit() {
    check(A_LOOP, Project::scoped);
}

/// Takes the steps through each front.
#[track_caller]
fn check(steps: &[Step], project: fn() -> Project) {
    let answers = [through_prompt, through_rest, through_mcp].map(|open| {
        let project = project();
        let (mut front, start) = open(&project);
        let mut answers = vec![start];
        answers.extend(steps.iter().map(|(line, _)| front.perform(line)));
        drop(front);
        check_trace(&project, steps);
        answers
    });
    let [prompt, rest, mcp] = answers;
    assert_eq!(prompt[0]["why"], json!({"reason": "start"}), "{}", prompt[0]);
    for (at, line) in ["the start"].into_iter().chain(steps.iter().map(|(line, _)| *line)).enumerate() {
        assert_eq!(rest[at], prompt[at], "REST and the prompt differ after `{line}`");
        assert_eq!(mcp[at], prompt[at], "MCP and the prompt differ after `{line}`");
    }
    for ((line, expected), answer) in steps.iter().zip(&prompt[1..]) {
        for (place, value) in *expected {
            let value: Value = serde_json::from_str(value).unwrap();
            assert_eq!(answer.pointer(place), Some(&value), "{place} after `{line}`: {answer}");
        }
    }
}

/// The trace has every command of the workflow, in order, whatever front gave it. REST asks for the place of a stop besides.
#[track_caller]
fn check_trace(project: &Project, steps: &[Step]) {
    let trace = project.trace();
    let mut commands = trace.iter().filter_map(|line| line["text"].as_str());
    for (line, _) in steps {
        let text = mlx_parity_cli::debug::Command::parse(line).unwrap().unwrap().to_string();
        assert!(commands.any(|found| found == text), "the trace has no `{text}` at its place: {trace:?}");
    }
}
