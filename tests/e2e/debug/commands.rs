//! What each command does, and how commands fail.

use super::session::{Session, scoped, script};
use crate::project::{Project, SPEC};

#[test]
fn steps_go_from_tap_to_tap_into_scopes_and_out_of_them() {
    let project = scoped();
    let mut session = Session::start(&project, &[]);
    assert!(session.error("out").contains("no scope is open"));
    for name in ["norm", "gated", "out", "blocks.0.out"] {
        assert_eq!(session.tap("next"), name, "a deeper level is passed");
    }
    let here = session.ask("into");
    assert_eq!(here["tap"]["name"], "blocks.1.attn.q");
    assert_eq!(here["scopes"], serde_json::json!(["blocks.1", "attn"]));
    assert_eq!(here["tap"]["status"], "pass", "a deeper level is compared");
    let undeclared = session.ask("into");
    assert_eq!(undeclared["tap"]["name"], "blocks.1.attn.undeclared");
    assert_eq!(undeclared["tap"]["checked"], false);
    assert_eq!(undeclared["tap"]["actual_stats"]["max"], 2.0);
    assert_eq!(session.tap("out"), "blocks.1.out");
    assert_eq!(session.tap("out"), "blocks.2.out");
    assert_eq!(session.number("blocks.1.attn.undeclared[0]"), 2.0, "a tap at which the port stood is kept");
    assert!(session.error("eval blocks.0.attn.undeclared").contains("kept only where the port stands"));
    assert_eq!(session.tap("until en*"), "end");
    let end = session.ask("next");
    assert_eq!(end["why"]["reason"], "returned");
    assert_eq!(session.number("blocks.0.out[1]"), 1.0, "everything can be looked at after the end");
    let ended = session.ask("continue");
    assert_eq!((&ended["kind"], &ended["how"]), (&"ended".into(), &"finished".into()));
    assert!(session.error("vars").contains("there is no worker"));
    assert!(session.ends().success());
}

