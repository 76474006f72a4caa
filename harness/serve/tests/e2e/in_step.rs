//! Both sides of a spec in step: the same commands to the reference, and to the port through each front.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::fronts::{Front, Opened, through_mcp, through_prompt, through_rest};
use crate::project::{ID, Project, own_xtask};

/// More than rounding makes.
const BOUND: f64 = 1e-4;

/// Commands that both sides have.
const COMMANDS: &[&str] = &[
    "break gated",
    "next",
    "show actual 0, 0, :4",
    "continue",
    "show actual 0, 0, :4",
    "show input.x 0, 1, :4",
    "show weight.norm.weight :4",
    "clear",
    "next",
    "continue",
    "show out 0, 5, -4:",
];

/// The reference of the spec, stepped through by `cargo xtask debug --reference` with lines from a pipe.
struct Reference {
    child: Child,
    answers: BufReader<ChildStdout>,
}

fn through_reference() -> Opened {
    let mut command = own_xtask(&["debug", ID, "--reference", "--json", "--yes"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let answers = BufReader::new(child.stdout.take().unwrap());
    let mut reference = Reference { child, answers };
    let start = reference.answer();
    (Box::new(reference), start)
}

impl Reference {
    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: `{line}`"))
    }
}

impl Front for Reference {
    fn perform(&mut self, line: &str) -> Value {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.answer()
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What must be the same in an answer of both sides, and numbers that may differ by rounding.
fn told(answer: &Value) -> (Vec<&Value>, Vec<f64>) {
    let places: &[&str] = match answer["kind"].as_str().unwrap() {
        "stopped" => &["/kind", "/why", "/tap/name", "/tap/hit", "/tap/actual", "/scopes", "/taps"],
        "tensor" => &["/kind", "/name", "/tensor", "/value/shape", "/value/left_out"],
        "breakpoints" => &["/kind", "/breakpoints"],
        other => panic!("{other}: {answer}"),
    };
    let statistics = [answer.pointer("/tap/actual_stats"), answer.get("stats")];
    let statistics = statistics.into_iter().flatten().flat_map(|stats| {
        ["min", "max", "mean", "std"].map(|name| stats[name].as_f64()).into_iter().flatten()
    });
    let values = answer.pointer("/value/values").and_then(Value::as_array).into_iter().flatten();
    let same = places.iter().map(|place| answer.pointer(place).unwrap_or(&Value::Null)).collect();
    (same, statistics.chain(values.map(|value| value.as_f64().unwrap())).collect())
}

#[test]
#[ignore = "slow: makes the environment of the references, and four sessions"]
fn a_port_and_its_reference_are_walked_in_step() {
    let (mut reference, _) = through_reference();
    let expected: Vec<Value> = COMMANDS.iter().map(|line| reference.perform(line)).collect();
    let stops: Vec<&str> = expected.iter().filter_map(|answer| answer["tap"]["name"].as_str()).collect();
    assert_eq!(stops, ["norm", "gated", "out"]);
    for open in [through_prompt, through_rest, through_mcp] {
        let project = Project::with_port("right");
        let (mut port, _) = open(&project);
        for (line, expected) in COMMANDS.iter().zip(&expected) {
            let actual = port.perform(line);
            let ((expected_facts, expected_numbers), (facts, numbers)) = (told(expected), told(&actual));
            assert_eq!(facts, expected_facts, "`{line}`: {actual}");
            assert_eq!(numbers.len(), expected_numbers.len(), "`{line}`: {actual}");
            let far = expected_numbers.iter().zip(&numbers).any(|(one, other)| (one - other).abs() > BOUND);
            assert!(!far, "`{line}`: expected {expected_numbers:?}, actual {numbers:?}");
        }
        assert!(expected.iter().any(|answer| !told(answer).1.is_empty()));
    }
}