#[test]
fn breakpoints_know_axes_results_and_hits() {
    let project = scoped();
    let mut session = Session::start(&project, &[]);
    session.ask("break blocks.{i}.out when i % 2 == 0");
    session.ask("break blocks.*.q hit 2");
    session.ask("break failed");
    session.ask("break failed when hit == 9");
    let stops = [("blocks.0.out", [1]), ("blocks.1.attn.q", [2])];
    for (name, numbers) in stops {
        let stop = session.ask("continue");
        assert_eq!((&stop["tap"]["name"], &stop["why"]["numbers"]), (&name.into(), &numbers.into()));
    }
    // The loop of the tap's name, but not the axis of a breakpoint that did not stop here.
    assert_eq!(session.number("10 * blocks + hit"), 11.0);
    assert!(session.error("eval i").contains("unknown name `i`"));
    let stop = session.ask("continue");
    // The range ends at 2.
    assert_eq!(stop["tap"]["name"], "blocks.2.out");
    assert_eq!(stop["why"]["numbers"], serde_json::json!([1, 3]));
    assert_eq!(session.number("i + 10 * failed"), 12.0);
    assert_eq!(session.ask("set blocks.2.out actual * blocks")["now"], true);
    let breaks = session.ask("breaks");
    assert_eq!(breaks["breakpoints"][1]["hits"], 3, "hits are counted, also those that do not stop");
    let note = session.ask("break blocks.0.ou")["note"].as_str().unwrap().to_owned();
    assert!(note.contains("declares no checkpoint `blocks.0.ou`, did you mean `blocks.0.out`"), "{note}");
    assert_eq!(session.ask("remove 1")["breakpoints"].as_array().unwrap().len(), 4);
    assert!(session.error("remove 1").contains("there is no breakpoint `1`"));
    assert_eq!(session.ask("clear")["breakpoints"].as_array().unwrap().len(), 0);
    assert!(session.error("break end when (").starts_with("the condition is no expression: found the end"));
    // A condition that cannot be evaluated stops, and says so.
    session.ask("break end when nonsense > 1");
    let stop = session.ask("continue");
    assert_eq!(stop["tap"]["name"], "end");
    assert!(
        stop["note"].as_str().unwrap().contains("the condition of breakpoint 6 cannot be evaluated"),
        "{stop}"
    );
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn results_stop_where_they_are_wrong() {
    for (port, line) in [
        ("nan", "break nan"),
        ("scaled", "break used > 100"),
        ("shape", "break failed"),
        ("scaled", "break gated when abs(actual - golden).max() > 0.01"),
    ] {
        let project = Project::with_port(port);
        let mut session = Session::start(&project, &[]);
        session.ask(line);
        assert_eq!(session.tap("continue"), "gated", "{port}: {line}");
    }
    // Strictly below its tolerance, nothing stops.
    let project = Project::with_port("right");
    let mut session = Session::start(&project, &[]);
    session.ask("break used >= 1");
    session.ask("break nan");
    assert_eq!(session.ask("continue")["why"]["reason"], "returned");
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn another_tensor_goes_on_now_or_later() {
    let project = Project::with_port("scaled");
    let mut session = Session::start(&project, &[]);
    assert_eq!(session.ask("inject gated")["now"], false);
    let stop = session.ask("until out");
    assert_eq!((&stop["tap"]["status"], &stop["altered"]), (&"pass".into(), &true.into()));
    assert_eq!(session.number("abs(actual - golden).max() < 1e-5"), 1.0);
    assert!(session.error("inject gated").contains("the port has passed `gated`"));
    assert!(session.error("set ouut actual").contains("no checkpoint is called `ouut`, did you mean `out`?"));
    session.ask("restart");
    assert_eq!(session.tap("until gated"), "gated");
    assert!(
        session.error("set gated actual[0]").contains("the value has shape [6, 48], expected [1, 6, 48]")
    );
    assert_eq!(session.ask("set gated actual / 1.01")["now"], true);
    assert_eq!(session.ask("location")["goes_on"]["expression"], "actual / 1.01");
    assert_eq!(session.ask("next")["tap"]["status"], "pass");
    // A planned change that fails stops at its tap.
    session.ask("restart");
    session.ask("set gated nonsense");
    let stop = session.ask("continue");
    assert_eq!((&stop["tap"]["name"], &stop["why"]["reason"]), (&"gated".into(), &"change".into()));
    assert_eq!(session.ask("next")["tap"]["status"], "fail", "the port goes on with its own tensor");
}

#[test]
fn expressions_name_every_tensor_of_the_session() {
    let project = Project::with_port("scaled");
    let mut session = Session::start(&project, &[]);
    assert_eq!(session.number("input.x.shape[1]"), 6.0, "inputs and weights are there before the start");
    assert_eq!(session.number("weight.down.weight.shape[0] == down.weight.shape[0]"), 1.0);
    assert_eq!(session.number("golden.out.shape[2]"), 32.0, "a golden need not be reached");
    assert!(session.error("eval actual").contains("unknown name `actual`"));
    session.ask("until out");
    assert!((session.number("(gated / golden.gated).mean()") - 1.01).abs() < 1e-5);
    assert_eq!(session.number("abs(norm - actual.norm).max()"), 0.0);
    session.ask("eval d = actual - golden");
    assert!(session.number("abs(d).max()") > 0.0, "variables last while the port stands");
    let listed = session.ask("vars g*");
    let names: Vec<&str> =
        listed["variables"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["gate.weight", "gated"]);
    assert_eq!(session.ask("show gated[0, 1, :2]")["value"]["shape"], serde_json::json!([2]));
    assert!(session.error("show gatd").contains("there is no tensor `gatd`, did you mean `gated`?"));
}

#[test]
fn a_tensor_is_saved_to_a_new_file_only() {
    let project = Project::with_port("right");
    let mut session = Session::start(&project, &[]);
    session.tap("until gated");
    let file = project.path("gated.npy");
    let saved = session.ask(&format!("save actual {}", file.display()));
    assert_eq!(saved["tensor"]["shape"], serde_json::json!([1, 6, 48]));
    let written = std::fs::read(&file).unwrap();
    assert!(
        session.error(&format!("save golden {}", file.display())).contains("exists, expected a new file")
    );
    assert_eq!(std::fs::read(&file).unwrap(), written);
    assert!(session.error("save golden a.txt").contains("expected `.npy`"));
    assert!(
        session
            .error("save golden /no/such/folder/a.npy")
            .contains("the folder of `/no/such/folder/a.npy` does not exist")
    );
    let around = session.ask(&format!("save golden {}", project.path("target/../golden.npy").display()));
    assert_eq!(around["file"], project.path("golden.npy").canonicalize().unwrap().to_str().unwrap());
}

#[test]
fn hostile_expressions_are_errors_and_the_session_lives() {
    let project = Project::with_port("right");
    let mut session = Session::start(&project, &[]);
    session.tap("until gated");
    let deep = format!("eval {}1{}", "(".repeat(5000), ")".repeat(5000));
    let many = format!("eval {}1", "1;".repeat(200));
    let long = format!("eval {}", "1+".repeat(60_000));
    for line in [
        // 55 GB, and more steps than are allowed.
        "eval y = gated.reshape([288, 1]) + gated.reshape([1, 288]); y.reshape([82944, 1]) + y.reshape([1, 82944])",
        "eval y = gated.reshape([288, 1]) + gated.reshape([1, 288]); z = y @ y; z = z @ (z @ (z @ y)); z.nothing()",
        "eval gated.reshape([1e18, 1e18])",
        "eval 9 ** 9 ** 9 ** 9 [0]",
        "eval \u{1b}[31mred",
        "eval 'no such tensor'",
        "eval 1 +",
        "eval golden[99]",
        &deep,
        &many,
        "show gated 0:1:0",
        "set gated gated.reshape([288, 1]) + gated.reshape([1, 288])",
        "break {i",
        "until \"\"",
    ] {
        let message = session.error(line);
        assert!(!message.is_empty() && message.len() < 4000, "{message}");
    }
    assert_eq!(session.number("1 + 1"), 2.0);
    // A program that sends a line that is too long is told so, and its script ends.
    let ran = script(&project_of_its_own(), &format!("{long}\n"), &[]);
    assert_eq!(ran.code, Some(2), "{}", ran.text);
    ran.prints(&["line 1 of the script has more than 65536 bytes"]);
}

fn project_of_its_own() -> Project {
    Project::with_port("right")
}

#[test]
fn a_diagnosis_names_the_cause_and_earlier_errors() {
    let project = Project::with_port("scaled");
    let mut session = Session::start(&project, &[]);
    assert!(session.error("diagnose").contains("stands at no tap"));
    session.tap("until norm");
    assert!(session.error("diagnose").contains("`norm` has not failed"));
    session.tap("until gated");
    let found = session.ask("diagnose");
    assert!(found["causes"][0]["text"].as_str().unwrap().contains("1.01"), "{found}");
    assert!(found["note"].is_null());
    session.tap("until out");
    let later = session.ask("diagnose");
    assert!(later["note"].as_str().unwrap().contains("`gated` is red before it"), "{later}");
}

#[test]
fn the_workflows_of_a_session_hold() {
    // Two strategic breakpoints, and the shapes at each.
    let project = scoped();
    let mut session = Session::start(&project, &[]);
    session.ask("break gated");
    session.ask("break end");
    let shapes: Vec<_> = (0..2).map(|_| session.ask("continue")["tap"]["actual"]["shape"].clone()).collect();
    assert_eq!(shapes, [serde_json::json!([1, 6, 48]), serde_json::json!([2])]);
    session.ask("terminate");
    // The same shape later, from the trace.
    let stops = super::session::trace(&project);
    let gated = stops.iter().find(|line| line["answer"]["tap"]["name"] == "gated").unwrap();
    assert_eq!(gated["answer"]["tap"]["expected"]["shape"], shapes[0]);
    drop(session);
    // A breakpoint in a loop stops once, or until it is removed.
    let mut session = Session::start(&project, &[]);
    session.ask("break blocks.*.out first");
    assert_eq!(session.tap("continue"), "blocks.0.out");
    session.ask("break blocks.*.q");
    assert_eq!(session.tap("continue"), "blocks.1.attn.q");
    session.ask("remove blocks.*.q");
    assert_eq!(session.ask("continue")["why"]["reason"], "returned");
}

#[test]
fn a_stop_shows_the_lines_of_the_port_and_of_the_reference() {
    let project = Project::with_port("right");
    crate::project::copy_from_repository(&["tests/bad_ports/misbehaving.rs"], project.path("").as_path());
    let mut session = Session::start(&project, &[]);
    let stop = session.ask("until gated");
    let marked = |excerpt: &serde_json::Value| {
        let at = excerpt["line"].as_u64().unwrap() - excerpt["first"].as_u64().unwrap();
        assert_eq!(excerpt["lines"].as_array().unwrap().len(), 11, "five lines on each side");
        excerpt["lines"][at as usize].as_str().unwrap().to_owned()
    };
    assert!(marked(&stop["source"]).contains("tap(name, array)"), "{stop}");
    assert!(marked(&stop["reference"]).contains("rec.save(\"gated\""), "{stop}");
    assert_eq!(session.ask("location")["source"], stop["source"]);
}

#[test]
fn a_declared_injection_is_shown() {
    let project = Project::with_port("scaled");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ninject: [gated]");
    let mut session = Session::start(&project, &[]);
    let stop = session.ask("until gated");
    assert_eq!(stop["goes_on"]["tensor"], "golden");
    assert_eq!(session.ask("next")["tap"]["status"], "pass");
}
